#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "binade/core/tensor.h"
#include "binade/io/onnx/nodes/node.h"

namespace onnx {  // classes of protobuf
class AttributeProto;
class TensorProto;
}  // namespace onnx

namespace binade::onnx {

/// Returns the dtype with ONNX's number `data_type` (TensorProto.DataType); std::nullopt if Binade lacks it.
std::optional<DType> dtype_of(std::int64_t data_type);
/// Returns ONNX's name of the dtype with number `data_type`, such as "int8".
std::string name_of_data_type(std::int64_t data_type);

/// Reads the tensors and attributes of a model file. Throws DataError that names the file, the tensor and the defect.
/// Tensors may share external data, but those of one file have at most 4 times its bytes plus 64 MiB.
class TensorReader {
 public:
  /// External data are read from the folder of the file `path`.
  explicit TensorReader(std::string path) : path_(std::move(path)) {}

  /// `what`: the kind of the tensor, for messages.
  Tensor read(const ::onnx::TensorProto& from, const std::string& what);
  Attribute attribute(const ::onnx::AttributeProto& from, const std::string& node);

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  std::string external(const ::onnx::TensorProto& from, const std::string& label, std::uint64_t bytes);

  std::string path_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t>
      outside_;  // bytes read of each file, by its identity
};

}  // namespace binade::onnx
