#include "binade/nn/recurrent.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/core/kernels/recurrent.h"
#include "binade/core/step_context.h"
#include "binade/nn/init.h"

namespace binade::nn {
namespace {

/// Returns a parameter with values from U(-1 / sqrt(hidden), 1 / sqrt(hidden)).
Parameter initialized(const Shape& shape, std::int64_t hidden) {
  Parameter p(Tensor::empty(shape, DType::f32, Runtime::current_device()));
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  init::uniform(p, -bound, bound);
  return p;
}

void check_sizes(const char* kind, std::int64_t in, std::int64_t hidden) {
  check<ArgumentError>(in > 0 && hidden > 0, "{}: wanted in > 0 and hidden > 0, got {} and {}", kind, in, hidden);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  check<ArgumentError>(in < kMost && hidden < kMost, "{}: wanted in and hidden below 2^31, got {} and {}", kind, in,
                       hidden);
}

/// Returns state number i of a state of all layers, (layers * directions, B, hidden), as (B, hidden).
Variable part_of(const Variable& state, std::int64_t i) {
  if (!state.defined()) return {};
  return reshape(narrow(state, 0, i, 1), {state.dim(1), state.dim(2)});
}

void check_state(const char* kind, const char* name, const Variable& state, const Variable& x, std::int64_t parts,
                 std::int64_t hidden) {
  if (!state.defined()) return;
  const Shape wanted{parts, x.dim(0), hidden};
  check<ShapeError>(state.shape() == wanted, "{}: wanted {} (layers * directions, B, hidden) = {}, got {}", where(kind),
                    name, wanted, state.shape());
}

}  // namespace

RecurrentLayers::RecurrentLayers(const char* kind, const RecurrentOptions& o, std::int64_t gates)
    : kind_(kind), options_(o) {
  check_sizes(kind, o.in, o.hidden);
  check<ArgumentError>(o.layers > 0 && o.layers <= 4096, "{}: wanted 1 to 4096 layers, got {}", kind, o.layers);
  check<ArgumentError>(o.dropout >= 0 && o.dropout < 1, "{}: wanted dropout in [0, 1), got {}", kind, o.dropout);
  check<ArgumentError>(o.dropout == 0 || o.layers > 1,
                       "{}: dropout applies between layers, and there is only one; use nn::Dropout behind it", kind);
  const std::int64_t directions = o.bidirectional ? 2 : 1, rows = gates * o.hidden;
  for (std::int64_t i = 0; i < o.layers * directions; ++i) {
    Weights& w = weights_.emplace_back();
    w.input = initialized({rows, i < directions ? o.in : directions * o.hidden}, o.hidden);
    w.hidden = initialized({rows, o.hidden}, o.hidden);
    if (!o.bias) continue;
    w.input_bias = initialized({rows}, o.hidden);
    w.hidden_bias = initialized({rows}, o.hidden);
  }
}

void RecurrentLayers::visit(Visitor& v) {
  const std::size_t directions = options_.bidirectional ? 2 : 1;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const std::string suffix = "_l" + std::to_string(i / directions) + (i % directions == 0 ? "" : "_reverse");
    v("weight_ih" + suffix, weights_[i].input);
    v("weight_hh" + suffix, weights_[i].hidden);
    v("bias_ih" + suffix, weights_[i].input_bias);
    v("bias_hh" + suffix, weights_[i].hidden_bias);
  }
}

Variable RecurrentLayers::forward(const Variable& x) { return run(x, {}, {}).y; }

RecurrentResult RecurrentLayers::operator()(const Variable& x, const RecurrentState& start, const Variable& lengths) {
  const ModuleScope scope(*this);
  return run(x, start, lengths);
}

RecurrentResult RecurrentLayers::run(const Variable& x, const RecurrentState& start, const Variable& lengths) {
  const auto directions = static_cast<std::size_t>(options_.bidirectional ? 2 : 1);
  const auto parts = static_cast<std::int64_t>(weights_.size());
  check<ShapeError>(x.defined() && x.value().rank() == 3 && x.dim(2) == options_.in, "{}: wanted x (B, T, {}), got {}",
                    where(kind_), options_.in, x.defined() ? x.shape() : Shape{});
  check_state(kind_, "h", start.h, x, parts, options_.hidden);
  check_state(kind_, "c", start.c, x, parts, options_.hidden);
  std::vector<Variable> h, c;
  Variable y = x;
  for (std::size_t first = 0; first < weights_.size(); first += directions) {
    if (first > 0 && training() && options_.dropout > 0) y = dropout(y, options_.dropout);
    std::array<Variable, 2> of_direction;
    for (std::size_t d = 0; d < directions; ++d) {
      const Weights& w = weights_[first + d];
      const auto i = static_cast<std::int64_t>(first + d);
      const RecurrentResult result = layer(y, {w.input, w.hidden, w.input_bias, w.hidden_bias},
                                           {part_of(start.h, i), part_of(start.c, i)},
                                           {.reverse = d == 1, .lengths = lengths});
      of_direction[d] = result.y;
      h.push_back(result.state.h);
      if (result.state.c.defined()) c.push_back(result.state.c);
    }
    y = directions == 1 ? of_direction[0] : concat({of_direction[0], of_direction[1]});
  }
  return {y, {.h = stack(h), .c = c.empty() ? Variable() : stack(c)}};
}

