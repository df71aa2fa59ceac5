// 2. Variables: tensors that record the ops on them. backward() runs the tape in reverse.
#include <binade.h>

#include <cstdio>

using namespace binade;

int main() {
  Runtime runtime({.seed = 1});

  // Least squares by hand: find w with x w = y.
  const Tensor x = Tensor::from(std::vector<float>{1, 0, 0, 1, 1, 1, 2, -1}, {4, 2});
  const Tensor y = Tensor::from(std::vector<float>{3, -2, 1, 8}, {4, 1});
  Variable w(Tensor::zeros({2, 1}), /*requires_grad=*/true);

  for (int step = 1; step <= 100; ++step) {
    w.zero_grad();
    const Variable loss = mse(matmul(x, w), y);
    backward(loss);
    // The update is not recorded on the tape, because gradients and values are plain tensors.
    const std::vector<float> gradient = w.grad().to_vector<float>();
    std::vector<float> value = w.value().to_vector<float>();
    for (std::size_t i = 0; i < value.size(); ++i) value[i] -= 0.2f * gradient[i];
    w.state()->value.copy_from(Tensor::from(value, {2, 1}));
    if (step % 25 == 0) std::printf("step %3d  loss %.6f\n", step, loss.item());
  }
  std::printf("w %s (wanted 3, -2)\n", w.value().to_string().c_str());

  // A gradient can be checked against central differences in double.
  const Tensor at = Tensor::from(std::vector<double>{0.5, -1.5, 2.0}, {3});
  const GradcheckResult result = gradcheck([](const std::vector<Variable>& in) { return gelu(in[0]) * in[0]; }, {at});
  std::printf("gradcheck %s\n", result.passed ? "passed" : result.message.c_str());

  // The tape frees its tensors during backward; a second backward is an error.
  const Variable a(at, true);
  const Variable once = sum(a * a);
  backward(once);
  try {
    backward(once);
  } catch (const AutogradError& error) {
    std::printf("%s\n", error.what());
  }
}
