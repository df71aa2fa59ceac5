// Many threads run the forward pass of a model that no thread has used before, under every precision policy.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <tuple>

#include "tests/threads/count.h"
#include "tests/threads/crowd.h"
#include "tests/threads/mixed_model.h"

namespace binade {
namespace {

using test::MixedModel;

const char* const kPolicies[] = {"fp32", "tf32", "fp16", "bf16", "fp8", "pure-fp16", "pure-bf16"};
constexpr int kThreads = 16;

/// The settings of one model in the test.
struct Case {
  int policy = 0;          ///< index into kPolicies
  bool optimizer = false;  ///< the weights lie in an optimizer's flat storage
  bool overrides = false;  ///< half of the threads read some weights in another dtype
};

amp::Policy policy_of(const Case& c, int thread) {
  amp::Policy policy = amp::Policy::by_name(kPolicies[c.policy]);
  if (c.overrides && thread % 2 == 1)
    policy = policy.with("head", DType::f32).with("mlp.*", policy.low == DType::f16 ? DType::bf16 : DType::f16);
  return policy;
}

/// A model before its first forward pass.
struct Fresh {
  explicit Fresh(const Case& c) {
    const amp::Policy policy = amp::Policy::by_name(kPolicies[c.policy]);
    model.eval();
    if (policy.fp8_linear && c.overrides) nn::use_fp8(model);
    if (!c.optimizer && policy.master_weights) return;
    optimizer = std::make_unique<optim::AdamW>(model, optim::AdamWOptions{});
    if (!policy.master_weights) optimizer->store_weights_in(policy.low, true);
  }
  MixedModel model;
  std::unique_ptr<optim::AdamW> optimizer;
};

Tensor output(MixedModel& model, const Case& c, int thread, int seed) {
  const PolicyScope policy(policy_of(c, thread));
  const NoGradGuard no_grad;
  return model(test::image(seed, 2 + thread % 3)).value();
}

/// Doubles all weights. Like an update, this makes the 16-bit copies outdated.
void change_weights(MixedModel& model) {
  for (auto& [name, parameter] : nn::named_parameters(model))
    parameter->mutable_value().copy_from((*parameter * 2.0).value());
}

/// Runs the model on all threads at once and compares the bits with those of `reference`, an equal model that one
/// thread has used alone. Returns the number of threads with other bits.
int differences(test::Crowd& crowd, MixedModel& model, MixedModel& reference, const Case& c, int seed) {
  std::vector<Tensor> expected, got(static_cast<std::size_t>(crowd.size()));
  for (int thread = 0; thread < crowd.size(); ++thread) expected.push_back(output(reference, c, thread, seed));
  crowd.run([&](int thread) { got[static_cast<std::size_t>(thread)] = output(model, c, thread, seed); });
  int different = 0;
  for (std::size_t i = 0; i < got.size(); ++i) different += !test::same_bits(got[i], expected[i]);
  return different;
}

TEST(Inference, ManyThreadsUseAFreshModelAsOneThreadDoes) {
  Runtime runtime({.seed = 1});
  test::Crowd crowd(kThreads);
  int different = 0;
  for (int i = 0; i < test::fresh_models(); ++i) {
    const Case c{.policy = i % 7, .optimizer = i / 7 % 2 == 1, .overrides = i / 14 % 2 == 1};
    Fresh fresh(c), reference(c);
    nn::load_state_dict(reference.model, nn::state_dict(fresh.model));
    different += differences(crowd, fresh.model, reference.model, c, i);      // fresh
    different += differences(crowd, fresh.model, reference.model, c, i + 1);  // warm
    change_weights(fresh.model);
    change_weights(reference.model);
    different += differences(crowd, fresh.model, reference.model, c, i);  // outdated copies
    ASSERT_EQ(different, 0) << "model " << i << " under " << kPolicies[c.policy];
  }
}

}  // namespace
}  // namespace binade
