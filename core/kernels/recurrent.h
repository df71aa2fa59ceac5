#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/kernels/tensor.h"

namespace binade {

/// Kinds of recurrent cells. Their formulas are in recurrent_cells.h.
enum class RecurrentCell { kTanh, kRelu, kLstm, kGru };

/// Returns the number of gates. Each gate has `hidden` rows of the weights.
constexpr std::int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kGru ? 3 : 1;
}
/// Returns the number of values per element of h that forward keeps for backward.
constexpr std::int64_t activations_of(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm || cell == RecurrentCell::kGru ? 4 : 1;
}
/// True if the cell has a state in f32 (f64 for f64) besides h: c of an LSTM, and the unrounded h of a GRU.
constexpr bool has_state(RecurrentCell cell) { return cell == RecurrentCell::kLstm || cell == RecurrentCell::kGru; }

/// Rows of a cell's state before and after a step. `pitch`: elements between rows of both.
struct RecurrentStates {
  const void* before = nullptr;
  void* after = nullptr;
  std::int64_t pitch = 0;
};

/// One step of a recurrent layer, after the products: activations, state and h of position `position` in each of
/// `batch` sequences. h, y and the activations have one dtype; all other tensors are f32 (f64 for f64). A sequence that
/// ends at or before the position keeps h and state; its y and its activations are 0.
struct RecurrentForward {
  RecurrentCell cell{};
  std::int64_t batch = 0, hidden = 0, position = 0, steps = 0;  ///< steps: number of positions
  const std::int64_t* lengths = nullptr;  ///< lengths of the sequences, 0 to steps; null: all are complete
  std::uint64_t call = 0;                 ///< identifies the call in the report of an invalid length (core/faults.h)
  const void* inputs = nullptr;           ///< x W_ih^T, rows of gates * hidden
  std::int64_t inputs_pitch = 0;          ///< elements between its rows
  const void* products = nullptr;         ///< h W_hh^T (batch, gates * hidden), contiguous
  const void* input_bias = nullptr;       ///< (gates * hidden)
  const void* hidden_bias = nullptr;      ///< (gates * hidden)
  InputRows h_before{};
  OutputRows h{};
  RecurrentStates state{};   ///< if has_state(cell)
  OutputRows y{};            ///< receives the same values as h
  OutputRows activations{};  ///< rows of activations_of(cell) * hidden, may be `inputs`; data null: not wanted
};

/// The gradient of one step. `gh` holds the gradient of the step's h that comes from later steps, and receives the part
/// of the gradient of the previous h that does not pass through W_hh. A sequence that ends at or before the position
/// keeps gh and gc; its gates get the gradient 0.
struct RecurrentBackward {
  RecurrentCell cell{};
  std::int64_t batch = 0, hidden = 0, position = 0;
  const std::int64_t* lengths = nullptr;
  InputRows activations{};    ///< of forward
  InputRows h_before{};       ///< of a GRU
  RecurrentStates state{};    ///< of an LSTM
  InputRows gy{};             ///< gradient of y; data null: none
  void* gh = nullptr;         ///< (batch, hidden), f32 (f64 for f64)
  void* gc = nullptr;         ///< LSTM only, like gh. In: gradient of the step's c; out: of the previous c
  OutputRows input_gates{};   ///< receives the gradient of x W_ih^T + b_ih, rows of gates * hidden
  OutputRows hidden_gates{};  ///< of a GRU: the gradient of h W_hh^T + b_hh, which is the same in other cells
};

namespace cpu {

/// Number of elements of a row that one work item of a step computes.
inline constexpr std::int64_t kRecurrentStrip = 512;

/// One level's loops over work items [begin, end); item i is strip i % strips of row i / strips.
struct RecurrentKernels {
  void (*forward)(const RecurrentForward& a, std::int64_t begin, std::int64_t end);
  void (*backward)(const RecurrentBackward& a, std::int64_t begin, std::int64_t end);
};

}  // namespace cpu
}  // namespace binade
