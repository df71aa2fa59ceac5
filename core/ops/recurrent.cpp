#include "binade/core/ops/recurrent.h"

#include <initializer_list>

#include "binade/core/faults.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/observation.h"
#include "binade/core/ops/products.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

/// The inputs of all three ops; c0 is undefined unless the cell is an LSTM.
struct Inputs {
  Tensor x, w_ih, w_hh, bias_ih, bias_hh, h0, c0, lengths;
  Inputs(RecurrentCell cell, std::span<const Tensor> in)
      : x(in[0]), w_ih(in[1]), w_hh(in[2]), bias_ih(in[3]), bias_hh(in[4]), h0(in[5]), lengths(in.back()) {
    if (cell == RecurrentCell::kLstm) c0 = in[6];
  }
};

/// Positions of the saved tensors.
enum Saved { kX, kWeight, kHiddenWeight, kBefore, kActivations, kCells, kLengths };

struct Sizes {
  std::int64_t batch, steps, hidden, gates, activations;  // gates, activations: numbers of columns
  DType dtype, wide;                                      // of the products; of the pointwise arithmetic
  Device device;
  Sizes(RecurrentCell cell, const Tensor& x, const Tensor& w_hh)
      : batch(x.dim(0)),
        steps(x.dim(1)),
        hidden(w_hh.dim(1)),
        gates(gates_of(cell) * hidden),
        activations(activations_of(cell) * hidden),
        dtype(x.dtype()),
        wide(accumulate_dtype(dtype)),
        device(x.device()) {}
  /// Returns the number of positions to compute: 0 if there are no sequences.
  std::int64_t positions() const { return batch == 0 ? 0 : steps; }
  Tensor tensor(std::initializer_list<std::int64_t> extents, DType of) const {
    return Tensor::empty(Shape(extents), of, device);
  }
};

void check_state(const char* op, const char* name, const Tensor& state, const Sizes& s, bool cast) {
  if (!state.defined()) return;
  check<ShapeError>(state.shape() == Shape{s.batch, s.hidden}, "{}: wanted {} (B, H) = {}, got {}", where(op), name,
                    Shape{s.batch, s.hidden}, state.shape());
  const bool fits = cast ? state.dtype() == s.dtype
                         : is_floating(state.dtype()) && (state.dtype() == DType::f64) == (s.dtype == DType::f64);
  check<DTypeError>(fits, "{}: wanted {} of {}, as x and the weights, got {}; convert it with to()", where(op), name,
                    name_of(cast ? s.dtype : s.wide), name_of(state.dtype()));
}

void check_inputs(const char* op, RecurrentCell cell, const Inputs& in) {
  const std::int64_t gates = gates_of(cell);
  check<ShapeError>(in.x.rank() == 3, "{}: wanted x (B, T, in), got {}; reshape one sequence to (1, T, in)", where(op),
                    in.x.shape());
  check_linear(op, in.x, in.w_ih, in.bias_ih, "w_ih", "bias_ih");
  check<ShapeError>(in.w_hh.rank() == 2 && in.w_hh.dim(1) > 0 && in.w_ih.dim(0) % gates == 0 &&
                        in.w_hh.shape() == Shape{in.w_ih.dim(0), in.w_ih.dim(0) / gates},
                    "{}: wanted w_ih ({} H, in) and w_hh ({} H, H) with H > 0, got {} and {}", where(op), gates, gates,
                    in.w_ih.shape(), in.w_hh.shape());
  check<DTypeError>(in.w_hh.dtype() == in.x.dtype(), "{}: wanted w_hh of the dtype of x, {}, got {}", where(op),
                    name_of(in.x.dtype()), name_of(in.w_hh.dtype()));
  if (in.bias_hh.defined()) check_linear(op, in.x, in.w_ih, in.bias_hh, "w_ih", "bias_hh");
  const Sizes sizes(cell, in.x, in.w_hh);
  check_state(op, "h0", in.h0, sizes, true);
  check_state(op, "c0", in.c0, sizes, false);
  if (!in.lengths.defined()) return;
  check<ShapeError>(in.lengths.shape() == Shape{sizes.batch}, "{}: wanted lengths (B) = {}, got {}", where(op),
                    Shape{sizes.batch}, in.lengths.shape());
  check<DTypeError>(in.lengths.dtype() == DType::i64 || in.lengths.dtype() == DType::i32,
                    "{}: wanted lengths of i64 or i32, got {}", where(op), name_of(in.lengths.dtype()));
}

