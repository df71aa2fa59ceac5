#include <limits>

#include "binade/core/kernels/recurrent_cells.h"
#include "binade/core/math.h"
#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/value.cuh"

/// Steps of recurrent layers: one thread per element of h.
namespace binade::cuda {
namespace {

constexpr int kThreads = 128;

template <class C>
struct ScalarMath {
  using Value = C;
  BINADE_HD static C sigmoid(C x) { return math::sigmoid(x); }
  BINADE_HD static C tanh(C x) { return math::tanh(x); }
};

template <class Cell, class C>
__global__ void forward_step(RecurrentForward a, FaultNote fault, std::uint32_t* words) {
  constexpr int kGates = Cell::kGates, kActivations = Cell::kActivations;
  AmaxObserver amax(words, a.h.dtype), state_amax(words, kDTypeOf<C>);
  each_index(a.batch * a.hidden, [&](std::int64_t index) {
    const std::int64_t row = index / a.hidden, i = index - row * a.hidden;
    const std::int64_t h_at = row * a.h.pitch + i, y_at = row * a.y.pitch + i, state_at = row * a.state.pitch + i,
                       kept_at = row * a.activations.pitch + i;
    const std::int64_t length = a.lengths == nullptr ? a.steps : a.lengths[row];
    const bool invalid = length < 0 || length > a.steps;
    if (invalid && i == 0) note_fault(fault, a.call, row, length);
    const bool ended = !invalid && a.position >= length;
    recurrent::Element<ScalarMath<C>, kGates, kActivations> e;
    e.h = C(0);
#pragma unroll
    for (int g = 0; g < kActivations; ++g) e.activations[g] = C(0);
    if constexpr (Cell::kState) e.state = static_cast<const C*>(a.state.before)[state_at];
    if (ended) {
      const C h = load_at<C>(a.h_before.data, a.h_before.dtype, row * a.h_before.pitch + i);
      amax.add(h);
      store_at(a.h.data, a.h.dtype, h_at, h);
    } else {
      const C* inputs = static_cast<const C*>(a.inputs) + row * a.inputs_pitch + i;
      const C* products = static_cast<const C*>(a.products) + row * kGates * a.hidden + i;
#pragma unroll
      for (int g = 0; g < kGates; ++g) {
        const std::int64_t at = g * a.hidden;
        e.a[g] = inputs[at] + static_cast<const C*>(a.input_bias)[at + i];
        e.b[g] = products[at] + static_cast<const C*>(a.hidden_bias)[at + i];
      }
      Cell::template forward<ScalarMath<C>>(e);
      if (invalid) e.h = std::numeric_limits<C>::quiet_NaN();
      amax.add(e.h);
      store_at(a.h.data, a.h.dtype, h_at, e.h);
    }
    store_at(a.y.data, a.y.dtype, y_at, e.h);
    if constexpr (Cell::kState) {
      state_amax.add(e.state);
      static_cast<C*>(a.state.after)[state_at] = e.state;
    }
    if (a.activations.data == nullptr) return;
#pragma unroll
    for (int g = 0; g < kActivations; ++g) {
      amax.add(e.activations[g]);
      store_at(a.activations.data, a.activations.dtype, kept_at + g * a.hidden, e.activations[g]);
    }
  });
  amax.publish();
  if constexpr (Cell::kState) state_amax.publish();
}

template <class Cell, class C>
__global__ void backward_step(RecurrentBackward a, std::uint32_t* words) {
  constexpr int kGates = Cell::kGates, kActivations = Cell::kActivations;
  AmaxObserver amax(words, a.input_gates.dtype);
  each_index(a.batch * a.hidden, [&](std::int64_t index) {
    const std::int64_t row = index / a.hidden, i = index - row * a.hidden;
    const std::int64_t ga_at = row * a.input_gates.pitch + i, gb_at = row * a.hidden_gates.pitch + i;
    recurrent::ElementGradient<ScalarMath<C>, kGates, kActivations> e;
#pragma unroll
    for (int g = 0; g < kGates; ++g) e.ga[g] = e.gb[g] = C(0);
    if (a.lengths == nullptr || a.position < a.lengths[row]) {
      const std::int64_t state_at = row * a.state.pitch + i;
      C* gh = static_cast<C*>(a.gh);
      C* gc = static_cast<C*>(a.gc);
#pragma unroll
      for (int g = 0; g < kActivations; ++g)
        e.activations[g] = load_at<C>(a.activations.data, a.activations.dtype,
                                      row * a.activations.pitch + g * a.hidden + i);
      e.gh = gh[index];
      if (a.gy.data != nullptr) e.gh += load_at<C>(a.gy.data, a.gy.dtype, row * a.gy.pitch + i);
      if constexpr (Cell::kTwoGradients)
        e.h_before = load_at<C>(a.h_before.data, a.h_before.dtype, row * a.h_before.pitch + i);
      if constexpr (Cell::kCell) {
        e.c_before = static_cast<const C*>(a.state.before)[state_at];
        e.c = static_cast<const C*>(a.state.after)[state_at];
        e.gc = gc[index];
      }
      Cell::template backward<ScalarMath<C>>(e);
      gh[index] = e.gh;
      if constexpr (Cell::kCell) gc[index] = e.gc;
    }
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      amax.add(e.ga[g]);
      store_at(a.input_gates.data, a.input_gates.dtype, ga_at + g * a.hidden, e.ga[g]);
      if constexpr (Cell::kTwoGradients) {
        amax.add(e.gb[g]);
        store_at(a.hidden_gates.data, a.hidden_gates.dtype, gb_at + g * a.hidden, e.gb[g]);
      }
    }
  });
  amax.publish();
}

/// Calls f.operator()<Cell, C>(), where C is double for f64 and float otherwise.
template <class F>
void dispatch(RecurrentCell cell, DType dtype, F&& f) {
  const auto in = [&]<class Cell>() {
    if (dtype == DType::f64)
      f.template operator()<Cell, double>();
    else
      f.template operator()<Cell, float>();
  };
  switch (cell) {
    case RecurrentCell::kTanh: return in.template operator()<recurrent::Tanh>();
    case RecurrentCell::kRelu: return in.template operator()<recurrent::Relu>();
    case RecurrentCell::kLstm: return in.template operator()<recurrent::Lstm>();
    case RecurrentCell::kGru: return in.template operator()<recurrent::Gru>();
  }
}

}  // namespace

void run_recurrent_forward(const RecurrentForward& call) {
  if (call.batch * call.hidden == 0) return;
  dispatch(call.cell, call.h.dtype, [&]<class Cell, class C>() {
    launch(forward_step<Cell, C>, grid_for(ceil_div(call.batch * call.hidden, kThreads)), kThreads, 0, call,
           context().fault, context().amax_words);
  });
}

void run_recurrent_backward(const RecurrentBackward& call) {
  if (call.batch * call.hidden == 0) return;
  dispatch(call.cell, call.input_gates.dtype, [&]<class Cell, class C>() {
    launch(backward_step<Cell, C>, grid_for(ceil_div(call.batch * call.hidden, kThreads)), kThreads, 0, call,
           context().amax_words);
  });
}

}  // namespace binade::cuda