Rnn::Rnn(const RnnOptions& o)
    : RecurrentLayers("Rnn",
                      {.in = o.in,
                       .hidden = o.hidden,
                       .layers = o.layers,
                       .bias = o.bias,
                       .dropout = o.dropout,
                       .bidirectional = o.bidirectional},
                      gates_of(RecurrentCell::kTanh)),
      relu_(o.relu) {}
RecurrentResult Rnn::layer(const Variable& x, const RecurrentWeights& weights, const RecurrentState& start,
                           const SequenceOptions& options) const {
  return rnn(x, weights, start, {.reverse = options.reverse, .lengths = options.lengths, .relu = relu_});
}

Lstm::Lstm(const RecurrentOptions& o) : RecurrentLayers("Lstm", o, gates_of(RecurrentCell::kLstm)) {}
RecurrentResult Lstm::layer(const Variable& x, const RecurrentWeights& weights, const RecurrentState& start,
                            const SequenceOptions& options) const {
  return lstm(x, weights, start, options);
}

Gru::Gru(const RecurrentOptions& o) : RecurrentLayers("Gru", o, gates_of(RecurrentCell::kGru)) {}
RecurrentResult Gru::layer(const Variable& x, const RecurrentWeights& weights, const RecurrentState& start,
                           const SequenceOptions& options) const {
  return gru(x, weights, start, options);
}

RecurrentCellModule::RecurrentCellModule(const char* kind, const RecurrentCellOptions& o, std::int64_t gates)
    : kind_(kind) {
  check_sizes(kind, o.in, o.hidden);
  weight_ih = initialized({gates * o.hidden, o.in}, o.hidden);
  weight_hh = initialized({gates * o.hidden, o.hidden}, o.hidden);
  if (!o.bias) return;
  bias_ih = initialized({gates * o.hidden}, o.hidden);
  bias_hh = initialized({gates * o.hidden}, o.hidden);
}

void RecurrentCellModule::visit(Visitor& v) {
  v("weight_ih", weight_ih);
  v("weight_hh", weight_hh);
  v("bias_ih", bias_ih);
  v("bias_hh", bias_hh);
}

Variable RecurrentCellModule::forward(const Variable& x) { return run(x, {}).h; }

RecurrentState RecurrentCellModule::operator()(const Variable& x, const RecurrentState& state) {
  const ModuleScope scope(*this);
  return run(x, state);
}

RecurrentState RecurrentCellModule::run(const Variable& x, const RecurrentState& state) {
  check<ShapeError>(x.defined() && x.value().rank() == 2 && x.dim(1) == weight_ih.dim(1),
                    "{}: wanted x (B, {}), got {}", where(kind_), weight_ih.dim(1), x.defined() ? x.shape() : Shape{});
  return step(reshape(x, {x.dim(0), 1, x.dim(1)}), {weight_ih, weight_hh, bias_ih, bias_hh}, state).state;
}

RnnCell::RnnCell(const RnnCellOptions& o)
    : RecurrentCellModule("RnnCell", {.in = o.in, .hidden = o.hidden, .bias = o.bias}, gates_of(RecurrentCell::kTanh)),
      relu_(o.relu) {}
RecurrentResult RnnCell::step(const Variable& x, const RecurrentWeights& weights, const RecurrentState& state) const {
  return rnn(x, weights, state, {.relu = relu_});
}

LstmCell::LstmCell(const RecurrentCellOptions& o)
    : RecurrentCellModule("LstmCell", o, gates_of(RecurrentCell::kLstm)) {}
RecurrentResult LstmCell::step(const Variable& x, const RecurrentWeights& weights, const RecurrentState& state) const {
  return lstm(x, weights, state);
}

GruCell::GruCell(const RecurrentCellOptions& o) : RecurrentCellModule("GruCell", o, gates_of(RecurrentCell::kGru)) {}
RecurrentResult GruCell::step(const Variable& x, const RecurrentWeights& weights, const RecurrentState& state) const {
  return gru(x, weights, state);
}

}  // namespace binade::nn
