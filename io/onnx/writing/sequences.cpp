#include <cmath>
#include <cstring>
#include <limits>

#include "binade/core/ops/attention.h"
#include "binade/core/ops/recurrent.h"
#include "binade/io/onnx/writing/recorder.h"

/// Attention and recurrent layers.
namespace binade::onnx {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// The extents of an attention: H query heads, G key heads, T queries, S keys, D channels of a head.
struct Extents {
  std::int64_t heads = 0, groups = 0, queries = 0, keys = 0, depth = 0;
};

/// Queries, keys and values, each (B, T or S, heads, D).
struct Operands {
  std::string q{}, k{}, v{};
  Extents e{};
};

Operands operands_of(Call& c) {
  const auto& p = c.params<ops::Attention>();
  const Tensor& q = c.in(0);
  Operands o;
  Extents& e = o.e;
  e.queries = q.dim(1);
  if (q.rank() == 4) {
    e.heads = q.dim(2), e.depth = q.dim(3), e.groups = c.in(1).dim(2), e.keys = c.in(1).dim(1);
    o.q = c.number(0), o.k = c.number(1), o.v = c.number(2);
    return o;
  }
  e.heads = p.heads, e.groups = p.key_heads == 0 ? p.heads : p.key_heads;
  const auto split = [&](const std::string& x, std::int64_t heads) {
    return c.node("Reshape", {x, c.list({0, 0, heads, e.depth})});
  };
  if (c.has(1)) {
    e.depth = q.dim(2) / e.heads, e.keys = c.in(1).dim(1);
    o.q = split(c.number(0), e.heads), o.k = split(c.number(1), e.groups), o.v = split(c.number(2), e.groups);
    return o;
  }
  e.depth = q.dim(2) / (e.heads + 2 * e.groups), e.keys = e.queries;
  const std::vector<std::string> parts = c.node(
      3, "Split", {c.number(0), c.list({e.heads * e.depth, e.groups * e.depth, e.groups * e.depth})},
      {{"axis", std::int64_t{2}}});
  o.q = split(parts[0], e.heads), o.k = split(parts[1], e.groups), o.v = split(parts[2], e.groups);
  return o;
}

/// The mask that hides the keys after each query: 0 and -inf, (T, S).
Tensor causal_mask(const Extents& e, DType dtype) {
  std::vector<float> mask;
  for (std::int64_t t = 0; t < e.queries; ++t)
    for (std::int64_t s = 0; s < e.keys; ++s)
      mask.push_back(s <= t + e.keys - e.queries ? 0.f : static_cast<float>(kHidden));
  return Tensor::from(mask, Shape{e.queries, e.keys}).to(dtype);
}

/// Applies input 3, the mask, to the logits (B, G, H / G, T, S).
std::string masked(Call& c, const std::string& logits, const Extents& e) {
  const Tensor& mask = c.in(3);
  const bool truth = mask.dtype() == DType::boolean;
  std::string m = truth ? c.stored(3) : c.number(3);
  if (mask.rank() == 2)
    m = c.node("Unsqueeze", {m, c.list({1, 2, 3})});
  else if (mask.dim(1) == 1)
    m = c.node("Unsqueeze", {m, c.list({2})});
  else
    m = c.node("Reshape", {m, c.list({0, e.groups, e.heads / e.groups, mask.dim(2), mask.dim(3)})});
  return truth ? c.node("Where", {m, logits, c.scalar(kHidden)}) : c.node("Add", {logits, m});
}

void attention(Call& c) {
  const auto& p = c.params<ops::Attention>();
  no_counterpart_if(p.dropout > 0, "dropout; call eval()");
  const Operands o = operands_of(c);
  const Extents& e = o.e;
  const std::int64_t shared = e.heads / e.groups;
  const auto grouped = [&](const std::string& x, std::int64_t heads, const Integers& perm) {
    return c.node("Transpose", {c.node("Reshape", {x, c.list({0, 0, e.groups, heads, e.depth})})}, {{"perm", perm}});
  };
  const std::string q = grouped(o.q, shared, {0, 2, 3, 1, 4});                                   // (B, G, R, T, D)
  const std::string k = grouped(o.k, 1, {0, 2, 3, 4, 1}), v = grouped(o.v, 1, {0, 2, 3, 1, 4});  // (B, G, 1, D, S), …
  const double scale = p.scale == 0 ? 1 / std::sqrt(static_cast<double>(e.depth)) : p.scale;
  std::string logits = c.node("MatMul", {c.node("Mul", {q, c.scalar(scale)}), k});
  if (p.causal) logits = c.node("Add", {logits, c.tensor(causal_mask(e, c.computing()))});
  if (c.has(3)) logits = masked(c, logits, e);
  std::string probability = c.node("Softmax", {logits}, {{"axis", std::int64_t{-1}}});
  if (c.has(3) || (p.causal && e.keys < e.queries)) {  // a row that sees no key is 0
    const std::string largest = c.node("ReduceMax", {logits}, {{"axes", Integers{-1}}, {"keepdims", std::int64_t{1}}});
    const std::string blind = c.node("Equal", {largest, c.scalar(kHidden)});
    probability = c.node("Where", {blind, c.scalar(0), probability});
  }
  const DType stored = c.in(0).dtype();
  if (is_half(stored)) probability = c.cast(c.cast(probability, c.computing(), stored), stored, c.computing());
  const std::string y = c.node("Transpose", {c.node("MatMul", {probability, v})}, {{"perm", Integers{0, 3, 1, 2, 4}}});
  Integers dims{0, 0};
  for (int i = 2; i < c.out().rank(); ++i) dims.push_back(c.out().dim(i));
  c.result(0, c.node("Reshape", {y, c.list(dims)}));
}

/// Puts the rows of the gates into ONNX's order. order[g]: the place of ONNX's gate g in Binade's rows.
Tensor in_order(const Tensor& rows, const Integers& order) {
  const Tensor x = rows.on_host();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const std::size_t block = x.bytes() / order.size();
  for (std::size_t g = 0; g < order.size(); ++g)
    std::memcpy(static_cast<std::byte*>(y.mutable_raw()) + g * block,
                static_cast<const std::byte*>(x.raw()) + static_cast<std::size_t>(order[g]) * block, block);
  return y;
}

/// Weight i (G H, in) as (1, G H, in) with the gates in ONNX's order.
std::string gates(Call& c, int i, const Integers& order) {
  no_counterpart_if(!c.is_constant(i), "weights of a recurrent layer that are computed from the inputs");
  const Tensor y = in_order(c.in(i), order);
  const std::string name = c.weight_name(i);
  Integers dims{1};
  for (const std::int64_t d : y.shape().dims()) dims.push_back(d);
  const Tensor all = y.reshape(Shape(std::span<const std::int64_t>(dims)));
  return c.cast(name.empty() ? c.tensor(all) : c.weight(name, all), y.dtype(), c.computing());
}

/// Writes the layer `op`. Inputs of the op call: x, weights, biases, h0, c0 (only an LSTM), lengths.
void recurrent(Call& c, const char* op, const Integers& order, bool reverse, WrittenAttributes attributes) {
  const bool cell = std::string(op) == "LSTM";
  const int lengths = cell ? 7 : 6;
  const std::int64_t hidden = c.in(2).dim(1);
  attributes["hidden_size"] = hidden;
  attributes["direction"] = std::string(reverse ? "reverse" : "forward");
  const std::string x = c.node("Transpose", {c.number(0)}, {{"perm", Integers{1, 0, 2}}});
  const std::string w = gates(c, 1, order), r = gates(c, 2, order);
  std::string bias;
  if (c.has(3) || c.has(4)) {
    const auto part = [&](int i) {
      const std::int64_t count = hidden * static_cast<std::int64_t>(order.size());
      return c.has(i) ? gates(c, i, order) : c.tensor(Tensor::zeros({1, count}, c.computing()));
    };
    bias = c.node("Concat", {part(3), part(4)}, {{"axis", std::int64_t{1}}});
  }
  const auto state = [&](int i) { return c.has(i) ? c.node("Unsqueeze", {c.number(i), c.list({0})}) : std::string(); };
  std::vector<std::string> inputs{x, w, r, bias, c.has(lengths) ? c.as(lengths, DType::i32) : "", state(5)};
  if (cell) inputs.push_back(state(6));
  const std::vector<std::string> y = c.node(cell ? 3 : 2, op, inputs, attributes);
  const std::string all = c.node("Squeeze", {y[0], c.list({1})});
  c.result(0, c.node("Transpose", {all}, {{"perm", Integers{1, 0, 2}}}));
  for (int k = 1; k < c.results(); ++k) c.result(k, c.node("Squeeze", {y[static_cast<std::size_t>(k)], c.list({0})}));
}

}  // namespace

OpWriters sequence_writers() {
  return {
      {&ops::Attention::info, attention},
      {&ops::Rnn::info,
       [](Call& c) {
         const auto& p = c.params<ops::Rnn>();
         recurrent(c, "RNN", {0}, p.reverse, {{"activations", std::vector<std::string>{p.relu ? "Relu" : "Tanh"}}});
       }},
      {&ops::Lstm::info,
       [](Call& c) {
         recurrent(c, "LSTM", {0, 3, 1, 2}, c.params<ops::Lstm>().reverse, {});
       }},
      {&ops::Gru::info,
       [](Call& c) {
         recurrent(c, "GRU", {1, 0, 2}, c.params<ops::Gru>().reverse, {{"linear_before_reset", std::int64_t{1}}});
       }},
  };
}

}  // namespace binade::onnx
