// Small models as users write them, trained for tens of thousands of steps without a planted fault: the guards must
// stay silent. The losses stay at 0, fall to 0, have both signs or oscillate. Such losses do not show
// which loss is usual, so the spike guard must not base its decisions on them. It must still find planted bad batches.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

constexpr std::int64_t kSteps = 12000;  // steps per model
constexpr double kMostAlarms = 1e-4;    // largest allowed share of steps with an alarm

using Closure = std::function<Variable(toy::Two& net, const toy::Batch& batch)>;
using Data = std::function<toy::Batch(std::int64_t step)>;

/// Random numbers of one step: uniform in [0, 1), or approximately normal.
class Numbers {
 public:
  explicit Numbers(std::int64_t step) : stream_{31, RngPurpose::kData, static_cast<std::uint64_t>(step), 0, 0} {}
  float uniform() { return stream_.uniform(next_++); }
  float normal() {
    return uniform() + uniform() + uniform() + uniform() - uniform() - uniform() - uniform() - uniform();
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

Tensor rows_of(Numbers& numbers, std::int64_t rows, std::int64_t cols, float center = 0) {
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (float& v : values) v = center + numbers.normal();
  return Tensor::from(values, {rows, cols});
}

/// Anchors, positives and negatives of eight overlapping classes: at the end, most batches have a loss of 0.
toy::Batch triplets(std::int64_t step) {
  constexpr std::int64_t kEach = 4;
  Numbers numbers(step);
  std::vector<float> values(static_cast<std::size_t>(3 * kEach * 4));
  for (std::int64_t i = 0; i < kEach; ++i) {
    const auto own = static_cast<unsigned>(8 * numbers.uniform());
    const auto other = (own + 1 + static_cast<unsigned>(7 * numbers.uniform())) % 8;
    for (std::int64_t part = 0; part < 3; ++part) {
      const unsigned bits = part == 2 ? other : own;
      for (unsigned c = 0; c < 4; ++c)
        values[static_cast<std::size_t>((part * kEach + i) * 4 + c)] = (c < 3 && (bits >> c & 1u) != 0 ? 2.0f : -2.0f) +
                                                                       0.9f * numbers.normal();
    }
  }
  return {Tensor::from(values, {3 * kEach, 4}), Tensor()};
}

Variable triplet_loss(toy::Two& net, const toy::Batch& b) {
  const Variable y = net(b.x);
  const std::int64_t each = y.shape()[0] / 3;
  const Variable anchor = narrow(y, 0, 0, each);
  const auto apart = [&](std::int64_t part) { return sum(square(anchor - narrow(y, 0, part * each, each)), {1}); };
  return mean(relu(apart(1) - apart(2) + 0.5));
}

/// A target function that the network can represent: the loss falls to 0.
toy::Batch constants(std::int64_t step) {
  Numbers numbers(step);
  return {rows_of(numbers, 8, 4), Tensor::full({8, 2}, 0.3)};
}

/// A target function that the network can represent, plus noise.
toy::Batch noisy_line(std::int64_t step) {
  Numbers numbers(step);
  toy::Batch b{rows_of(numbers, 8, 4), rows_of(numbers, 8, 2)};
  for (std::int64_t i = 0; i < 16; ++i)
    b.target.mutable_data<float>()[i] = 0.3f * b.target.data<float>()[i] + b.x.data<float>()[i / 2 * 4 + i % 2];
  return b;
}

Variable squares(toy::Two& net, const toy::Batch& b) { return mse(net(b.x), Variable(b.target)); }

/// Two actions whose rewards are mostly noise: a loss of both signs.
toy::Batch rewards(std::int64_t step) {
  Numbers numbers(step);
  toy::Batch b{rows_of(numbers, 8, 4), Tensor::zeros({8, 2})};
  for (std::int64_t row = 0; row < 8; ++row) {
    const std::int64_t action = numbers.uniform() < 0.5f ? 0 : 1;
    const bool right = (b.x.data<float>()[4 * row] > 0) == (action == 0);
    b.target.mutable_data<float>()[2 * row + action] = (right ? 0.2f : -0.2f) + numbers.normal();
  }
  return b;
}

Variable policy_gradient(toy::Two& net, const toy::Batch& b) {
  return -mean(sum(log_softmax(net(b.x)) * Variable(b.target), {1}));
}

/// Real samples, and samples of a generator that approaches them and moves away again: the loss oscillates.
toy::Batch real_and_made(std::int64_t step) {
  Numbers numbers(step);
  const auto away = static_cast<float>(1.5 + 1.5 * std::cos(static_cast<double>(step) / 150));
  toy::Batch b{rows_of(numbers, 8, 4), Tensor::zeros({8, 1})};
  for (std::int64_t row = 0; row < 4; ++row) {
    b.target.mutable_data<float>()[row] = 1;
    for (std::int64_t c = 0; c < 4; ++c) b.x.mutable_data<float>()[4 * row + c] += away;
  }
  return b;
}

Variable discriminate(toy::Two& net, const toy::Batch& b) {
  return bce_with_logits(narrow(net(b.x), 1, 0, 1), Variable(b.target));
}

struct Alarms {
  std::int64_t refused = 0,
               diverges = 0;  // number of steps that were not committed at once; number of divergence warnings
  std::vector<std::int64_t> at;
};

Alarms train(const Data& data, const Closure& closure, std::int64_t steps, double lr) {
  Runtime runtime({.seed = 9, .threads = 1});
  toy::Two net;
  optim::AdamW optimizer(net, {.lr = lr});
  Trainer trainer(runtime, net, optimizer, {.telemetry = false});
  Alarms alarms;
  for (std::int64_t k = 1; k <= steps; ++k) {
    trainer.step(data(k), [&](const toy::Batch& b) { return closure(net, b); });
    for (const StepResult& r : trainer.finished()) {
      if (r.incident) alarms.at.push_back(k);
      alarms.refused += r.incident ? 1 : 0;
      alarms.diverges += std::ranges::count(r.warnings, WarningKind::kDivergence, &Warning::kind);
    }
  }
  return alarms;
}

TEST(CleanRuns, OfFourModelsRaiseNoAlarm) {
  struct Model {
    const char* name;
    Data data;
    Closure closure;
    double lr;
  };
  std::int64_t alarms = 0, steps = 0;
  for (const Model& m : {Model{"triplet loss", triplets, triplet_loss, 1e-3},
                         {"to zero", constants, squares, 1e-3},
                         {"policy gradient", rewards, policy_gradient, 1e-3},
                         {"discriminator", real_and_made, discriminate, 1e-3}}) {
    const Alarms a = train(m.data, m.closure, kSteps, m.lr);
    EXPECT_EQ(a.diverges, 0) << m.name;
    std::printf("%-16s %5ld steps, %ld alarms\n", m.name, static_cast<long>(kSteps), static_cast<long>(a.refused));
    alarms += a.refused;
    steps += kSteps;
  }
  EXPECT_LE(static_cast<double>(alarms), kMostAlarms * static_cast<double>(steps));
}

/// Every 500th batch is wrong by a factor of 30; all others are unchanged.
TEST(CleanRuns, PlantedBadBatchesAreFound) {
  const auto spoiled = [](std::int64_t k) {
    toy::Batch b = noisy_line(k);
    if (k % 500 == 0)
      for (std::int64_t i = 0; i < 16; ++i) b.target.mutable_data<float>()[i] *= 30;
    return b;
  };
  const Alarms a = train(spoiled, squares, 4001, 1e-3);
  EXPECT_EQ(a.at, (std::vector<std::int64_t>{501, 1001, 1501, 2001, 2501, 3001, 3501, 4001}))
      << "the batch after each shows it";
}

}  // namespace
}  // namespace binade::amp
