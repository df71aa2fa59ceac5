// 4. Precision: a policy selects the dtype of each op, so that nothing is cast by hand; a scaler sets the loss scale.
#include <binade.h>

#include <cstdio>

using namespace binade;

int main() {
  Runtime runtime({.seed = 1});
  nn::Mlp model({.dim = 16, .hidden = 64});
  const RandomStream numbers{1, RngPurpose::kData};
  std::vector<float> values(64 * 16);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(numbers.normal(i));
  const Tensor x = Tensor::from(values, {64, 16});

  // The same model under three policies. An override takes precedence: here the last layer stays f32.
  for (const amp::Policy& policy :
       {amp::Policy::fp32(), amp::Policy::bf16(), amp::Policy::fp16().with("down", DType::f32)}) {
    const PolicyScope scope(policy);
    const Variable y = model(x);
    std::printf("%-24s output %s, first value %.6f\n", policy.to_string().c_str(),
                std::string(name_of(y.dtype())).c_str(), y.value().at(0));
  }

  // A custom training loop in fp16. The loss scale starts too high, so that steps are skipped and the scale
  // halves until no gradient overflows.
  const PolicyScope scope(amp::Policy::fp16());
  optim::AdamW optimizer(model, {.lr = 1e-2});
  amp::LossScaler scaler(amp::LossScaleOptions::dynamic(0x1p32));
  for (int step = 1; step <= 40; ++step) {
    const Variable loss = nn::mse(model(x), x);
    scaler.backward(loss);
    const StepStats stats = scaler.step(optimizer, {.clip_norm = 1});
    if (!stats.committed)
      std::printf("step %2d skipped: gradients overflowed at scale %g\n", step, stats.loss_scale);
    else if (step % 10 == 0)
      std::printf("step %2d  loss %.4f  scale %g\n", step, loss.item(), stats.loss_scale);
  }
}
