#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "binade/amp/incident/first_bad.h"
#include "binade/autograd/functions.h"
#include "binade/core/step_context.h"
#include "tests/autograd/test_ops.h"
#include "tests/core/op_check.h"

// Tests of ops that add a gradient to an existing one (GradSink::add_to), or write it over a saved tensor
// (GradSink::destination_over).
namespace binade {
namespace {

using testing::leaf;
using testing::scale;
using testing::Scale;

class AddTo : public ::testing::Test {};
class DestinationOver : public AddTo {};

/// y = factor (a + b). Backward adds to existing gradients.
struct Adding {
  struct Params {
    double factor = 1;
    int* held = nullptr;  ///< counts the existing gradients that backward added to
  };
  static constexpr OpInfo info{.name = "adding"};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    const std::vector<double> a = in[0].to_vector<double>(), b = in[1].to_vector<double>();
    std::vector<double> y(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) y[i] = p.factor * (a[i] + b[i]);
    return {Tensor::from(y, in[0].shape()).to(ctx.store_dtype)};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    for (int i = 0; i < 2; ++i) {
      if (!gx.needs(i)) continue;
      GradSink::Sum sum = gx.add_to(i);
      if (p.held != nullptr) *p.held += sum.holds ? 1 : 0;
      float* to = sum.tensor.mutable_data<float>();
      for (std::int64_t k = 0; k < sum.tensor.numel(); ++k) {
        const auto g = static_cast<float>(p.factor * gy[0].at(k));  // gy is read while `to` is written
        to[k] = sum.holds ? to[k] + g : g;
      }
    }
  }
};
Variable adding(const Variable& a, const Variable& b, double factor, int* held = nullptr) {
  return apply_one<Adding>({factor, held}, {a, b});
}
Variable ones() { return Variable(Tensor::full({2}, 1)); }

std::vector<float> grad_of(const Variable& x) { return x.grad().to_vector<float>(); }
Tensor cotangent() { return Tensor::from(std::vector<float>{1, 10}, {2}); }

TEST_F(AddTo, ALeafWithThreeUsesIsWrittenOnceAndAddedToTwice) {
  int held = 0;
  const Variable x = leaf({1, 2});
  const Variable y = adding(adding(x, ones(), 2, &held), x, 3, &held);
  backward(adding(y, x, 5, &held), cotangent());
  // Backward writes the gradient for the last use of x, and adds those of the other two. An activation that only one op
  // reads has no existing gradient.
  EXPECT_EQ(held, 2);
  EXPECT_EQ(grad_of(x), (std::vector<float>{5 + 15 + 30, 50 + 150 + 300}));
}

TEST_F(AddTo, ALeafGradientKeepsItsStorageAndIncrementsItsVersion) {
  int held = 0;
  const Variable x = leaf({1, 2});
  backward(adding(x, ones(), 2, &held), cotangent());
  const void* address = x.grad().raw();
  const std::uint64_t version = x.grad().version();
  backward(adding(x, ones(), 3, &held), cotangent());
  EXPECT_EQ(held, 1);
  EXPECT_EQ(x.grad().raw(), address);
  EXPECT_GT(x.grad().version(), version);
  EXPECT_EQ(grad_of(x), (std::vector<float>{5, 50}));
}

TEST_F(AddTo, AnOpThatReadsAVariableTwiceDoesNotAddToItsGradient) {
  int held = 0;
  const Variable x = leaf({1, 2});
  backward(adding(x, x, 2, &held), cotangent());
  EXPECT_EQ(grad_of(x), (std::vector<float>{4, 40}));
  backward(adding(x, x, 2, &held), cotangent());
  EXPECT_EQ(held, 0);
  EXPECT_EQ(grad_of(x), (std::vector<float>{8, 80}));
}

TEST_F(AddTo, APendingGradientOfAnActivationIsAddedTo) {
  int held = 0;
  const Variable x = leaf({1, 2});
  const Variable h = scale(x, 1);
  const Variable inner = adding(h, ones(), 2, &held);
  backward(adding(inner, h, 3, &held), cotangent());
  EXPECT_EQ(held, 1);
  EXPECT_EQ(grad_of(x), (std::vector<float>{9, 90}));
}

/// x + f(x): both branches receive the same gradient tensor, so neither may write into it.
TEST_F(AddTo, AGradientThatTwoOpsReceiveIsNotWritten) {
  int held = 0;
  const Variable x = leaf({1, 2});
  const Variable h = scale(x, 1);
  const Variable branch = adding(h, ones(), 2, &held);
  const Variable other = adding(h, ones(), 7, &held);
  backward(h + (branch + other), cotangent());
  EXPECT_EQ(grad_of(x), (std::vector<float>{10, 100}));
  EXPECT_EQ(held, 1);  // the second branch may add to the gradient of the first: only autograd refers to it
}

/// The caller passes the gradient of a leaf as the cotangent of the next pass. The op must not add to this tensor,
/// which it also reads.
TEST_F(AddTo, ACotangentThatTheOpReadsIsNotAddedTo) {
  int held = 0;
  const Variable x = leaf({1, 2});
  backward(scale(x, 1), cotangent());
  backward(adding(x, ones(), 2, &held), x.grad());
  EXPECT_EQ(held, 0);
  EXPECT_EQ(grad_of(x), (std::vector<float>{3, 30}));
}

TEST_F(AddTo, ARetainedGraphAddsAgain) {
  const Variable x = leaf({1, 2});
  const Variable h = scale(x, 1);
  const Variable y = adding(adding(h, ones(), 2), h, 3);
  backward(y, cotangent(), {.retain_graph = true});
  backward(y, cotangent());
  EXPECT_EQ(grad_of(x), (std::vector<float>{18, 180}));
}

TEST_F(AddTo, OpsWithDestinationAndSetAddToo) {
  const Variable x = leaf({2, 3});
  const Variable h = adding(x, ones(), 1);                                // 3, 4
  backward(adding(testing::product(h, x), scale(h, 5), 2), cotangent());  // 2 (h x + 5 h)
  EXPECT_EQ(grad_of(x), (std::vector<float>{2 * (2 + 3 + 5), 20 * (3 + 4 + 5)}));
}

/// Records the gradients that backward reports to observers.
class Watch final : public TapeObserver {
 public:
  explicit Watch(bool separates) : separates_(separates) {}
  bool separates_gradients() const override { return separates_; }
  void after_backward(const OpCall& call, std::span<const Tensor>, std::span<const Tensor> gx,
                      const Observation&) override {
    if (std::string_view(call.info.name) == "adding") seen.push_back(gx[0].clone().to_vector<float>());
  }
  std::vector<std::vector<float>> seen;

