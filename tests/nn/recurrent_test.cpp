#include "binade/nn/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/autograd/inference_mode.h"
#include "binade/autograd/recompute.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/core/runtime.h"
#include "binade/nn/summary.h"
#include "tests/core/op_check.h"
#include "tests/error_text.h"

namespace binade::nn {
namespace {

using test::noise;

class RecurrentTest : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 5}};
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

std::vector<std::unique_ptr<RecurrentLayers>> one_of_each(const RecurrentOptions& o) {
  std::vector<std::unique_ptr<RecurrentLayers>> all;
  all.push_back(std::make_unique<Rnn>(
      RnnOptions{.in = o.in, .hidden = o.hidden, .layers = o.layers, .bidirectional = o.bidirectional}));
  all.push_back(std::make_unique<Lstm>(o));
  all.push_back(std::make_unique<Gru>(o));
  return all;
}

TEST_F(RecurrentTest, ParametersHaveTheNamesShapesAndDistributionOfPyTorch) {
  Lstm lstm({.in = 3, .hidden = 25, .layers = 2, .bidirectional = true});
  std::string names;
  for (const auto& [name, parameter] : named_parameters(lstm)) {
    names += name + " " + parameter->shape().to_string() + "\n";
    double largest = 0;
    for (const double v : parameter->value().to_vector<double>()) largest = std::max(largest, std::abs(v));
    EXPECT_LE(largest, 0.2) << name;
    EXPECT_GT(largest, 0.19) << name << ": 100 or more values from U(-0.2, 0.2)";
  }
  EXPECT_EQ(names,
            "weight_ih_l0 (100, 3)\nweight_hh_l0 (100, 25)\nbias_ih_l0 (100)\nbias_hh_l0 (100)\n"
            "weight_ih_l0_reverse (100, 3)\nweight_hh_l0_reverse (100, 25)\nbias_ih_l0_reverse (100)\n"
            "bias_hh_l0_reverse (100)\n"
            "weight_ih_l1 (100, 50)\nweight_hh_l1 (100, 25)\nbias_ih_l1 (100)\nbias_hh_l1 (100)\n"
            "weight_ih_l1_reverse (100, 50)\nweight_hh_l1_reverse (100, 25)\nbias_ih_l1_reverse (100)\n"
            "bias_hh_l1_reverse (100)\n");
  Gru gru({.in = 3, .hidden = 4, .bias = false});
  EXPECT_EQ(count_parameters(gru), 3 * 4 * 3 + 3 * 4 * 4);
}

TEST_F(RecurrentTest, CellsRepeatedEqualTheLayer) {
  const Variable x(noise({2, 4, 3}, 1, DType::f32));
  const auto check = [&](auto&& layer, auto&& cell) {
    const StateDict state = state_dict(layer);
    StateDict of_cell;
    for (const auto& [name, value] : state.values()) of_cell.put(name.substr(0, name.size() - 3), state.tensor(name));
    load_state_dict(cell, of_cell);
    const RecurrentResult whole = layer(x, {});
    RecurrentState now;
    for (std::int64_t t = 0; t < 4; ++t) {
      now = cell(reshape(narrow(x, 1, t, 1), {2, 3}), now);
      EXPECT_TRUE(same_bits(now.h.value(), reshape(narrow(whole.y, 1, t, 1), {2, 5}).value())) << t;
    }
    EXPECT_TRUE(same_bits(now.h.value(), reshape(whole.state.h, {2, 5}).value()));
    ASSERT_EQ(now.c.defined(), whole.state.c.defined());
    if (now.c.defined()) {
      EXPECT_TRUE(same_bits(now.c.value(), reshape(whole.state.c, {2, 5}).value()));
    }
  };
  check(Rnn({.in = 3, .hidden = 5}), RnnCell({.in = 3, .hidden = 5}));
  check(Rnn({.in = 3, .hidden = 5, .relu = true}), RnnCell({.in = 3, .hidden = 5, .relu = true}));
  check(Lstm({.in = 3, .hidden = 5}), LstmCell({.in = 3, .hidden = 5}));
  check(Gru({.in = 3, .hidden = 5}), GruCell({.in = 3, .hidden = 5}));
}

TEST_F(RecurrentTest, ASequenceInTwoPartsGivesTheStateOfTheWhole) {
  const Variable x(noise({2, 6, 3}, 1, DType::f32));
  for (const auto& layers : one_of_each({.in = 3, .hidden = 5, .layers = 2})) {
    const RecurrentResult whole = (*layers)(x, {});
    const RecurrentResult first = (*layers)(narrow(x, 1, 0, 2), {});
    const RecurrentResult rest = (*layers)(narrow(x, 1, 2, 4), first.state);
    EXPECT_TRUE(same_bits(rest.state.h.value(), whole.state.h.value())) << layers->kind();
    EXPECT_EQ(whole.state.c.defined(), layers->kind() == "Lstm");
    if (whole.state.c.defined()) EXPECT_TRUE(same_bits(rest.state.c.value(), whole.state.c.value()));
    EXPECT_TRUE(same_bits(rest.y.value(), narrow(whole.y, 1, 2, 4).value().contiguous_copy())) << layers->kind();
  }
}

