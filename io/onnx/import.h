#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/nn/module.h"

/// ONNX files (docs/onnx.md). This header belongs to the library binade_onnx (io/onnx/export.h).
namespace binade::onnx {

/// An input or an output of an imported graph, as the file declares it.
struct ModelValue {
  std::string name{};
  std::optional<DType> dtype{};  ///< none: the file does not say
  /// The extents; -1 is any. None if the file does not give the rank.
  std::optional<std::vector<std::int64_t>> dims{};
};

/// Options of import_model().
struct ImportOptions {
  /// Decides whether a floating initializer becomes a parameter, which is trained; otherwise it is a buffer. By
  /// default, all are parameters except the statistics of batch norms, initializers of rank 0, and the scales of
  /// resizing and quantization. Constants in nodes `Constant` are neither.
  std::function<bool(const std::string& name, const Tensor& value)> trained{};
};

/// The graph of an ONNX file as a module. Parameters and buffers have the names of their initializers, in which "_"
/// replaces every character but letters, digits, "_", and "." between names. forward() calls Binade's functions, node
/// by node, so that gradients, precision policies, hooks and checkpoints work as for any module; the path of an op is
/// the name of its node. Inputs and outputs have ONNX's layout: images are (N, C, H, W). train() and eval() change
/// nothing: dropout and batch norms run in the mode that the graph states, usually inference.
///
/// Threads may call one model at the same time. Movable.
class Model final : public nn::Module {
 public:
  /// The graph, in io/onnx/reading/model_state.h.
  struct State;
  /// Used by import_model().
  explicit Model(std::unique_ptr<State> state);
  ~Model() override;
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  /// Return the inputs and outputs in the order of run().
  const std::vector<ModelValue>& inputs() const;
  const std::vector<ModelValue>& outputs() const;
  std::int64_t opset() const;           ///< version of ONNX's operators that the file states
  const std::string& producer() const;  ///< name and version of the program that wrote the file
  std::size_t nodes() const;            ///< number of nodes that a forward pass runs

  void visit(nn::Visitor& visitor) override;
  std::string kind() const override { return "onnx::Model"; }
  /// Returns the output of a model with one input and one output. Throws ArgumentError for others; call run().
  Variable forward(const Variable& x) override;
  /// Returns the outputs for all inputs, in the order of inputs() and outputs(). Throws ArgumentError for another
  /// number of inputs, ShapeError and DTypeError for inputs that are not as declared, and the error of a function with
  /// the name of the node; ArgumentError if an attribute asks for a feature that Binade's functions lack.
  std::vector<Variable> run(std::span<const Variable> inputs);
  /// The same for inputs in a braced list.
  std::vector<Variable> run(std::initializer_list<Variable> inputs) {
    return run(std::span(inputs.begin(), inputs.size()));
  }

 private:
  std::unique_ptr<State> state_;
};

/// Reads an ONNX file with operators of opset 7 or later. Nodes that depend only on constants are evaluated at import.
/// External data are read from the file's folder and below it, without following symbolic links.
///
/// Throws DataError that names the file and the defect: the file is no ONNX model or incomplete; an operator has no
/// function (all of them are listed, with node and opset); a node reads a value that no earlier node computes, as in a
/// cycle; an initializer whose bytes do not fit its shape, or with a dtype that Binade lacks. Memory is bounded by the
/// sizes of the file and its external data, apart from tensors that nodes make of constants.
Model import_model(const std::string& path, const ImportOptions& options = {});

/// Returns the names of the operators that an imported graph can have.
std::vector<std::string> importable_operators();

}  // namespace binade::onnx