 private:
  bool separates_;
};

TEST_F(AddTo, ObserversGetTheSumOrOnRequestEachContribution) {
  for (const bool separates : {false, true}) {
    Watch watch(separates);
    const ObserverScope scope(watch);
    const Variable x = leaf({1, 2});
    backward(adding(x, ones(), 2), cotangent());
    backward(adding(x, ones(), 3), cotangent());
    const std::vector<float> second = separates ? std::vector<float>{3, 30} : std::vector<float>{5, 50};
    EXPECT_EQ(watch.seen, (std::vector<std::vector<float>>{{2, 20}, second}));
    EXPECT_EQ(grad_of(x), (std::vector<float>{5, 50}));
  }
}

/// Runs two layers with a shared weight, in which the gradient of layer `bad` overflows. Returns the op that
/// FirstBadSearch finds; "" for none.
std::string bad_op_of(const std::string& bad, bool nan_before) {
  const Variable w(Tensor::full({2, 2}, 1e-30), true);
  if (nan_before) {
    w.state()->grad = Tensor::full({2, 2}, std::numeric_limits<double>::quiet_NaN());
    w.state()->grad_defined = true;
  }
  amp::FirstBadSearch search(2);
  const ObserverScope scope(search);
  const auto layer = [&](const char* path) {
    const ModulePathScope module(path);
    return linear(Variable(Tensor::full({2, 2}, bad == path ? 1e38 : 1.0)), w, {});
  };
  const Variable y = layer("first") + layer("second");
  backward(y, Tensor::full({2, 2}, 100));
  const std::optional<amp::FirstBad> found = search.found();
  return found ? found->op + " [" + found->module + "] " + found->direction : "";
}

TEST_F(AddTo, TheOpWithTheBadContributionIsNamed) {
  EXPECT_EQ(bad_op_of("first", false), "linear [first] backward");
  EXPECT_EQ(bad_op_of("second", false), "linear [second] backward");
  EXPECT_EQ(bad_op_of("neither", false), "");
  EXPECT_EQ(bad_op_of("neither", true), "");  // no op of this pass computed the existing NaN
}

/// y = factor x. Writes the gradient over x if allowed. Backward then throws, `failures` times.
struct Over {
  struct Params {
    double factor = 1;
    int* failures = nullptr;
  };
  static constexpr OpInfo info{.name = "over"};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    ctx.save(in[0]);
    return {Scale::map(in[0], ctx.store_dtype, [&](double x) { return p.factor * x; })};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    const Tensor& x = ctx.saved(0, info.name);
    Tensor to = gx.destination_over(0, 0);
    for (std::int64_t i = 0; i < x.numel(); ++i)
      to.mutable_data<float>()[i] = static_cast<float>(p.factor * gy[0].at(i));
    if (p.failures != nullptr && (*p.failures)-- > 0) throw std::runtime_error("over: as wanted");
  }
};
Variable over(const Variable& x, int* failures = nullptr) { return apply_one<Over>({3, failures}, {x}); }

struct Given final : TapeObserver {
  void after_backward(const OpCall& call, std::span<const Tensor>, std::span<const Tensor> gx,
                      const Observation&) override {
    if (std::string_view(call.info.name) == "over") address = gx[0].raw();
  }
  const void* address = nullptr;
};

