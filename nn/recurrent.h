#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/autograd/functions/recurrent.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Options of Lstm and Gru.
struct RecurrentOptions {
  std::int64_t in = 0, hidden = 0;  ///< values per position of x; values of h
  std::int64_t layers = 1;          ///< layer k > 0 reads the results of layer k - 1
  bool bias = true;
  double dropout = 0;          ///< probability with which the results of each layer but the last are dropped
  bool bidirectional = false;  ///< also runs from the last position to the first; y concatenates both directions
};
/// Options of Rnn.
struct RnnOptions {
  std::int64_t in = 0, hidden = 0;
  std::int64_t layers = 1;
  bool relu = false;  ///< relu instead of tanh
  bool bias = true;
  double dropout = 0;
  bool bidirectional = false;
};

/// Base of Rnn, Lstm and Gru: x (B, T, in) -> y (B, T, hidden), or (B, T, 2 hidden) with two directions.
///
/// Parameters have PyTorch's names, shapes and order of gates, so that state dicts of torch.nn.RNN, LSTM and GRU
/// (without proj_size) fit: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 of layer 0, the same with _reverse for
/// its second direction, then layer 1, and so on. They are initialized with U(-1 / sqrt(hidden), 1 / sqrt(hidden)).
/// Unlike in PyTorch, the batch always comes first.
class RecurrentLayers : public Module {
 public:
  void visit(Visitor& v) override;
  /// Returns y for a state of zeros.
  Variable forward(const Variable& x) override;

  using Module::operator();
  /// Computes y and the final state from the state `start`: h and c are (layers * directions, B, hidden), with layer 0
  /// first and its second direction next; undefined ones are zeros. `lengths` (B), i64 or i32: sequence i consists of
  /// its first lengths[i] positions; y is 0 beyond, and the state is that after the last of these positions.
  RecurrentResult operator()(const Variable& x, const RecurrentState& start, const Variable& lengths = {});

  const RecurrentOptions& options() const { return options_; }

 protected:
  RecurrentLayers(const char* kind, const RecurrentOptions& options, std::int64_t gates);
  /// Computes one layer in one direction.
  virtual RecurrentResult layer(const Variable& x, const RecurrentWeights& weights, const RecurrentState& start,
                                const SequenceOptions& options) const = 0;

 private:
  /// Parameters of one layer in one direction; the biases may be undefined.
  struct Weights {
    Parameter input, hidden, input_bias, hidden_bias;
  };
  RecurrentResult run(const Variable& x, const RecurrentState& start, const Variable& lengths);

  const char* kind_;
  RecurrentOptions options_;
  std::vector<Weights> weights_;  // of layer l and direction d: at l * directions + d
};

/// Recurrent network with h = tanh(x w_ih^T + b_ih + h w_hh^T + b_hh), or relu (Elman, 1990): see ops::Rnn.
class Rnn : public RecurrentLayers {
 public:
  explicit Rnn(const RnnOptions& options);
  std::string kind() const override { return "Rnn"; }

 private:
  RecurrentResult layer(const Variable& x, const RecurrentWeights& weights, const RecurrentState& start,
                        const SequenceOptions& options) const override;
  bool relu_;
};

/// Long short-term memory (Hochreiter and Schmidhuber, 1997; Gers et al., 2000): see ops::Lstm.
class Lstm : public RecurrentLayers {
 public:
  explicit Lstm(const RecurrentOptions& options);
  std::string kind() const override { return "Lstm"; }

 private:
  RecurrentResult layer(const Variable& x, const RecurrentWeights& weights, const RecurrentState& start,
                        const SequenceOptions& options) const override;
};

/// Gated recurrent unit (Cho et al., 2014): see ops::Gru.
class Gru : public RecurrentLayers {
 public:
  explicit Gru(const RecurrentOptions& options);
  std::string kind() const override { return "Gru"; }

 private:
  RecurrentResult layer(const Variable& x, const RecurrentWeights& weights, const RecurrentState& start,
                        const SequenceOptions& options) const override;
};

/// Options of LstmCell and GruCell.
struct RecurrentCellOptions {
  std::int64_t in = 0, hidden = 0;
  bool bias = true;
};
/// Options of RnnCell.
struct RnnCellOptions {
  std::int64_t in = 0, hidden = 0;
  bool relu = false;  ///< relu instead of tanh
  bool bias = true;
};

/// Base of the cells, which compute one position: x (B, in) and a state (B, hidden) -> the next state. Parameters
/// weight_ih, weight_hh, bias_ih and bias_hh, as in PyTorch.
class RecurrentCellModule : public Module {
 public:
  void visit(Visitor& v) override;
  /// Returns the next h, for a previous state of zeros.
  Variable forward(const Variable& x) override;

  using Module::operator();
  /// Returns the state that follows `state`; undefined parts of it are zeros.
  RecurrentState operator()(const Variable& x, const RecurrentState& state);

  Parameter weight_ih, weight_hh, bias_ih, bias_hh;  ///< the biases are undefined in a cell without them

 protected:
  RecurrentCellModule(const char* kind, const RecurrentCellOptions& options, std::int64_t gates);
  virtual RecurrentResult step(const Variable& x, const RecurrentWeights& weights,
                               const RecurrentState& state) const = 0;

 private:
  RecurrentState run(const Variable& x, const RecurrentState& state);

  const char* kind_;
};

/// One position of an Rnn.
class RnnCell : public RecurrentCellModule {
 public:
  explicit RnnCell(const RnnCellOptions& options);
  std::string kind() const override { return "RnnCell"; }

 private:
  RecurrentResult step(const Variable& x, const RecurrentWeights& weights, const RecurrentState& state) const override;
  bool relu_;
};

/// One position of an Lstm.
class LstmCell : public RecurrentCellModule {
 public:
  explicit LstmCell(const RecurrentCellOptions& options);
  std::string kind() const override { return "LstmCell"; }

 private:
  RecurrentResult step(const Variable& x, const RecurrentWeights& weights, const RecurrentState& state) const override;
};

/// One position of a Gru.
class GruCell : public RecurrentCellModule {
 public:
  explicit GruCell(const RecurrentCellOptions& options);
  std::string kind() const override { return "GruCell"; }

 private:
  RecurrentResult step(const Variable& x, const RecurrentWeights& weights, const RecurrentState& state) const override;
};

}  // namespace binade::nn