TEST_F(RecurrentTest, LengthsGiveTheResultsOfTheSequencesAlone) {
  Tensor padded = noise({3, 5, 2}, 1, DType::f32);
  const std::vector<std::int64_t> lengths{2, 5, 1};
  for (const auto& layers : one_of_each({.in = 2, .hidden = 3, .layers = 2, .bidirectional = true})) {
    const Variable x(padded, true);
    const RecurrentResult all = (*layers)(x, {}, Tensor::from(lengths, {3}));
    backward(sum(all.y * all.y));
    const Tensor gx = x.grad();
    for (std::int64_t b = 0; b < 3; ++b) {
      const std::int64_t length = lengths[static_cast<std::size_t>(b)];
      const Variable one(narrow(narrow(Variable(padded), 0, b, 1), 1, 0, length).value().clone(), true);
      const RecurrentResult alone = (*layers)(one, {});
      backward(sum(alone.y * alone.y));
      for (std::int64_t t = 0; t < 5; ++t)
        for (std::int64_t j = 0; j < 6; ++j)
          EXPECT_FLOAT_EQ(all.y.value().at((b * 5 + t) * 6 + j), t < length ? alone.y.value().at(t * 6 + j) : 0);
      for (std::int64_t t = 0; t < 5; ++t)
        for (std::int64_t i = 0; i < 2; ++i)
          EXPECT_NEAR(gx.at((b * 5 + t) * 2 + i), t < length ? one.grad().at(t * 2 + i) : 0, 1e-6);
      for (std::int64_t part = 0; part < 4; ++part)
        for (std::int64_t j = 0; j < 3; ++j)
          EXPECT_FLOAT_EQ(all.state.h.value().at((part * 3 + b) * 3 + j), alone.state.h.value().at(part * 3 + j));
    }
  }
}

TEST_F(RecurrentTest, InferenceAndRecomputationHaveTheBitsOfTraining) {
  const Tensor x = noise({2, 5, 3}, 1, DType::f32);
  for (const DType low : {DType::f32, DType::f16, DType::bf16}) {
    const PolicyScope policy(PrecisionPolicy{.low = low});
    for (const auto& layers : one_of_each({.in = 3, .hidden = 4, .layers = 2, .bidirectional = true})) {
      std::vector<Tensor> gradients[2];
      Tensor y[2];
      for (const bool again : {false, true}) {
        for (const auto& [name, p] : named_parameters(*layers)) p->zero_grad();
        const Variable leaf(x, true);
        const auto segment = [&](const Variable& in) { return (*layers)(in); };
        const Variable out = again ? recompute(segment, leaf) : segment(leaf);
        y[again] = out.value();
        backward(sum(out));
        for (const auto& [name, p] : named_parameters(*layers)) gradients[again].push_back(p->grad().clone());
        gradients[again].push_back(leaf.grad().clone());
      }
      EXPECT_TRUE(same_bits(y[0], y[1]));
      for (std::size_t i = 0; i < gradients[0].size(); ++i) EXPECT_TRUE(same_bits(gradients[0][i], gradients[1][i]));
      layers->eval();
      const InferenceMode mode;
      EXPECT_TRUE(same_bits((*layers)(x).value(), y[0])) << layers->kind() << name_of(low);
    }
  }
}

TEST_F(RecurrentTest, DropoutActsBetweenLayersInTrainingOnly) {
  const Variable x(noise({2, 4, 3}, 1, DType::f32));
  Lstm plain({.in = 3, .hidden = 8, .layers = 2});
  Lstm dropping({.in = 3, .hidden = 8, .layers = 2, .dropout = 0.5});
  load_state_dict(dropping, state_dict(plain));
  EXPECT_FALSE(same_bits(dropping(x).value(), plain(x).value()));
  dropping.eval();
  EXPECT_TRUE(same_bits(dropping(x).value(), plain(x).value()));
}

TEST_F(RecurrentTest, TheStateOfAnLstmIsF32UnderA16BitPolicy) {
  const PolicyScope policy(PrecisionPolicy{.low = DType::bf16});
  Lstm lstm({.in = 3, .hidden = 4});
  const RecurrentResult result = lstm(noise({2, 3, 3}, 1, DType::f32), {});
  EXPECT_EQ(result.y.dtype(), DType::bf16);
  EXPECT_EQ(result.state.h.dtype(), DType::bf16);
  EXPECT_EQ(result.state.c.dtype(), DType::f32);
}

