#pragma once

#include "binade/autograd/variable.h"

namespace binade {

/// The parameters of one recurrent layer in one direction: `input` (G H, in) and `hidden` (G H, H) for G gates; the
/// biases (G H) are optional. The rows of the gates are in PyTorch's order.
struct RecurrentWeights {
  Variable input{}, hidden{}, input_bias{}, hidden_bias{};
};

/// The state of recurrent layers: h and, of an LSTM, c. An undefined variable means zeros.
struct RecurrentState {
  Variable h{}, c{};
};

/// The results of a recurrent layer: h of every position, and the state after the last one.
struct RecurrentResult {
  Variable y{};
  RecurrentState state{};
};

/// Arguments of a recurrent layer that have a default.
struct SequenceOptions {
  bool reverse = false;  ///< computes the last position first
  /// (B), i64 or i32: sequence i ends after lengths[i] positions, with y = 0 beyond. Checked if x has positions (T >
  /// 0).
  Variable lengths{};
  bool relu = false;  ///< rnn() only: relu instead of tanh
};

/// One layer and direction over the sequences x (B, T, in), from `start` with h and c (B, H); y (B, T, H):
/// see ops::Rnn, ops::Lstm and ops::Gru. nn::Rnn, nn::Lstm and nn::Gru stack layers.
RecurrentResult rnn(const Variable& x, const RecurrentWeights& weights, const RecurrentState& start = {},
                    const SequenceOptions& options = {});
RecurrentResult lstm(const Variable& x, const RecurrentWeights& weights, const RecurrentState& start = {},
                     const SequenceOptions& options = {});
RecurrentResult gru(const Variable& x, const RecurrentWeights& weights, const RecurrentState& start = {},
                    const SequenceOptions& options = {});

}  // namespace binade