/// Returns slot i of each sequence in a contiguous tensor (B, S, columns), as rows.
InputRows slot(const Tensor& t, std::int64_t i) {
  const std::int64_t columns = t.dim(2), pitch = t.dim(1) * columns;
  const auto* data = static_cast<const std::byte*>(t.raw());  // null if there are no sequences
  return {data == nullptr ? nullptr : data + i * columns * static_cast<std::int64_t>(size_of(t.dtype())), t.dtype(),
          pitch};
}
OutputRows slot(Tensor& t, std::int64_t i) {
  const InputRows rows = slot(static_cast<const Tensor&>(t), i);
  return {const_cast<void*>(rows.data), rows.dtype, rows.pitch};
}

/// Copies `from` (B, H), or zeros if it is undefined, to rows of a tensor.
void set_rows(const OutputRows& to, const Tensor& from, const Sizes& s) {
  const KernelTable& table = kernels(s.device);
  if (s.batch == 0) return;
  if (from.defined())
    table.convert({to, input_rows(from), s.batch, s.hidden});
  else
    table.fill({to, 0, s.batch, s.hidden});
}

/// Returns a bias in the dtype of the arithmetic, or zeros.
Tensor bias_of(const Tensor& bias, const Sizes& s) {
  return bias.defined() ? bias.to(s.wide).contiguous_copy() : Tensor::zeros({s.gates}, s.wide, s.device);
}

/// Packs operand B (w_hh) of the products of all positions once, if the device can read packed operands.
class PackedOperand {
 public:
  PackedOperand(GemmArgs& g, std::int64_t products, Device device) {
    const KernelTable& table = kernels(device);
    if (products < 2 || g.m == 0 || table.packed_bytes == nullptr) return;
    memory_ = Tensor::empty({static_cast<std::int64_t>(table.packed_bytes(g))}, DType::u8, device);
    table.pack_operand({g, memory_.mutable_raw()});
    g.packed_b = memory_.raw();
  }

 private:
  Tensor memory_;
};

/// Describes the product h w_hh^T of one position. The caller sets the operand h.
GemmArgs hidden_product(const OpContext& ctx, const Sizes& s, const Tensor& w_hh, Tensor& to) {
  GemmArgs g{.m = s.batch, .n = s.gates, .k = s.hidden, .in = s.dtype, .out = s.wide};
  g.tf32 = ctx.tf32;
  g.b = w_hh.raw();
  g.b_row = 1;
  g.b_col = w_hh.pitch();
  g.c = to.mutable_raw();
  g.c_row = s.gates;
  g.partial = true;
  return g;
}

