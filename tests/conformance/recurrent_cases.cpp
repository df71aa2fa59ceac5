#include <algorithm>
#include <cmath>

#include "binade/autograd/functions/recurrent.h"
#include "binade/core/ops/recurrent.h"
#include "tests/conformance/registry.h"

namespace binade::conformance {
namespace {

enum class Kind { kTanh, kRelu, kLstm, kGru };
enum class Result { kY, kH, kC };

struct Sequence {
  const char* name{};
  std::int64_t batch, steps, in, hidden;
  bool bias = true, start = true, reverse = false;
  std::vector<std::int64_t> lengths{};
  Result result = Result::kY;
};

std::int64_t gates_of(Kind kind) { return kind == Kind::kLstm ? 4 : kind == Kind::kGru ? 3 : 1; }
const OpInfo& info_of(Kind kind) {
  return kind == Kind::kLstm ? ops::Lstm::info : kind == Kind::kGru ? ops::Gru::info : ops::Rnn::info;
}
const char* name_of(Kind kind) { return kind == Kind::kTanh ? "tanh_" : kind == Kind::kRelu ? "relu_" : ""; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The inputs of a case by name. Optional inputs may be missing. T is Variable or Array.
template <class T>
struct Named {
  T x, w_ih, w_hh, bias_ih{}, bias_hh{}, h0{}, c0{}, lengths{};
  Named(Kind kind, const Sequence& s, const std::vector<T>& in) : x(in[0]), w_ih(in[1]), w_hh(in[2]) {
    std::size_t next = 3;
    if (s.bias) bias_ih = in[next++], bias_hh = in[next++];
    if (s.start) h0 = in[next++];
    if (s.start && kind == Kind::kLstm) c0 = in[next++];
    if (!s.lengths.empty()) lengths = in[next++];
  }
};

Variable run(Kind kind, const Sequence& s, const std::vector<Variable>& in) {
  const Named<Variable> n(kind, s, in);
  const RecurrentWeights weights{n.w_ih, n.w_hh, n.bias_ih, n.bias_hh};
  const SequenceOptions options{.reverse = s.reverse, .lengths = n.lengths, .relu = kind == Kind::kRelu};
  const RecurrentResult out = kind == Kind::kLstm  ? lstm(n.x, weights, {n.h0, n.c0}, options)
                              : kind == Kind::kGru ? gru(n.x, weights, {n.h0}, options)
                                                   : rnn(n.x, weights, {n.h0}, options);
  return s.result == Result::kY ? out.y : s.result == Result::kH ? out.state.h : out.state.c;
}

/// Processes the sequences one by one with the formulas of the papers. Error bound: each gate sums in + hidden
/// products, and the errors of earlier positions affect later ones.
Expected reference(Kind kind, const Sequence& s, const std::vector<Array>& in) {
  const Named<Array> n(kind, s, in);
  const std::int64_t gates = gates_of(kind), hidden = s.hidden;
  Expected y;
  const auto resize = [&](std::int64_t count) {
    for (std::vector<double>* v : {&y.values, &y.terms, &y.magnitude}) v->assign(static_cast<std::size_t>(count), 0);
  };
  resize(s.batch * hidden * (s.result == Result::kY ? s.steps : 1));
  const auto put = [&](std::int64_t i, double value, double terms) {
    const auto at = static_cast<std::size_t>(i);
    y.values[at] = value;
    y.terms[at] = terms;
    y.magnitude[at] = 1 + (kind == Kind::kRelu ? std::abs(value) : 0);
  };
  for (std::int64_t b = 0; b < s.batch; ++b) {
    std::vector<double> h(static_cast<std::size_t>(hidden), 0), c = h, terms = h;
    for (std::size_t j = 0; j < h.size() && s.start; ++j) {
      h[j] = n.h0[b * hidden + static_cast<std::int64_t>(j)];
      if (kind == Kind::kLstm) c[j] = n.c0[b * hidden + static_cast<std::int64_t>(j)];
    }
    const std::int64_t length = s.lengths.empty() ? s.steps : s.lengths[static_cast<std::size_t>(b)];
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t t = s.reverse ? length - 1 - k : k;
      std::vector<double> next = h;
      for (std::int64_t j = 0; j < hidden; ++j) {
        double from_x[4] = {}, from_h[4] = {}, magnitude = 1;
        for (std::int64_t g = 0; g < gates; ++g) {
          const std::int64_t row = g * hidden + j;
          double sum = 0;
          for (std::int64_t i = 0; i < s.in; ++i) {
            const double term = n.x[(b * s.steps + t) * s.in + i] * n.w_ih[row * s.in + i];
            from_x[g] += term;
            sum += std::abs(term);
          }
          for (std::int64_t i = 0; i < hidden; ++i) {
            const double term = h[static_cast<std::size_t>(i)] * n.w_hh[row * hidden + i];
            from_h[g] += term;
            sum += std::abs(term);
          }
          if (s.bias) from_x[g] += n.bias_ih[row], from_h[g] += n.bias_hh[row];
          if (std::isfinite(sum)) magnitude = std::max(magnitude, sum);  // if the sum is infinite, the gate is exact
        }
        const auto at = static_cast<std::size_t>(j);
        double& state = c[at];
        if (kind == Kind::kLstm) {
          const double i = sigmoid(from_x[0] + from_h[0]), f = sigmoid(from_x[1] + from_h[1]),
                       g = std::tanh(from_x[2] + from_h[2]), o = sigmoid(from_x[3] + from_h[3]);
          state = f * state + i * g;
          next[at] = o * std::tanh(state);
        } else if (kind == Kind::kGru) {
          const double r = sigmoid(from_x[0] + from_h[0]), z = sigmoid(from_x[1] + from_h[1]),
                       candidate = std::tanh(from_x[2] + r * from_h[2]);
          next[at] = candidate + z * (h[at] - candidate);
        } else {
          const double z = from_x[0] + from_h[0];
          next[at] = kind == Kind::kTanh ? std::tanh(z) : z <= 0 ? 0 : z;
        }
        terms[at] = static_cast<double>(s.in + hidden + 8) * static_cast<double>(k + 1) * magnitude;
        if (s.result == Result::kY) put((b * s.steps + t) * hidden + j, next[at], terms[at]);
      }
      h = next;
    }
    for (std::int64_t j = 0; j < hidden && s.result != Result::kY; ++j) {
      const auto at = static_cast<std::size_t>(j);
      put(b * hidden + j, (s.result == Result::kH ? h : c)[at], terms[at]);
    }
  }
  return y;
}

}  // namespace

std::vector<Case> recurrent_cases() {
  std::vector<Case> cases;
  const std::vector<Sequence> sequences{
      {"one_position", 1, 1, 1, 1},
      {"small", 2, 3, 4, 5},
      {"without_bias_and_start", 3, 4, 2, 7, false, false},
      {"reverse", 2, 5, 3, 4, true, true, true},
      {"lengths", 4, 5, 3, 6, true, true, false, {3, 0, 5, 1}},
      {"lengths_in_reverse", 3, 4, 3, 6, true, false, true, {4, 1, 2}},
      {"final_state", 3, 3, 5, 9, true, true, false, {}, Result::kH},
      {"final_state_of_lengths", 3, 4, 2, 5, true, true, false, {2, 4, 0}, Result::kH},
      {"odd_sizes", 7, 3, 33, 17},
      {"many_rows", 70, 2, 3, 65},
      {"no_positions", 2, 0, 3, 4, true, true, false, {}, Result::kH},
      {"no_sequences", 0, 3, 2, 4},
  };
  for (const Kind kind : {Kind::kTanh, Kind::kRelu, Kind::kLstm, Kind::kGru}) {
    std::vector<Sequence> all = sequences;
    if (kind == Kind::kTanh) all.push_back({"two_strips", 3, 2, 2, 520});
    if (kind == Kind::kLstm) all.push_back({"cell_state", 3, 1, 5, 9, true, true, false, {}, Result::kC});
    for (const Sequence& s : all) {
      // With this many elements, rounding h to 16 bits moves some of them across ReLU's kink.
      if (kind == Kind::kRelu && s.batch * s.hidden > 1000) continue;
      const std::int64_t rows = gates_of(kind) * s.hidden;
      const double most = std::min(0.5, 1.2 / std::sqrt(static_cast<double>(s.hidden)));
      // c does not depend on the output gate of the last position.
      const bool partial = !s.lengths.empty() || s.batch * s.steps == 0 || s.result == Result::kC;
      Case c{.info = &info_of(kind),
             .name = std::string(name_of(kind)) + s.name,
             .inputs = {random(Shape{s.batch, s.steps, s.in}, 1), random(Shape{rows, s.in}, 2, -most, most),
                        random(Shape{rows, s.hidden}, 3, -most, most)},
             .run = [kind, s](const std::vector<Variable>& in) { return run(kind, s, in); },
             .reference = [kind, s](const std::vector<Array>& in) { return reference(kind, s, in); },
             // Only h is rounded to 16 bits inside the op. The errors of earlier positions about double this error.
             .half_roundings = 8,
             .nan_must_show = !partial};
      if (s.bias) {
        c.inputs.push_back(random(Shape{rows}, 4, -0.5, 0.5));
        c.inputs.push_back(random(Shape{rows}, 5, -0.5, 0.5));
      }
      if (s.start) c.inputs.push_back(random(Shape{s.batch, s.hidden}, 6, -1, 1));
      if (s.start && kind == Kind::kLstm) c.inputs.push_back(random(Shape{s.batch, s.hidden}, 7, -1, 1));
      if (!s.lengths.empty()) c.inputs.push_back(Tensor::from(s.lengths, {s.batch}));
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

}  // namespace binade::conformance
