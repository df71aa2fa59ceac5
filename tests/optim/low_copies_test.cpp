#include <gtest/gtest.h>

#include <vector>

#include "binade/core/backend.h"
#include "binade/core/precision.h"
#include "binade/nn/linear.h"
#include "binade/optim/adam.h"
#include "tests/optim/toy.h"

// Tests the 16-bit copies of parameters. The first read makes a copy, in the memory where the optimizer later writes
// it.
namespace binade::optim {
namespace {

class LowCopies : public ::testing::Test {
 protected:
  Variable::State& state(std::size_t i) const { return *parameters_[i].variable.state(); }
  void set_gradients() const {
    for (const NamedParameter& p : parameters_)
      toy::set_gradient(p.variable, toy::gradient(p.variable.value().numel(), 1, 1));
  }
  void step() {
    set_gradients();
    optimizer_.step({.lr = 0.01});
  }

  const Runtime runtime_;
  std::vector<NamedParameter> parameters_ = toy::parameters();
  AdamW optimizer_{parameters_};
};

TEST_F(LowCopies, ExistOnce) {
  Backend& backend = backend_of(Device::cpu());
  set_gradients();
  backend.reset_peak();
  const std::size_t before = backend.bytes_in_use();
  std::vector<const void*> made;
  for (std::size_t i = 0; i < parameters_.size(); ++i) made.push_back(state(i).low_copy(DType::bf16).raw());
  optimizer_.step({.lr = 0.01});
  const auto flat = 2 * static_cast<std::size_t>(optimizer_.parameters().flat_size());
  EXPECT_EQ(backend.bytes_in_use() - before, flat);
  EXPECT_EQ(backend.bytes_peak() - before, flat);
  EXPECT_TRUE(optimizer_.parameters().low_copies_are_written());
  for (std::size_t i = 0; i < parameters_.size(); ++i) EXPECT_EQ(state(i).low_copy(DType::bf16).raw(), made[i]);
}

TEST_F(LowCopies, AreNotAllocatedIfNoneIsRead) {
  const std::size_t before = backend_of(Device::cpu()).bytes_in_use();
  step();
  EXPECT_EQ(backend_of(Device::cpu()).bytes_in_use(), before);
}

TEST_F(LowCopies, OfFrozenParametersAreMadeOnce) {
  nn::Linear frozen({.in = 8, .out = 8});
  frozen.requires_grad(false);
  const PolicyScope policy({.name = "bf16", .low = DType::bf16});
  const Variable x = Tensor::full({2, 8}, 0.5);
  const Tensor y = frozen(x).value();
  const Tensor copy = frozen.weight.state()->low;
  ASSERT_TRUE(copy.defined());
  const std::uint64_t version = copy.version();
  EXPECT_EQ(frozen(x).value().to_vector<float>(), y.to_vector<float>());
  EXPECT_EQ(frozen.weight.state()->low.raw(), copy.raw()) << "not made again";
  EXPECT_EQ(copy.version(), version) << "not written again";
  frozen.weight.mutable_value().fill(0);
  frozen.bias.mutable_value().fill(1);
  for (const float v : frozen(x).value().to_vector<float>()) EXPECT_EQ(v, 1) << "a changed weight is copied again";
}

/// A new copy must not invalidate another copy that an op of the same forward has saved.
TEST_F(LowCopies, DoNotInvalidateOtherCopiesWhenMade) {
  const Tensor saved = state(0).low_copy(DType::bf16);
  const std::uint64_t version = saved.version();
  state(2).low_copy(DType::bf16);
  EXPECT_EQ(saved.version(), version);
}

TEST_F(LowCopies, InvalidateSavedCopiesWhenWritten) {
  const Tensor saved = state(2).low_copy(DType::bf16);
  const std::uint64_t made = saved.version();
  step();
  const std::uint64_t stepped = saved.version();
  EXPECT_NE(stepped, made);
  state(2).value.fill(3);
  EXPECT_EQ(state(2).low_copy(DType::bf16).raw(), saved.raw()) << "not a second one while the first is there";
  EXPECT_NE(saved.version(), stepped);
  EXPECT_EQ(saved.at(0), 3);
}

TEST_F(LowCopies, InTheDtypeOfAnOverrideAreSeparateAndWrittenToo) {
  state(0).low_copy(DType::bf16);
  state(2).low_copy(DType::f16);
  for (int t = 0; t < 2; ++t) {
    step();
    EXPECT_TRUE(optimizer_.parameters().low_copies_are_written());
    EXPECT_EQ(state(0).low.to_vector<float>(), state(0).value.to(DType::bf16).to_vector<float>());
    EXPECT_EQ(state(2).low.to_vector<float>(), state(2).value.to(DType::f16).to_vector<float>());
  }
}

/// Ops of one forward may read the parameter in both dtypes, and save the copies that they read.
TEST_F(LowCopies, OfOneParameterInTwoDtypesAreIndependent) {
  const Tensor first = state(2).low_copy(DType::bf16), second = state(2).low_copy(DType::f16);
  const std::uint64_t version = first.version();
  EXPECT_EQ(state(2).low_copy(DType::bf16).to_vector<float>(), first.to_vector<float>());
  EXPECT_EQ(first.version(), version);
  EXPECT_EQ(second.to_vector<float>(), state(2).value.to(DType::f16).to_vector<float>());
  const std::vector<float> read = first.to_vector<float>();
  state(2).low_copy(DType::f16);
  state(2).value.fill(3);
  EXPECT_EQ(state(2).low_copy(DType::bf16).at(0), 3);
  EXPECT_TRUE(first.version() != version || first.to_vector<float>() == read) << "written, and nobody is told";
}

/// Otherwise a 16-bit copy or a saved tensor from before the update would count as current.
TEST_F(LowCopies, AnUpdateRaisesTheVersionsOfParametersThatALaterOptimizerHoldsToo) {
  AdamW later(parameters_);
  const auto versions = [&] {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < parameters_.size(); ++i) all.push_back(state(i).value.version());
    return all;
  };
  for (AdamW* optimizer : {&optimizer_, &later}) {
    const std::vector<std::uint64_t> before = versions();
    set_gradients();
    optimizer->step({.lr = 0.01});
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      EXPECT_GT(versions()[i], before[i]) << i;
      EXPECT_EQ(state(i).low_copy(DType::bf16).to_vector<float>(), state(i).value.to(DType::bf16).to_vector<float>());
    }
  }
}

TEST_F(LowCopies, OfMovedParametersAreMadeAgain) {
  const Tensor before = state(2).low_copy(DType::bf16);
  const FlatParameters moved(parameters_);
  const Tensor after = state(2).low_copy(DType::bf16);
  EXPECT_FALSE(after.shares_storage_with(before));
  EXPECT_TRUE(after.shares_storage_with(state(0).low_copy(DType::bf16)));
  EXPECT_EQ(after.to_vector<float>(), before.to_vector<float>());
}

}  // namespace
}  // namespace binade::optim
