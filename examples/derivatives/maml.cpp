// Model-agnostic meta-learning (Finn, Abbeel, Levine, 2017): find initial weights from which a single SGD step on ten
// points of a new sine wave already fits that wave. The loss after the step is differentiated through the step, which
// contains a gradient. See docs/second-derivatives.md.
#include <binade.h>

#include <cmath>
#include <cstdio>

using namespace binade;

constexpr std::int64_t kPoints = 10;
constexpr double kInnerRate = 0.05;

struct SineTask {
  double amplitude, phase;
  RandomStream stream;

  explicit SineTask(std::uint64_t number) : stream{.seed = 5, .purpose = RngPurpose::kData, .step = number} {
    amplitude = 1 + 2 * stream.uniform(0);
    phase = 3 * stream.uniform(1);
  }
  struct Sample {
    Tensor x, y;
  };
  Sample sample(std::uint64_t set) const {
    std::vector<float> x, y;
    for (std::uint64_t i = 0; i < kPoints; ++i) {
      x.push_back(-3 + 6 * stream.uniform(2 + kPoints * set + i));
      y.push_back(static_cast<float>(amplitude * std::sin(x.back() + phase)));
    }
    return {Tensor::from(x, {kPoints, 1}), Tensor::from(y, {kPoints, 1})};
  }
};

/// A network as a function of its weights, so that it can be computed with weights that are results of an update.
struct Net : nn::Module {
  nn::Linear in{{.in = 1, .out = 32}}, middle{{.in = 32, .out = 32}}, out{{.in = 32, .out = 1}};

  void visit(nn::Visitor& v) override { v("in", in), v("middle", middle), v("out", out); }
  std::vector<Variable> weights() { return {in.weight, in.bias, middle.weight, middle.bias, out.weight, out.bias}; }
  static Variable predict(const std::vector<Variable>& w, const Variable& x) {
    return linear(tanh(linear(tanh(linear(x, w[0], w[1])), w[2], w[3])), w[4], w[5]);
  }
};

/// Returns the weights after one step of SGD on the loss of `sample`, as a recorded function of the weights before it.
std::vector<Variable> adapted(const std::vector<Variable>& weights, const SineTask::Sample& sample) {
  const Variable loss = mse(Net::predict(weights, sample.x), sample.y);
  const std::vector<Variable> gradients = grad(loss, weights, {.create_graph = true});
  std::vector<Variable> result;
  for (std::size_t i = 0; i < weights.size(); ++i) result.push_back(weights[i] - kInnerRate * gradients[i]);
  return result;
}

/// The loss on other points of the task's wave, after one step.
Variable loss_after_step(Net& net, const SineTask& task) {
  const SineTask::Sample other = task.sample(1);
  return mse(Net::predict(adapted(net.weights(), task.sample(0)), other.x), other.y);
}

double mean_loss_of_unseen_tasks(Net& net) {
  double sum = 0;
  for (std::uint64_t i = 0; i < 20; ++i) sum += loss_after_step(net, SineTask(1'000'000 + i)).item();
  return sum / 20;
}

int main() {
  Runtime runtime({.seed = 1});
  Net net;
  optim::Adam optimizer(net, {.lr = 3e-3});
  const double before = mean_loss_of_unseen_tasks(net);
  for (std::uint64_t step = 1; step <= 400; ++step) {
    optimizer.zero_grad();
    for (std::uint64_t task = 0; task < 4; ++task)
      backward(loss_after_step(net, SineTask(4 * step + task)), /*seed=*/0.25);  // gradients of the tasks add up
    optimizer.step();
  }
  const double after = mean_loss_of_unseen_tasks(net);
  std::printf("loss after one step on an unseen wave: %.3f with the first weights, %.3f with the learned ones\n",
              before, after);
  return after < 0.4 * before ? 0 : 1;
}