/// A GRU whose z is 0.9999 keeps nearly all of h; in bf16, h - 1e-4 h would round to h at every position.
TEST_F(RecurrentTest, AGruDoesNotLoseSmallChangesIn16Bits) {
  Gru gru({.in = 1, .hidden = 1});
  for (const auto& [name, p] : named_parameters(gru)) p->mutable_value().fill(0);
  for (const auto& [name, p] : named_parameters(gru))
    if (name == "bias_ih_l0") p->mutable_value().mutable_data<float>()[1] = std::log(9999.0f);
  const PolicyScope policy(PrecisionPolicy{.low = DType::bf16});
  const RecurrentResult result = gru(Tensor::zeros({1, 5000, 1}), {Tensor::full({1, 1, 1}, 1)});
  EXPECT_NEAR(result.state.h.value().at(0), std::pow(0.9999, 5000), 0.003);
}

TEST_F(RecurrentTest, ANanReachesEveryLaterPositionAndNoOtherSequence) {
  Tensor x = noise({2, 5, 3}, 1, DType::f32);
  x.mutable_data<float>()[2 * 3 + 1] = std::numeric_limits<float>::quiet_NaN();  // sequence 0, position 2
  for (const auto& layers : one_of_each({.in = 3, .hidden = 4})) {
    const Tensor y = (*layers)(Variable(x)).value();
    for (std::int64_t i = 0; i < y.numel(); ++i)
      EXPECT_EQ(std::isnan(y.at(i)), i < 5 * 4 && i >= 2 * 4) << layers->kind() << " " << i;
  }
}

TEST_F(RecurrentTest, EmptyBatchesAndSequencesWork) {
  for (const auto& layers : one_of_each({.in = 3, .hidden = 4, .bidirectional = true})) {
    const Variable none(Tensor::zeros({0, 5, 3}), true), instant(Tensor::zeros({2, 0, 3}), true);
    EXPECT_EQ((*layers)(none).shape(), (Shape{0, 5, 8}));
    const RecurrentState start{Tensor::full({2, 2, 4}, 0.5)};
    const RecurrentResult result = (*layers)(instant, start);
    EXPECT_EQ(result.y.shape(), (Shape{2, 0, 8}));
    EXPECT_TRUE(same_bits(result.state.h.value(), start.h.value()));
    backward(sum(result.state.h));
    for (const auto& [name, p] : named_parameters(*layers))
      for (const double g : p->grad().to_vector<double>()) EXPECT_EQ(g, 0);
  }
}

TEST_F(RecurrentTest, ErrorsNameTheModuleAndWhatItWanted) {
  struct Net : Module {
    Lstm reader{{.in = 3, .hidden = 4, .layers = 2}};
    void visit(Visitor& v) override { v("reader", reader); }
    Variable forward(const Variable& x) override { return reader(x); }
  } net;
  const auto text = [&](auto&& call) { return test::error_of(call); };
  EXPECT_EQ(text([&] { net(Tensor::zeros({2, 5, 4})); }), "Lstm [reader]: wanted x (B, T, 3), got (2, 5, 4)");
  EXPECT_EQ(text([&] { net(Tensor::zeros({5, 3})); }), "Lstm [reader]: wanted x (B, T, 3), got (5, 3)");
  const Variable x(Tensor::zeros({2, 5, 3}));
  EXPECT_EQ(text([&] {
              net.reader(x, {Tensor::zeros({1, 2, 4})});
            }),
            "Lstm [reader]: wanted h (layers * directions, B, hidden) = (2, 2, 4), got (1, 2, 4)");
  EXPECT_EQ(text([&] {
              net.reader(x, {}, Tensor::from({5, 6}));
            }),
            "lstm [reader]: wanted lengths from 0 to 5, the number of positions of x, got 6 for sequence 1");
  EXPECT_EQ(text([&] {
              net.reader(x, {}, Tensor::from({5.f, 6.f}));
            }),
            "lstm [reader]: wanted lengths of i64 or i32, got f32");
  EXPECT_EQ(text([&] {
              net.reader(x, {}, Tensor::from({1, 2, 3}));
            }),
            "lstm [reader]: wanted lengths (B) = (2), got (3)");
  Gru gru({.in = 3, .hidden = 4});
  EXPECT_EQ(text([&] {
              gru(x, {Tensor::zeros({1, 2, 4}), Tensor::zeros({1, 2, 4})});
            }),
            "gru: has no c; give the state h only");
  EXPECT_EQ(text([&] {
              GruCell({.in = 3, .hidden = 4})(Tensor::zeros({2, 4}));
            }),
            "GruCell: wanted x (B, 3), got (2, 4)");
  EXPECT_EQ(text([&] { Lstm({.in = 0, .hidden = 4}); }), "Lstm: wanted in > 0 and hidden > 0, got 0 and 4");
  EXPECT_EQ(text([&] { Gru({.in = 3, .hidden = 4, .dropout = 0.1}); }),
            "Gru: dropout applies between layers, and there is only one; use nn::Dropout behind it");
}

TEST_F(RecurrentTest, TheSummaryCountsItsMultiplications) {
  Lstm lstm({.in = 3, .hidden = 4});
  EXPECT_EQ(summary(lstm, Variable(Tensor::zeros({2, 5, 3}))).flops, 2 * 2 * 5 * (16 * 3 + 16 * 4));
}

}  // namespace
}  // namespace binade::nn
