#include "binade/core/kernels/recurrent.h"

#include <algorithm>
#include <cstring>

#include "binade/core/kernels/exponentials.h"
#include "binade/core/kernels/recurrent_cells.h"
#include "binade/core/kernels/tile.h"

namespace binade::cpu::BINADE_ISA {

const RecurrentKernels& recurrent_kernels();

namespace {

/// Functions of vectors for the formulas of the cells, with the errors of their counterparts in core/math.h.
template <class C>
struct VectorMath;
template <>
struct VectorMath<float> {
  using Value = VFloat;
  [[gnu::always_inline]] static VFloat sigmoid(const VFloat& x) { return 1.0f / (1.0f + exp(-x)); }
  [[gnu::always_inline]] static VFloat tanh(const VFloat& x) {
    const VFloat a = (VFloat)((VInt)x & kMagnitudeBits), s = x * x;
    const VFloat p = horner(s, -5.515163244e-03f, 2.046941921e-02f, -5.368802286e-02f, 1.333083034e-01f,
                            -3.333325985e-01f);
    const VFloat near = multiply_add(x, s * p, x), far = 1.0f - 2.0f / (exp(a + a) + 1.0f);
    const VFloat signed_far = (VFloat)((VInt)far | ((VInt)x & ~kMagnitudeBits));
    return a < 0.65f ? near : signed_far;
  }
};
template <>
struct VectorMath<double> {
  using Value = Vector<double>;
  static Vector<double> sigmoid(Vector<double> x) {
    for (int i = 0; i < kLanes<double>; ++i) x[i] = math::sigmoid(x[i]);
    return x;
  }
  static Vector<double> tanh(Vector<double> x) {
    for (int i = 0; i < kLanes<double>; ++i) x[i] = math::tanh(x[i]);
    return x;
  }
};

/// A work item: `count` elements of a row from element `first` on.
struct Item {
  std::int64_t row, first, count;
};

template <class F>
void each_item(std::int64_t hidden, std::int64_t begin, std::int64_t end, F&& f) {
  const std::int64_t strips = ceil_div(hidden, kRecurrentStrip);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t first = i % strips * kRecurrentStrip;
    f(Item{i / strips, first, std::min(kRecurrentStrip, hidden - first)});
  }
}

/// Return the address of an item's first element in rows of T.
template <class T>
const T* at(const InputRows& rows, const Item& item) {
  return static_cast<const T*>(rows.data) + item.row * rows.pitch + item.first;
}
template <class T>
T* at(const OutputRows& rows, const Item& item) {
  return static_cast<T*>(rows.data) + item.row * rows.pitch + item.first;
}

/// Sets `count` elements of each of `blocks` blocks to 0; the blocks are `stride` elements apart.
template <class T>
void clear(T* to, std::int64_t count, std::int64_t blocks = 1, std::int64_t stride = 0) {
  for (std::int64_t b = 0; b < blocks; ++b)
    std::memset(static_cast<void*>(to + b * stride), 0, static_cast<std::size_t>(count) * sizeof(T));
}

bool has_ended(const std::int64_t* lengths, std::int64_t row, std::int64_t position) {
  return lengths != nullptr && position >= lengths[row];
}

template <class Cell, class T>
[[gnu::flatten]] void forward_item(const RecurrentForward& a, const Item& item, AmaxObserver& stored,
                                   AmaxObserver& states) {
  using C = Compute<T>;
  constexpr int kGates = Cell::kGates, kActivations = Cell::kActivations;
  const std::int64_t hidden = a.hidden, state_at = item.row * a.state.pitch + item.first;
  const T* h_before = at<T>(a.h_before, item);
  T *h = at<T>(a.h, item), *y = at<T>(a.y, item);
  T* kept = a.activations.data == nullptr ? nullptr : at<T>(a.activations, item);
  const C* state_before = Cell::kState ? static_cast<const C*>(a.state.before) + state_at : nullptr;
  C* state = Cell::kState ? static_cast<C*>(a.state.after) + state_at : nullptr;
  if (has_ended(a.lengths, item.row, a.position)) {
    put_row(h, item.count, stored, [&](std::int64_t i, auto part) { return get(h_before + i, part); });
    if constexpr (Cell::kState)
      put_row(state, item.count, states, [&](std::int64_t i, auto part) { return get(state_before + i, part); });
    clear(y, item.count);
    if (kept != nullptr) clear(kept, item.count, kActivations, hidden);
    return;
  }
  const C* inputs = static_cast<const C*>(a.inputs) + item.row * a.inputs_pitch + item.first;
  const C* products = static_cast<const C*>(a.products) + item.row * kGates * hidden + item.first;
  const C *input_bias = static_cast<const C*>(a.input_bias) + item.first,
          *hidden_bias = static_cast<const C*>(a.hidden_bias) + item.first;
  LoopAmaxObserver h_amax(stored), state_amax(states);
  each_group<T>(
      item.count, [&](std::int64_t i, auto part) __attribute__((always_inline)) {
        recurrent::Element<VectorMath<C>, kGates, kActivations> e;
#pragma GCC unroll 4
        for (int g = 0; g < kGates; ++g) {
          e.a[g] = get(inputs + g * hidden + i, part) + get(input_bias + g * hidden + i, part);
          e.b[g] = get(products + g * hidden + i, part) + get(hidden_bias + g * hidden + i, part);
        }
        if constexpr (Cell::kState) e.state = get(state_before + i, part);
        Cell::template forward<VectorMath<C>>(e);
        put(h + i, e.h, part, h_amax);
        put(y + i, e.h, part);
        if constexpr (Cell::kState) put(state + i, e.state, part, state_amax);
        if (kept != nullptr) {
#pragma GCC unroll 4
          for (int g = 0; g < kActivations; ++g) put(kept + g * hidden + i, e.activations[g], part, h_amax);
        }
      });
}

template <class Cell, class T>
[[gnu::flatten]] void backward_item(const RecurrentBackward& a, const Item& item, AmaxObserver& stored) {
  using C = Compute<T>;
  constexpr int kGates = Cell::kGates, kActivations = Cell::kActivations;
  const std::int64_t hidden = a.hidden, dense_at = item.row * hidden + item.first,
                     state_at = item.row * a.state.pitch + item.first;
  T* ga = at<T>(a.input_gates, item);
  T* gb = Cell::kTwoGradients ? at<T>(a.hidden_gates, item) : nullptr;
  if (has_ended(a.lengths, item.row, a.position)) {
    clear(ga, item.count, kGates, hidden);
    if (Cell::kTwoGradients) clear(gb, item.count, kGates, hidden);
    return;
  }
  const T* kept = at<T>(a.activations, item);
  const T* gy = a.gy.data == nullptr ? nullptr : at<T>(a.gy, item);
  const T* h_before = Cell::kTwoGradients ? at<T>(a.h_before, item) : nullptr;
  const C* c_before = Cell::kCell ? static_cast<const C*>(a.state.before) + state_at : nullptr;
  const C* c = Cell::kCell ? static_cast<const C*>(a.state.after) + state_at : nullptr;
  C* gh = static_cast<C*>(a.gh) + dense_at;
  C* gc = Cell::kCell ? static_cast<C*>(a.gc) + dense_at : nullptr;
  LoopAmaxObserver amax(stored);
  each_group<T>(
      item.count, [&](std::int64_t i, auto part) __attribute__((always_inline)) {
        recurrent::ElementGradient<VectorMath<C>, kGates, kActivations> e;
#pragma GCC unroll 4
        for (int g = 0; g < kActivations; ++g) e.activations[g] = get(kept + g * hidden + i, part);
        e.gh = get(gh + i, part);
        if (gy != nullptr) e.gh += get(gy + i, part);
        if constexpr (Cell::kTwoGradients) e.h_before = get(h_before + i, part);
        if constexpr (Cell::kCell) {
          e.c_before = get(c_before + i, part);
          e.c = get(c + i, part);
          e.gc = get(gc + i, part);
        }
        Cell::template backward<VectorMath<C>>(e);
        put(gh + i, e.gh, part);
        if constexpr (Cell::kCell) put(gc + i, e.gc, part);
#pragma GCC unroll 4
        for (int g = 0; g < kGates; ++g) put(ga + g * hidden + i, e.ga[g], part, amax);
        if constexpr (Cell::kTwoGradients) {
#pragma GCC unroll 4
          for (int g = 0; g < kGates; ++g) put(gb + g * hidden + i, e.gb[g], part, amax);
        }
      });
}

/// Calls f.operator()<Cell>().
template <class F>
void dispatch_cell(RecurrentCell cell, F&& f) {
  switch (cell) {
    case RecurrentCell::kTanh: return f.template operator()<recurrent::Tanh>();
    case RecurrentCell::kRelu: return f.template operator()<recurrent::Relu>();
    case RecurrentCell::kLstm: return f.template operator()<recurrent::Lstm>();
    case RecurrentCell::kGru: return f.template operator()<recurrent::Gru>();
  }
}

void forward(const RecurrentForward& a, std::int64_t begin, std::int64_t end) {
  dispatch_float(a.h.dtype, "recurrent_forward", [&]<class T>(TypeTag<T>) {
    dispatch_cell(a.cell, [&]<class Cell>() {
      AmaxObserver stored(kDTypeOf<T>), states(kDTypeOf<Compute<T>>);
      each_item(a.hidden, begin, end, [&](const Item& item) { forward_item<Cell, T>(a, item, stored, states); });
    });
  });
}

void backward(const RecurrentBackward& a, std::int64_t begin, std::int64_t end) {
  dispatch_float(a.input_gates.dtype, "recurrent_backward", [&]<class T>(TypeTag<T>) {
    dispatch_cell(a.cell, [&]<class Cell>() {
      AmaxObserver stored(kDTypeOf<T>);
      each_item(a.hidden, begin, end, [&](const Item& item) { backward_item<Cell, T>(a, item, stored); });
    });
  });
}

}  // namespace

const RecurrentKernels& recurrent_kernels() {
  static constexpr RecurrentKernels kernels{&forward, &backward};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
