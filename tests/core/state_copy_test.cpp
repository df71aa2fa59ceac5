#include "binade/core/state_copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace binade {
namespace {

Tensor counted(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 1.0f);
  return Tensor::from(values, shape);
}

TEST(StateCopy, ClonedSharesNoMemory) {
  StateDict state;
  state.put("model/large", counted({3, 1 << 18}));  // several blocks, the last one incomplete
  state.put("model/slice", counted({6, 8}).channel_slice(2, 3));
  state.put("model/empty", Tensor::empty({0}, DType::f32));
  state.put("progress/step", std::int64_t{5});
  state.put("amp/policy", std::string("bf16"));
  const StateDict copies = cloned(state);
  ASSERT_EQ(copies.values().size(), state.values().size());
  for (const char* name : {"model/large", "model/slice", "model/empty"}) {
    const Tensor a = copies.tensor(name), b = state.tensor(name);
    EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>()) << name;
    EXPECT_TRUE(a.contiguous());
    EXPECT_FALSE(a.shares_storage_with(b)) << name;
  }
  EXPECT_EQ(copies.integer("progress/step"), 5);
  EXPECT_EQ(copies.text("amp/policy"), "bf16");
}

TEST(StateCopy, OnHostDoesNotCopyAStateOnTheHost) {
  StateDict state;
  state.put("model/whole", counted({4, 4}));
  state.put("model/slice", counted({6, 8}).channel_slice(2, 3));
  const StateDict here = on_host(state);
  EXPECT_TRUE(here.tensor("model/whole").shares_storage_with(state.tensor("model/whole")));
  EXPECT_FALSE(here.tensor("model/slice").shares_storage_with(state.tensor("model/slice")));
  EXPECT_EQ(here.tensor("model/slice").to_vector<float>(), state.tensor("model/slice").to_vector<float>());
}

}  // namespace
}  // namespace binade