Tensors forward_of(const OpInfo& info, OpContext& ctx, std::span<const Tensor> tensors, RecurrentCell cell,
                   bool reverse) {
  const Inputs in(cell, tensors);
  check_inputs(info.name, cell, in);
  const Sizes s(cell, in.x, in.w_hh);
  const KernelTable& table = kernels(s.device);
  const bool keeps = ctx.grad_enabled, lstm = cell == RecurrentCell::kLstm;
  const bool in_place = keeps && s.dtype == s.wide;  // the activations overwrite x w_ih^T

  Tensor inputs = s.tensor({s.batch, s.steps, in_place ? s.activations : s.gates}, s.wide);
  GemmArgs of_inputs = forward_product(ctx, in.x, in.w_ih.raw(), in.w_ih.pitch(), inputs);
  of_inputs.n = s.gates;
  of_inputs.partial = true;
  if (s.steps > 0) table.gemm(of_inputs);
  Tensor activations;
  if (keeps) activations = in_place ? inputs : s.tensor({s.batch, s.steps, s.activations}, s.dtype);

  // `before` holds h before each position: one slot per position if backward needs all of them, else two slots in turn.
  const auto position = [&](std::int64_t k) { return reverse ? s.steps - 1 - k : k; };
  const auto slot_of = [&](std::int64_t k) { return keeps ? position(k) : k % 2; };
  Tensor before = s.tensor({s.batch, keeps ? s.steps : 2, s.hidden}, s.dtype);
  Tensor states;
  if (has_state(cell)) states = s.tensor({s.batch, keeps && lstm ? s.steps + 1 : 2, s.hidden}, s.wide);
  const auto state_of = [&](std::int64_t k) { return keeps && lstm ? k : k % 2; };
  Tensor h_n = s.tensor({s.batch, s.hidden}, s.dtype), y = s.tensor({s.batch, s.steps, s.hidden}, s.dtype);
  set_rows(s.steps > 0 ? slot(before, slot_of(0)) : output_rows(h_n), in.h0, s);
  if (has_state(cell)) set_rows(slot(states, 0), lstm ? in.c0 : in.h0, s);

  const Tensor input_bias = bias_of(in.bias_ih, s), hidden_bias = bias_of(in.bias_hh, s);
  const Tensor lengths = in.lengths.defined() ? in.lengths.to(DType::i64).contiguous_copy() : Tensor();
  std::uint64_t call = 0;
  if (lengths.defined())
    call = register_call([op = where(info.name).to_string(), steps = s.steps](std::int64_t i, std::int64_t length) {
      return fmt::format("{}: wanted lengths from 0 to {}, the number of positions of x, got {} for sequence {}", op,
                         steps, length, i);
    });
  Tensor products = s.tensor({s.batch, s.gates}, s.wide);
  GemmArgs of_h = hidden_product(ctx, s, in.w_hh, products);
  const PackedOperand packed(of_h, s.steps, s.device);
  for (std::int64_t k = 0; k < s.positions(); ++k) {
    const InputRows h = slot(static_cast<const Tensor&>(before), slot_of(k));
    of_h.a = h.data;
    of_h.a_row = h.pitch;
    table.gemm(of_h);
    const InputRows inputs_now = slot(static_cast<const Tensor&>(inputs), position(k));
    RecurrentForward step{.cell = cell,
                          .batch = s.batch,
                          .hidden = s.hidden,
                          .position = position(k),
                          .steps = s.steps,
                          .lengths = lengths.defined() ? lengths.data<std::int64_t>() : nullptr,
                          .call = call,
                          .inputs = inputs_now.data,
                          .inputs_pitch = inputs_now.pitch,
                          .products = products.raw(),
                          .input_bias = input_bias.raw(),
                          .hidden_bias = hidden_bias.raw(),
                          .h_before = h,
                          .h = k + 1 < s.steps ? slot(before, slot_of(k + 1)) : output_rows(h_n),
                          .y = slot(y, position(k))};
    if (has_state(cell)) {
      const OutputRows from = slot(states, state_of(k)), to = slot(states, state_of(k + 1));
      step.state = {from.data, to.data, to.pitch};
    }
    if (keeps) step.activations = slot(activations, position(k));
    table.recurrent_forward(step);
  }

  Tensor c_n;
  if (lstm) {
    c_n = s.tensor({s.batch, s.hidden}, s.wide);
    if (s.batch > 0)
      table.convert({output_rows(c_n), slot(static_cast<const Tensor&>(states), state_of(s.steps)), s.batch, s.hidden});
  }
  if (s.steps == 0) {  // the final state is the initial one, which no step has stored
    observe_into_scope(h_n);
    if (lstm) observe_into_scope(c_n);
  }
  for (const Tensor& t : {in.x, in.w_ih, in.w_hh, before, activations}) ctx.save(t);
  ctx.save(lstm ? states : Tensor());
  ctx.save(lengths);
  Tensors outputs{y.to(ctx.store_dtype), h_n.to(ctx.store_dtype)};
  if (lstm) outputs.push_back(std::move(c_n));
  return outputs;
}

/// Returns the gradient of a final state as a tensor of dtype s.wide that may be overwritten; zeros if it is undefined.
Tensor gradient_of_state(const Tensor& gradient, const Sizes& s) {
  Tensor to = s.tensor({s.batch, s.hidden}, s.wide);
  set_rows(output_rows(to), gradient, s);
  return to;
}

/// Computes gradient^T inputs, the gradient of weight w, if it is needed. `gradient`: that of the product inputs w^T.
void weight_gradient(const OpContext& ctx, const Tensor& gradient, const Tensor& inputs, GradSink& gx, int i) {
  if (!gx.needs(i)) return;
  auto [to, adds] = gradient_of_product(ctx, gx, i);
  GemmArgs g = weight_gradient_product(ctx, gradient, inputs, to.dtype(), to.mutable_raw());
  g.accumulate = adds;
  kernels(inputs.device()).gemm(g);
}

void set_gradient(GradSink& gx, int i, const Tensor& gradient) {
  if (gx.needs(i)) gx.destination(i).copy_from(gradient);
}

