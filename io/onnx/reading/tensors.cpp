#include "binade/io/onnx/reading/tensors.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <vector>

#include "binade/core/error.h"
#include "binade/io/files/extents.h"
#include "binade/io/files/file_ops.h"

namespace binade::onnx {
namespace {

using ::onnx::AttributeProto;
using ::onnx::TensorProto;

// Tensors may share external data, but a small file must not become much larger in memory.
constexpr std::uint64_t kMostShared = 4, kSmallShared = 64 << 20;

std::string shortened(const std::string& text) { return text.size() > 120 ? text.substr(0, 120) + "…" : text; }

/// Converts a protobuf list to a tensor with elements of type T.
template <class T, class List>
Tensor listed(const List& list, const Shape& shape, DType dtype) {
  Tensor y = Tensor::empty(shape, dtype);
  T* to = static_cast<T*>(y.mutable_raw());
  for (int i = 0; i < list.size(); ++i) to[i] = static_cast<T>(list[i]);
  return y;
}

/// Replaces every nonzero byte of a bool tensor by 1.
void make_truth(Tensor& y) {
  auto* bytes = static_cast<std::uint8_t*>(y.mutable_raw());
  for (std::int64_t i = 0; i < y.numel(); ++i) bytes[i] = bytes[i] != 0 ? 1 : 0;
}

/// True for the attributes that name a dtype.
bool names_dtype(const std::string& key) {
  return key == "to" || key == "dtype" || key == "output_dtype" || key == "output_datatype";
}

}  // namespace

std::optional<DType> dtype_of(std::int64_t data_type) {
  switch (data_type) {
    case TensorProto::FLOAT: return DType::f32;
    case TensorProto::UINT8: return DType::u8;
    case TensorProto::INT32: return DType::i32;
    case TensorProto::INT64: return DType::i64;
    case TensorProto::BOOL: return DType::boolean;
    case TensorProto::FLOAT16: return DType::f16;
    case TensorProto::DOUBLE: return DType::f64;
    case TensorProto::BFLOAT16: return DType::bf16;
    default: return std::nullopt;
  }
}

std::string name_of_data_type(std::int64_t data_type) {
  if (data_type < 0 || data_type > 1000 || !TensorProto::DataType_IsValid(static_cast<int>(data_type)))
    return fmt::format("number {}", data_type);
  std::string name = TensorProto::DataType_Name(static_cast<TensorProto::DataType>(data_type));
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name;
}

void TensorReader::refuse(const std::string& what) const { throw DataError(fmt::format("{}: {}", path_, what)); }

Tensor TensorReader::read(const TensorProto& from, const std::string& what) {
  const std::string label = fmt::format("{} \"{}\"", what, shortened(from.name()));
  const std::optional<DType> dtype = dtype_of(from.data_type());
  if (!dtype)
    refuse(fmt::format("{} has the dtype {}; Binade has f32, f16, bf16, f64, i64, i32, u8 and bool", label,
                       name_of_data_type(from.data_type())));
  std::vector<std::uint64_t> dims;
  for (const std::int64_t d : from.dims()) {
    if (d < 0) refuse(fmt::format("{} has the extent {}", label, d));
    dims.push_back(static_cast<std::uint64_t>(d));
  }
  const std::optional<Shape> shape = io::shape_from_extents(dims);
  if (!shape) refuse(fmt::format("{} has more than 8 extents or more than 2^48 elements", label));
  if (from.has_segment()) refuse(label + " is a segment of a tensor, which is not supported");
  const std::uint64_t count = static_cast<std::uint64_t>(shape->numel()), bytes = count * size_of(*dtype);

  const bool outside = from.data_location() == TensorProto::EXTERNAL;
  if (outside || from.has_raw_data()) {
    const std::string data = outside ? external(from, label, bytes) : std::string();
    const std::string& raw = outside ? data : from.raw_data();
    if (raw.size() != bytes)
      refuse(fmt::format("{} of shape {} and dtype {} has {} bytes instead of {}", label, *shape, name_of(*dtype),
                         raw.size(), bytes));
    Tensor y = Tensor::empty(*shape, *dtype);
    if (bytes > 0) std::memcpy(y.mutable_raw(), raw.data(), bytes);
    if (*dtype == DType::boolean) make_truth(y);
    return y;
  }
  const auto counted = [&](int size) {
    if (static_cast<std::uint64_t>(size) != count)
      refuse(fmt::format("{} of shape {} and dtype {} has {} elements instead of {}", label, *shape, name_of(*dtype),
                         size, count));
  };
  switch (*dtype) {
    case DType::f32: counted(from.float_data_size()); return listed<float>(from.float_data(), *shape, *dtype);
    case DType::f64: counted(from.double_data_size()); return listed<double>(from.double_data(), *shape, *dtype);
    case DType::i64: counted(from.int64_data_size()); return listed<std::int64_t>(from.int64_data(), *shape, *dtype);
    default: counted(from.int32_data_size());
  }
  if (*dtype == DType::i32) return listed<std::int32_t>(from.int32_data(), *shape, *dtype);
  // The list holds 16-bit numbers as their bits.
  if (is_half(*dtype)) return listed<std::uint16_t>(from.int32_data(), *shape, *dtype);
  Tensor y = listed<std::uint8_t>(from.int32_data(), *shape, *dtype);
  if (*dtype == DType::boolean) make_truth(y);
  return y;
}

std::string TensorReader::external(const TensorProto& from, const std::string& label, std::uint64_t bytes) {
  std::string location;
  std::uint64_t offset = 0, length = bytes;
  for (const auto& entry : from.external_data()) {
    if (entry.key() == "location") {
      location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      std::uint64_t& number = entry.key() == "offset" ? offset : length;
      const std::string& text = entry.value();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size())
        refuse(fmt::format("{}: {} of its external data is \"{}\"", label, entry.key(), shortened(text)));
    }
  }
  if (length != bytes) refuse(fmt::format("{} has {} bytes of external data instead of {}", label, length, bytes));
  // Opens the path component by component from the file's folder, so that no file outside of it is read.
  io::FileOps& ops = io::FileOps::real();
  io::FileHandle folder = io::open_folder(ops, io::split_path(path_).first);
  std::string name = location;
  const auto bad = [&](const char* why) {
    refuse(fmt::format("{}: its external data are in \"{}\", {}", label, shortened(location), why));
  };
  if (location.empty() || location.front() == '/' || location.find('\0') != std::string::npos)
    bad("which is no path below the file's folder");
  for (std::size_t slash = name.find('/');; slash = name.find('/')) {
    const std::string part = name.substr(0, slash);
    if (part.empty() || part == "..") bad("which is no path below the file's folder");
    if (slash == std::string::npos) break;
    io::Opened next = io::try_open(ops, &io::FileOps::open_folder_in, folder.get(), part);
    if (next.error != 0) bad(io::error_text(next.error).c_str());
    folder = std::move(next.handle);
    name = name.substr(slash + 1);
  }
  io::Opened file = io::try_open(ops, &io::FileOps::open_read, folder.get(), name);
  if (file.error != 0) bad(io::error_text(file.error).c_str());
  io::FileStatus status;
  if (const int error = ops.status(file.handle.get(), status); error != 0) bad(io::error_text(error).c_str());
  if (!status.regular) bad("which is no regular file");
  if (offset > status.bytes || length > status.bytes - offset) bad("which is too short");
  std::uint64_t& total = outside_[{status.device, status.inode}];
  total += length;
  if (total > kMostShared * status.bytes + kSmallShared) bad("which is too short for all tensors that share it");
  std::string data(length, '\0');
  const int error = io::read_exactly(ops, file.handle.get(), offset, std::as_writable_bytes(std::span(data)));
  if (error != 0) bad(io::error_text(error).c_str());
  return data;
}

Attribute TensorReader::attribute(const AttributeProto& from, const std::string& node) {
  const std::string label = fmt::format("{}: attribute {}", node, shortened(from.name()));
  switch (from.type()) {
    case AttributeProto::FLOAT: return static_cast<double>(from.f());
    case AttributeProto::INT:
      if (names_dtype(from.name())) {
        const std::optional<DType> dtype = dtype_of(from.i());
        return dtype ? std::string(name_of(*dtype)) : name_of_data_type(from.i());
      }
      return from.i();
    case AttributeProto::STRING: return from.s();
    case AttributeProto::TENSOR: return Variable(read(from.t(), "tensor of " + label));
    case AttributeProto::FLOATS: return std::vector<double>(from.floats().begin(), from.floats().end());
    case AttributeProto::INTS: return std::vector<std::int64_t>(from.ints().begin(), from.ints().end());
    case AttributeProto::STRINGS: return std::vector<std::string>(from.strings().begin(), from.strings().end());
    default: refuse(label + " is of a kind that is not supported");
  }
}

}  // namespace binade::onnx
