#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "binade/nn/module.h"

/// ONNX files (docs/onnx.md). This header belongs to the library binade_onnx, which is separate from libbinade: link it
/// with `pkg-config --libs binade-onnx`, or in CMake the target binade::onnx.
namespace binade::onnx {

/// Options of export_model().
struct ExportOptions {
  /// Names of the inputs and outputs of the graph. Default: input, or input_0, input_1, … if several; outputs likewise.
  std::vector<std::string> input_names{}, output_names{};
  /// True: axis 0 of the inputs, and the extents that depend on it, may have any value ("batch"). False: all extents
  /// are those of the example.
  bool dynamic_batch = false;
  /// With dynamic_batch: the positions of inputs whose axis 0 is not the batch.
  std::vector<int> unbatched{};
  /// True: weights are in a second file, PATH.data. A model of more than 1.5 GiB always has one.
  bool external_data = false;
};

/// The version of ONNX's operators that an exported file uses.
inline constexpr int kExportOpset = 17;

/// A forward pass from the inputs of a graph to its outputs.
using Forward = std::function<std::vector<Variable>(std::span<const Variable> inputs)>;

/// Writes the ONNX file `path`: the ops that `forward` runs on the example inputs, in evaluation mode and without
/// dropout, with the parameters and buffers of `model` as named initializers. The model keeps its modes.
///
/// Inputs and outputs have the shapes and dtypes that they have in Binade: images are (N, H, W, C). Inside of the graph
/// they are (N, C, H, W) from the first convolution on. Weights are stored in the dtype in which the ops read them.
/// Under a PolicyScope with 16 bits, nodes `Cast` round values where Binade rounds them, and every operator computes in
/// f32, as Binade's do.
///
/// The forward pass runs twice, the second time on inputs whose elements are in reverse order and 0.9 times as large,
/// and with `dynamic_batch` on one sample more. The two graphs must be equal. `forward` must have no side effects. The
/// results of all ops are kept in memory. Do not call it in a step of a Trainer.
///
/// Throws ArgumentError that lists, with their module paths, the ops without a counterpart in ONNX, or that names the
/// op whose operands depend on the values of the inputs in a way that no op records; ArgumentError without inputs or
/// for options that do not fit; StorageError.
void export_model(const std::string& path, nn::Module& model, const Forward& forward, std::span<const Variable> inputs,
                  const ExportOptions& options = {});
/// The same for inputs in a braced list.
inline void export_model(const std::string& path, nn::Module& model, const Forward& forward,
                         std::initializer_list<Variable> inputs, const ExportOptions& options = {}) {
  export_model(path, model, forward, std::span(inputs.begin(), inputs.size()), options);
}
/// The same for a model with one input and one output: `model(x)`.
void export_model(const std::string& path, nn::Module& model, const Variable& x, const ExportOptions& options = {});

/// Returns the names of all ops (OpInfo::name) that an exported graph can have.
std::vector<std::string> exported_ops();

}  // namespace binade::onnx
