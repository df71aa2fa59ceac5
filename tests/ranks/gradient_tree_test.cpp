#include "binade/amp/ranks/gradient_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "binade/core/random.h"
#include "binade/core/runtime.h"
#include "binade/core/thread_ranks.h"

namespace binade::amp {
namespace {

constexpr int kParameters = 3;
constexpr std::int64_t kSizes[kParameters] = {5, 70, 1};

/// The gradient of a parameter in a leaf; empty if it has none there. Magnitudes differ by up to 2^40, so that another
/// order of additions gives other bits.
std::vector<float> gradient(int leaf, int parameter, int leaves) {
  if (parameter == 1 && leaf % 3 == 1) return {};
  if (parameter == 2 && leaf != leaves - 1) return {};
  const RandomStream random{3, RngPurpose::kData, static_cast<std::uint64_t>(leaf),
                            static_cast<std::uint32_t>(parameter)};
  std::vector<float> values(static_cast<std::size_t>(kSizes[parameter]));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::ldexp(random.normal(i), static_cast<int>(random.below(999 + i, 40)) - 20));
  if (parameter == 0) values[0] = -0.0f;
  return values;
}

/// The sum of one element, by the definition of the tree; no value if no leaf has a gradient.
std::optional<float> sum(int parameter, std::size_t i, LeafRange node, int leaves) {
  if (node.size() == 1) {
    const std::vector<float> values = gradient(node.begin, parameter, leaves);
    return values.empty() ? std::nullopt : std::optional(values[i]);
  }
  int width = 1;
  while (2 * width < node.size()) width *= 2;
  const auto left = sum(parameter, i, {node.begin, node.begin + width}, leaves);
  const auto right = sum(parameter, i, {node.begin + width, node.end}, leaves);
  if (!left || !right) return left ? left : right;
  volatile float total = *left + *right;  // one rounding to f32
  return total;
}

void expect_sums(int leaves, int ranks) {
  const auto body = [&](const std::shared_ptr<Communicator>& self) {
    Runtime runtime({.threads = 1});
    std::vector<optim::NamedParameter> named;
    for (int p = 0; p < kParameters; ++p)
      named.push_back({"p" + std::to_string(p), Variable(Tensor::zeros({kSizes[p]}), true)});
    optim::FlatParameters parameters(named);
    GradientTree tree({&parameters}, leaves);
    const LeafRange own = share_of(leaves, self->rank(), ranks);
    for (int leaf = own.begin; leaf < own.end; ++leaf) {
      for (int p = 0; p < kParameters; ++p) {
        const std::vector<float> values = gradient(leaf, p, leaves);
        if (values.empty()) continue;
        const auto at = static_cast<std::size_t>(p);
        parameters.gradient_of(at).copy_from(Tensor::from(values, {kSizes[p]}));
        Variable::State& state = *parameters.slices()[at].variable.state();
        state.grad = parameters.gradient_of(at);
        state.grad_defined = true;
      }
      tree.add(leaf);
      for (std::size_t p = 0; p < kParameters; ++p) EXPECT_FALSE(parameters.has_gradient(p));
    }
    std::vector<std::vector<std::vector<std::uint8_t>>> present;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& of_rank = present.emplace_back();
      for (const LeafRange node : nodes_of(leaves, share_of(leaves, rank, ranks))) {
        auto& of_node = of_rank.emplace_back(kParameters, std::uint8_t{0});
        for (int leaf = node.begin; leaf < node.end; ++leaf)
          for (int p = 0; p < kParameters; ++p)
            of_node[static_cast<std::size_t>(p)] |= !gradient(leaf, p, leaves).empty();
      }
    }
    EXPECT_EQ(tree.present(), present[static_cast<std::size_t>(self->rank())]);
    tree.finish(*self, present, "a test");
    for (int p = 0; p < kParameters; ++p) {
      const auto at = static_cast<std::size_t>(p);
      const std::vector<float> values = parameters.gradient_of(at).to_vector<float>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::optional<float> wanted = sum(p, i, {0, leaves}, leaves);
        ASSERT_EQ(parameters.has_gradient(at), wanted.has_value());
        if (!wanted) continue;
        ASSERT_EQ(values[i], *wanted) << "parameter " << p << ", element " << i << ", " << leaves << " leaves on "
                                      << ranks << " ranks";
        ASSERT_EQ(std::signbit(values[i]), std::signbit(*wanted));
      }
    }
  };
  run_thread_ranks(ranks, body, {.deadline = std::chrono::seconds(60)});
}

TEST(GradientTree, SumsHaveTheBitsOfTheDefinitionOnAnyNumberOfRanks) {
  for (const int leaves : {1, 2, 3, 4, 5, 7, 8, 12})
    for (int ranks = 1; ranks <= std::min(leaves, 6); ++ranks) expect_sums(leaves, ranks);
}

}  // namespace
}  // namespace binade::amp
