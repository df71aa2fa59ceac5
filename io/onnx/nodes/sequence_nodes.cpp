#include <cmath>
#include <limits>

#include "binade/io/onnx/nodes/node.h"

/// Recurrent layers and attention.
namespace binade::onnx {
namespace {

using Layer = RecurrentResult (*)(const Variable&, const RecurrentWeights&, const RecurrentState&,
                                  const SequenceOptions&);

/// Puts the rows of the gates into Binade's order, which is PyTorch's.
Variable in_order(const Variable& rows, const std::vector<std::int64_t>& order) {
  const auto gates = static_cast<std::int64_t>(order.size());
  const Variable index = Tensor::from(order, Shape{gates});
  const Variable split = unflatten(rows, 0, {gates, -1});
  return flatten(index_select(split, 0, index), 0, 1);
}

bool relu_of(const Node& n) {
  const std::vector<std::string> all = n.texts("activations");
  return n.op() == "RNN" && !all.empty() && all[0] == "Relu";
}

/// Runs direction d of a recurrent layer.
RecurrentResult one_direction(const Node& n, Layer layer, const std::vector<std::int64_t>& order, const Variable& x,
                              std::int64_t d, SequenceOptions options) {
  RecurrentWeights weights{.input = in_order(n[1][d], order), .hidden = in_order(n[2][d], order)};
  if (n.has(3)) {
    const std::vector<Variable> biases = chunk(n[3][d], 2);
    unsupported_if(biases.size() != 2, "a bias of fewer than two numbers");
    weights.input_bias = in_order(biases[0], order);
    weights.hidden_bias = in_order(biases[1], order);
  }
  const int batch_axis = n.integer("layout", 0) != 0 ? 1 : 0;
  const auto state = [&](int input) {
    return n.has(input) ? select(n[input], batch_axis == 1 ? 1 : 0, d) : Variable();
  };
  return layer(x, weights, {.h = state(5), .c = state(6)}, options);
}

/// True if the `activations` are the layer's defaults; an RNN may also have Relu.
bool usual_activations(const Node& n) {
  const std::vector<std::string> all = n.texts("activations");
  const std::vector<std::string> usual = n.op() == "LSTM"  ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                         : n.op() == "GRU" ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                           : std::vector<std::string>{relu_of(n) ? "Relu" : "Tanh"};
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != usual[i % usual.size()]) return false;
  return !all.empty();
}

Outputs recurrent(const Node& n, Layer layer, const std::vector<std::int64_t>& order) {
  unsupported_if(n.given("activations") && !usual_activations(n), "recurrent layers have fixed activations");
  unsupported_if(n.given("clip"), "recurrent layers do not clip");
  unsupported_if(n.has(7), "lstm() has no peepholes");
  unsupported_if(n.integer("input_forget", 0) != 0, "lstm() does not couple the gates of input and forgetting");
  const bool batch_first = n.integer("layout", 0) != 0;
  const std::string direction = n.text("direction", "forward");
  const Variable x = batch_first ? n[0] : transpose(n[0], 0, 1);
  std::vector<Variable> y, h, c;
  for (std::int64_t d = 0; d < (direction == "bidirectional" ? 2 : 1); ++d) {
    const RecurrentResult r = one_direction(
        n, layer, order, x, d, {.reverse = direction == "reverse" || d == 1, .lengths = n[4], .relu = relu_of(n)});
    y.push_back(r.y);
    h.push_back(r.state.h);
    c.push_back(r.state.c);
  }
  const Variable all = stack(y, 2);  // (B, T, directions, H)
  const int axis = batch_first ? 1 : 0;
  Outputs outputs{batch_first ? all : permute(all, {1, 2, 0, 3}), stack(h, axis)};
  if (c[0].defined()) outputs.push_back(like(n[0], stack(c, axis)));
  return outputs;
}

Outputs gru_node(const Node& n) {
  unsupported_if(n.integer("linear_before_reset", 0) == 0,
                 "the reset gate of gru() multiplies the product, not the state");
  return recurrent(n, gru, {1, 0, 2});
}

/// Heads as their own axis: (B, H, T, D).
Variable heads_of(const Variable& x, std::int64_t heads) {
  return rank_of(x) == 4 ? x : transpose(unflatten(x, 2, {heads, -1}), 1, 2);
}

/// The mask (…, T, S) that is true where a query may see a key, by ONNX's attributes; undefined if all see all.
Variable visible(const Node& n, std::int64_t queries, std::int64_t keys) {
  const Variable i = unsqueeze(arange(queries), 1), j = arange(keys);
  const Variable lengths = n.has(6) ? reshape(n[6], {-1, 1, 1, 1}) : Variable();
  const Variable first = lengths.defined()
                             ? lengths - queries
                             : Variable(Tensor::scalar(static_cast<double>(n.has(4) ? n[4].dim(2) : 0), DType::i64));
  const Variable distance = i + first - j;  // from the key to the query
  Variable seen;
  const auto only = [&](const Variable& condition) { seen = seen.defined() ? seen & condition : condition; };
  if (n.integer("is_causal", 0) != 0) only(distance >= 0);
  if (const std::int64_t left = n.integer("left_window_size", -1); left >= 0) only(distance <= left);
  if (const std::int64_t right = n.integer("right_window_size", -1); right >= 0) only(distance >= -right);
  if (lengths.defined()) only(j < lengths);
  return seen;
}

/// Combines the mask of a node and visible() to one mask with four axes; undefined if there is neither.
Variable mask_of(const Node& n, std::int64_t queries, std::int64_t keys) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  Variable mask = n[3], seen = visible(n, queries, keys);
  if (mask.defined()) {
    const bool truth = mask.dtype() == DType::boolean;
    mask = pad(truth ? mask : cast(mask, DType::f32), {0, keys - mask.dim(-1)}, PadMode::kConstant,
               truth ? 0 : kHidden);
    if (seen.defined()) mask = truth ? mask & seen : where(seen, mask, Tensor::scalar(kHidden));
  } else {
    mask = seen;
  }
  while (mask.defined() && rank_of(mask) < 4) mask = unsqueeze(mask, 0);
  return mask;
}