void backward_of(const OpInfo& info, const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, RecurrentCell cell,
                 bool reverse) {
  const Tensor& x = ctx.saved(kX, info.name);
  const Tensor &w_ih = ctx.saved(kWeight, info.name), &w_hh = ctx.saved(kHiddenWeight, info.name);
  const Tensor &before = ctx.saved(kBefore, info.name), &activations = ctx.saved(kActivations, info.name);
  const bool lstm = cell == RecurrentCell::kLstm, two = cell == RecurrentCell::kGru;
  const Tensor &states = ctx.saved(kCells, info.name), &lengths = ctx.saved(kLengths, info.name);  // or undefined
  const Sizes s(cell, x, w_hh);
  const KernelTable& table = kernels(s.device);

  Tensor gh = gradient_of_state(gy[1], s);
  Tensor gc = lstm ? gradient_of_state(gy[2], s) : Tensor();
  const Tensor gradient = gy[0].defined() ? gy[0].to(s.dtype) : Tensor();
  Tensor ga = s.tensor({s.batch, s.steps, s.gates}, s.dtype);
  Tensor gb = two ? s.tensor({s.batch, s.steps, s.gates}, s.dtype) : ga;

  GemmArgs of_gates{.m = s.batch, .n = s.hidden, .k = s.gates, .in = s.dtype, .out = s.wide};
  of_gates.tf32 = ctx.tf32;
  of_gates.b = w_hh.raw();
  of_gates.b_row = w_hh.pitch();
  of_gates.c = gh.mutable_raw();
  of_gates.c_row = s.hidden;
  of_gates.accumulate = true;
  const PackedOperand packed(of_gates, s.steps, s.device);
  for (std::int64_t k = s.positions() - 1; k >= 0; --k) {
    const std::int64_t position = reverse ? s.steps - 1 - k : k;
    RecurrentBackward step{.cell = cell,
                           .batch = s.batch,
                           .hidden = s.hidden,
                           .position = position,
                           .lengths = lengths.defined() ? lengths.data<std::int64_t>() : nullptr,
                           .activations = slot(activations, position),
                           .h_before = slot(before, position),
                           .gh = gh.mutable_raw(),
                           .input_gates = slot(ga, position)};
    if (lstm) {
      const InputRows from = slot(states, k), to = slot(states, k + 1);
      step.state = {from.data, const_cast<void*>(to.data), to.pitch};
      step.gc = gc.mutable_raw();
    }
    if (gradient.defined()) step.gy = slot(gradient, position);
    if (two) step.hidden_gates = slot(gb, position);
    table.recurrent_backward(step);
    if (k == 0 && !gx.needs(5)) break;
    const InputRows gates = slot(static_cast<const Tensor&>(gb), position);
    of_gates.a = gates.data;
    of_gates.a_row = gates.pitch;
    table.gemm(of_gates);
  }

  if (gx.needs(0)) {
    auto [to, adds] = gradient_of_product(ctx, gx, 0);
    GemmArgs g = input_gradient_product(ctx, ga, w_ih.raw(), w_ih.pitch(), to);
    g.accumulate = adds;
    table.gemm(g);
  }
  weight_gradient(ctx, ga, x, gx, 1);
  weight_gradient(ctx, gb, before, gx, 2);
  bias_gradient(ga, gx, 3);
  bias_gradient(gb, gx, 4);
  set_gradient(gx, 5, gh);
  if (lstm) set_gradient(gx, 6, gc);
}

RecurrentCell cell_of(const Rnn::Params& p) { return p.relu ? RecurrentCell::kRelu : RecurrentCell::kTanh; }

}  // namespace

Tensors Rnn::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return forward_of(info, ctx, in, cell_of(p), p.reverse);
}
void Rnn::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  backward_of(info, ctx, gy, gx, cell_of(p), p.reverse);
}

Tensors Lstm::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return forward_of(info, ctx, in, RecurrentCell::kLstm, p.reverse);
}
void Lstm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  backward_of(info, ctx, gy, gx, RecurrentCell::kLstm, p.reverse);
}

Tensors Gru::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return forward_of(info, ctx, in, RecurrentCell::kGru, p.reverse);
}
void Gru::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  backward_of(info, ctx, gy, gx, RecurrentCell::kGru, p.reverse);
}

}  // namespace binade::ops