TEST_F(DestinationOver, IsASavedTensorThatNobodyElseHolds) {
  Given given;
  const ObserverScope scope(given);
  const Variable x = leaf({1, 2});
  const void* saved = nullptr;
  Variable y;
  {
    const Variable h = scale(x, 2);
    saved = h.value().raw();
    y = over(h);
  }
  backward(y, cotangent());
  EXPECT_EQ(given.address, saved);
  EXPECT_EQ(grad_of(x), (std::vector<float>{6, 60}));
}

TEST_F(DestinationOver, IsAllocatedIfTheSavedTensorIsHeld) {
  const Variable x = leaf({1, 2});
  const Variable h = scale(x, 2);
  const Tensor view = h.value().reshape({2, 1});
  backward(over(h), cotangent());
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(grad_of(x), (std::vector<float>{6, 60}));
}

TEST_F(DestinationOver, IsRightIfTwoOpsSavedOneTensor) {
  const Variable x = leaf({1, 2});
  Variable y;
  {
    const Variable h = scale(x, 2);
    y = testing::product(over(h), over(h));  // y = 9 h^2, dy/dh = 18 h = 36 x
  }
  backward(y, cotangent());
  EXPECT_EQ(grad_of(x), (std::vector<float>{72, 1440}));
}

TEST_F(DestinationOver, IsAllocatedIfTheGraphIsRetained) {
  const Variable x = leaf({1, 2});
  const Variable y = testing::product(over(scale(x, 2)), over(scale(x, 1)));  // 18 x^2
  backward(y, cotangent(), {.retain_graph = true});
  backward(y, cotangent());
  EXPECT_EQ(grad_of(x), (std::vector<float>{72, 1440}));
}

/// The first backward overwrites the saved tensor and then fails. The second backward must report this.
TEST_F(DestinationOver, ASecondBackwardAfterAFailedOneIsRefused) {
  int failures = 1;
  const Variable y = over(scale(leaf({1, 2}), 2), &failures);
  EXPECT_THROW(backward(y, cotangent()), std::runtime_error);
  EXPECT_THROW(backward(y, cotangent()), AutogradError);
}

TEST_F(DestinationOver, CrossEntropyKeepsLogitsThatAreHeld) {
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{1, 0, 2}, {3});
  Tensor x = Tensor::empty({3, 700});
  for (std::int64_t i = 0; i < x.numel(); ++i) x.mutable_data<float>()[i] = static_cast<float>(std::sin(0.37 * i));
  const auto gradient = [&](bool held) {
    const Variable leaf(x.clone(), true);
    Variable logits = leaf * 2.0;
    const std::vector<float> before = logits.value().to_vector<float>();
    const Variable loss = cross_entropy(logits, targets, {.label_smoothing = 0.1});
    if (!held) logits = {};
    backward(loss);
    if (held) {
      EXPECT_EQ(logits.value().to_vector<float>(), before);
    }
    return grad_of(leaf);
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

/// Convolutions and batch norm write gx over the saved x, but not if the caller still holds x.
TEST_F(DestinationOver, ValuesThatTheCallerHoldsAreUnchanged) {
  const Variable image(test::noise({1, 4, 4, 8}, 1, DType::f32), true),
      w(test::noise({8, 3, 3, 8}, 2, DType::f32), true);
  const Variable first = conv2d(image, w, {}, {.padding = 1});
  const Variable normed = batch_norm(first, {}, {}, {.relu = true}).y;
  const std::vector<float> values[] = {first.value().to_vector<float>(), normed.value().to_vector<float>()};
  backward(sum(conv2d(normed, w, {}, {.padding = 1})));
  EXPECT_EQ(first.value().to_vector<float>(), values[0]);
  EXPECT_EQ(normed.value().to_vector<float>(), values[1]);
}

/// The same computation with and without permission to overwrite (a retained graph forbids it) has the same bits.
TEST_F(DestinationOver, GradientsOverActivationsHaveTheBitsOfGradientsElsewhere) {
  std::vector<float> gradients[2];
  for (const bool retain : {false, true}) {
    const Variable image(test::noise({1, 4, 4, 8}, 1, DType::f32), true),
        w(test::noise({8, 3, 3, 8}, 2, DType::f32), true);
    const auto layer = [&w](const Variable& x) {
      return batch_norm(conv2d(x, w, {}, {.padding = 1}), {}, {}, {.relu = true}).y;
    };
    backward(sum(layer(layer(layer(image))) * test::noise({1, 4, 4, 8}, 3, DType::f32)), 1, {.retain_graph = retain});
    gradients[retain] = image.grad().to_vector<float>();
    const std::vector<float> of_w = w.grad().to_vector<float>();
    gradients[retain].insert(gradients[retain].end(), of_w.begin(), of_w.end());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

}  // namespace
}  // namespace binade