/// Attention composed of products and a softmax, for outputs and options that attention() lacks.
Outputs composed(const Node& n, const Variable& q, const Variable& k, const Variable& v, double scale) {
  const std::int64_t shared = q.dim(1) / k.dim(1);
  const Variable keys = repeat_interleave(k, shared, 1), values = repeat_interleave(v, shared, 1);
  const double cap = n.number("softcap", 0);
  Variable logits = scale * matmul(q, keys, {.transpose_b = true});
  if (cap > 0) logits = cap * tanh(logits / cap);
  Variable masked = logits;
  if (const Variable mask = mask_of(n, q.dim(2), k.dim(2)); mask.defined())
    masked = mask.dtype() == DType::boolean
                 ? where(mask, logits, Tensor::scalar(-std::numeric_limits<double>::infinity(), logits.dtype()))
                 : logits + mask;
  const Variable p = nan_to_num(softmax(masked));  // a row without keys is 0
  const std::int64_t mode = n.integer("qk_matmul_output_mode", 0);
  return {matmul(p, values), mode == 3 ? p : mode == 2 ? masked : logits};
}

Outputs attention_node(const Node& n) {
  const bool flat = rank_of(n[0]) == 3;
  const std::int64_t heads = n.integer("q_num_heads", 0), groups = n.integer("kv_num_heads", 0);
  const Variable q = heads_of(n[0], heads);
  Variable k = heads_of(n[1], groups), v = heads_of(n[2], groups), y, products;
  if (n.has(4)) k = concat({n[4], k}, 2), v = concat({n[5], v}, 2);
  unsupported_if(k.dim(1) < 1 || q.dim(1) % k.dim(1) != 0,
                 "a number of query heads that is no multiple of that of key heads");
  const double scale = n.number("scale", 1 / std::sqrt(static_cast<double>(q.dim(3))));
  if (n.outputs() > 3 || n.number("softcap", 0) > 0 || v.dim(3) != q.dim(3)) {
    const Outputs both = composed(n, q, k, v, scale);
    y = both[0], products = like(n[0], both[1]);
  } else {
    const auto swapped = [](const Variable& x) { return transpose(x, 1, 2); };
    y = swapped(attention(swapped(q), swapped(k), swapped(v), {.scale = scale}, mask_of(n, q.dim(2), k.dim(2))));
  }
  y = like(n[0], y);
  return {flat ? flatten(transpose(y, 1, 2), 2) : y, k, v, products};
}

/// Treats all tokens of a batch as one sequence, because each sample has other positions.
Variable rotated(const Node& n) {
  const bool flat = rank_of(n[0]) == 3;
  const Variable x = flat ? unflatten(n[0], 2, {n.integer("num_heads", 0), -1}) : transpose(n[0], 1, 2);
  const auto angles = [&](int input) { return flatten(n.has(3) ? index(n[input], {n[3]}) : n[input], 0, 1); };
  const Variable y = rotary(unsqueeze(flatten(x, 0, 1), 0), stack({angles(1), angles(2)}),
                            n.integer("interleaved", 0) != 0 ? RotaryPairs::kNeighbors : RotaryPairs::kHalves);
  return flat ? reshape(y, dims_of(n[0])) : transpose(reshape(y, dims_of(x)), 1, 2);
}

}  // namespace

Table sequence_nodes() {
  return {
      {"RNN", [](const Node& n) { return recurrent(n, rnn, {0}); }},
      {"LSTM",
       [](const Node& n) {
         return recurrent(n, lstm, {0, 2, 3, 1});
       }},
      {"GRU", gru_node},
      {"Attention", attention_node},
      {"RotaryEmbedding", one(rotated)},
  };
}

}  // namespace binade::onnx
