#include <gtest/gtest.h>

#include "tests/amp/toy.h"

namespace binade::amp {

// A Variable can be a batch, like a Tensor. Its state() is not the state() of a batch type, and must not be taken for
// it.
TEST(VariableBatch, MakesTheStepOfItsTensor) {
  const auto state_after = [](const auto& x) {
    toy::Training run({.precision = Policy::fp32()});
    const Tensor target = toy::batch(0).target;
    const StepResult result = run.trainer.step(x, [&](const Variable& v) {
      return apply_one<toy::SquaredError>({}, {run.net(v), target});
    });
    EXPECT_TRUE(result.committed);
    return run.trainer.state_hash();
  };
  const Tensor x = toy::batch(0).x;
  EXPECT_EQ(state_after(Variable(x)), state_after(x));
}

}  // namespace binade::amp
