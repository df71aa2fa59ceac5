#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/state_hash.h"
#include "binade/amp/step/step_transaction.h"
#include "binade/core/error.h"
#include "tests/amp/toy.h"

/// StepTransaction: in a hand-written loop too, a step commits whole or leaves no trace.
namespace binade::amp {
namespace {

struct Loop {
  Runtime runtime{{.seed = 1}};
  toy::Net first, second;
  optim::AdamW a{first, {.lr = 0.01}}, b{second, {.lr = 0.01}};
  LossScaler scaler{LossScaleOptions::dynamic(1024)};
  StepTransaction transaction{{&first, &second}, {&a, &b}};

  std::string state_hash() {
    StateDict state;
    state.merge("model/first", nn::state_dict(first));
    state.merge("model/second", nn::state_dict(second));
    state.merge("optim/a", a.state());
    state.merge("optim/b", b.state());
    return amp::state_hash(state);
  }
  bool update(toy::Net& net, optim::Optimizer& optimizer, std::uint32_t k, double factor = 1) {
    scaler.backward(toy::loss(net, toy::batch(k)) * factor);
    return scaler.step(optimizer).committed;
  }
};

TEST(StepTransaction, HandWrittenStepCommitsWhole) {
  Loop loop;
  const std::string before = loop.state_hash();
  EXPECT_TRUE(
      loop.transaction.run([&] { return loop.update(loop.first, loop.a, 0) && loop.update(loop.second, loop.b, 1); }));
  EXPECT_NE(before, loop.state_hash());
  EXPECT_EQ(loop.first.count.committed().at(0), 1);
  EXPECT_FALSE(loop.first.count.pending());
}

TEST(StepTransaction, HandWrittenStepLeavesNoTraceOfHalfAStep) {
  Loop loop;
  loop.transaction.run([&] { loop.update(loop.first, loop.a, 0); });
  const std::string before = loop.state_hash();
  EXPECT_FALSE(loop.transaction.run([&] {
    EXPECT_TRUE(loop.update(loop.first, loop.a, 1));
    loop.second.fragile = 1e-9;  // gradients become NaN
    return loop.update(loop.second, loop.b, 2);
  }));
  EXPECT_EQ(before, loop.state_hash());
  EXPECT_LT(loop.scaler.scale(), 1024) << "the scale is not part of the transaction";
  EXPECT_THROW(loop.transaction.run([&] {
    EXPECT_TRUE(loop.update(loop.first, loop.a, 1));
    loop.update(loop.second, loop.b, 2, std::nan(""));
  }),
               NumericError);
  EXPECT_EQ(before, loop.state_hash());
}

/// Also not a buffer of another model, or one that no visit() names.
TEST(StepTransaction, AStepThatFailsChangesNoOtherBufferEither) {
  Loop loop;
  nn::Buffer other(Tensor::zeros({1}));
  for (const float value : {1.0f, 2.0f}) {
    EXPECT_TRUE(loop.transaction.run([&] { other.writable().fill(value); }));
    EXPECT_EQ(other.value().item(), value);
    other.commit();
    EXPECT_FALSE(loop.transaction.run([&] {
      other.writable().fill(7);
      return false;
    }));
    EXPECT_EQ(other.value().item(), value);
    EXPECT_FALSE(other.pending());
  }
}

TEST(StepTransaction, CanBeMoved) {
  Loop loop;
  const std::string before = loop.state_hash();
  std::vector<StepTransaction> transactions;
  transactions.push_back(std::move(loop.transaction));
  StepTransaction moved = std::move(transactions.front());
  EXPECT_FALSE(moved.run([&] { return loop.update(loop.first, loop.a, 0) && false; }));
  EXPECT_EQ(before, loop.state_hash());
  EXPECT_TRUE(moved.run([&] { return loop.update(loop.first, loop.a, 0); }));
  EXPECT_NE(before, loop.state_hash());
}

TEST(StepTransaction, RefusesTheSameOptimizerTwice) {
  Loop loop;
  EXPECT_THROW(StepTransaction({&loop.first}, {&loop.a, &loop.a}), ArgumentError);
  EXPECT_THROW(StepTransaction({nullptr}, {&loop.a}), ArgumentError);
}

}  // namespace
}  // namespace binade::amp
