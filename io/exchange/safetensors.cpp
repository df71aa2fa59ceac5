#include "binade/io/exchange/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "binade/core/error.h"
#include "binade/io/files/extents.h"
#include "binade/io/files/file_ops.h"
#include "binade/io/files/output_file.h"
#include "binade/io/text/json_reader.h"

namespace binade::io {

namespace {

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
constexpr std::size_t kAlignment = 64;
constexpr const char* kMetadataName = "__metadata__";

struct NamedType {
  const char* name;
  DType dtype;
};
constexpr NamedType kTypes[] = {{"F64", DType::f64},   {"F32", DType::f32},     {"F16", DType::f16},
                                {"BF16", DType::bf16}, {"I64", DType::i64},     {"I32", DType::i32},
                                {"U8", DType::u8},     {"BOOL", DType::boolean}};

[[noreturn]] void refuse(const std::string& what) { throw DataError("safetensors: " + what); }

/// A tensor as the header describes it.
struct Entry {
  std::string name;
  std::optional<DType> dtype;
  bool has_shape = false;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
};

/// Truncates a name from the file for use in error texts.
std::string shortened(const std::string& text) { return text.substr(0, 80); }
std::string label_of(const Entry& e) { return "tensor \"" + shortened(e.name) + "\""; }

/// Parses the header's events and accepts only {"name": {"dtype": …, "shape": […], "data_offsets": […]}}. No tree of
/// JSON values is built, so that a deep or large hostile header uses no memory.
class HeaderReader final : public JsonEvents {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  void null() override { refuse_value("null"); }
  void boolean(bool) override { refuse_value("a boolean"); }
  void negative(std::int64_t) override { refuse_value("a negative number"); }
  void fraction(double) override { refuse_value("a fraction"); }
  void natural(std::uint64_t value) override {
    if (place_ != Place::kList) refuse_value("a number");
    if (list_->size() >= limit_) refuse_value("a longer list");
    list_->push_back(value);
  }
  void text(const std::string& value) override {
    if (place_ == Place::kMetadata) {
      if (!metadata.emplace(key_, value).second) refuse("metadata names \"" + shortened(key_) + "\" twice");
      return;
    }
    if (place_ != Place::kTensor || key_ != "dtype" || entries.back().dtype) refuse_value("a text");
    for (const NamedType& t : kTypes)
      if (value == t.name) entries.back().dtype = t.dtype;
    if (!entries.back().dtype)
      refuse(where() + ": dtype " + shortened(value) + " is not one of F64 F32 F16 BF16 I64 I32 U8 BOOL");
  }
  void begin_object() override {
    switch (place_) {
      case Place::kStart: place_ = Place::kTop; return;
      case Place::kTop:
        if (key_ == kMetadataName) {
          if (metadata_seen_) refuse("two metadata objects");
          metadata_seen_ = true;
          place_ = Place::kMetadata;
        } else {
          entries.push_back({});
          entries.back().name = key_;
          place_ = Place::kTensor;
        }
        return;
      default: refuse_value("an object");
    }
  }
  void end_object() override {
    if (place_ == Place::kTensor) {
      const Entry& e = entries.back();
      if (!e.dtype || !e.has_shape || e.offsets.size() != 2)
        refuse(where() + ": wanted dtype, shape and two data_offsets");
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
  }
  void begin_array() override {
    if (place_ != Place::kTensor) refuse_value("a list");
    Entry& e = entries.back();
    if (key_ == "shape" && !e.has_shape) {
      e.has_shape = true;
      list_ = &e.shape;
      limit_ = Shape::kMaxRank;
    } else if (key_ == "data_offsets" && e.offsets.empty()) {
      list_ = &e.offsets;
      limit_ = 2;
    } else {
      refuse_value("a list");
    }
    place_ = Place::kList;
  }
  void end_array() override { place_ = Place::kTensor; }
  void key(const std::string& value) override { key_ = value; }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kList, kEnd };

  std::string where() const { return entries.empty() ? "header" : label_of(entries.back()); }
  [[noreturn]] void refuse_value(const std::string& got) {
    refuse(where() + ": " + got + " is not allowed here (\"" + shortened(key_) + "\")");
  }

  Place place_ = Place::kStart;
  std::string key_;
  std::vector<std::uint64_t>* list_ = nullptr;
  std::size_t limit_ = 0;
  bool metadata_seen_ = false;
};

Shape shape_of(const Entry& e, std::uint64_t data_bytes) {
  const std::optional<Shape> shape = shape_from_extents(e.shape);
  if (!shape) refuse(label_of(e) + ": its extents multiply to more than any file holds");
  const std::uint64_t begin = e.offsets[0], end = e.offsets[1];
  if (begin > end || end > data_bytes)
    refuse(fmt::format("{}: bytes {} to {} of {}", label_of(e), begin, end, data_bytes));
  const std::uint64_t wanted = static_cast<std::uint64_t>(shape->numel()) * size_of(*e.dtype);
  if (end - begin != wanted)
    refuse(fmt::format("{}: its shape and dtype need {} bytes, it has {}", label_of(e), wanted, end - begin));
  return *shape;
}

/// Sorts the entries by the position of their data; refuses overlap, holes and trailing data.
void check_coverage(std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  std::uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.offsets[0] != at)
      refuse(fmt::format("{} begins at byte {}, wanted {}: tensors may neither overlap nor leave holes", label_of(e),
                         e.offsets[0], at));
    at = e.offsets[1];
  }
  if (at != data_bytes) refuse(fmt::format("{} bytes after the last tensor", data_bytes - at));
}

/// Returns the header length from the first bytes of a file of `size` bytes.
std::uint64_t header_length(std::span<const std::byte> begin, std::uint64_t size) {
  std::uint64_t length = 0;
  if (begin.size() < sizeof(length)) refuse(fmt::format("{} bytes are too few for a file", size));
  std::memcpy(&length, begin.data(), sizeof(length));
  if ((length & 0xffffffff) == 0x04034b50)  // "PK\3\4"
    refuse("got a zip archive, which torch.save() writes; read it with load_pytorch() or io::read_pytorch()");
  if (length > kMostHeaderBytes || length > size - sizeof(length))
    refuse(fmt::format("a header of {} bytes in a file of {}", length, size));
  if (length == 0 || begin[sizeof(length)] != std::byte{'{'}) refuse("the header does not begin with {");
  return length;
}

/// Refuses a file by its first bytes, before the rest is read. Ignores system errors, which the read of the whole file
/// reports.
void check_begin(FileOps& ops, int folder, const std::string& name) {
  const auto [error, file] = try_open(ops, &FileOps::open_read, folder, name);
  FileStatus status;
  if (error != 0 || ops.status(file.get(), status) != 0 || !status.regular) return;
  std::array<std::byte, sizeof(std::uint64_t) + 1> begin{};
  const auto first = std::span(begin).first(std::min<std::size_t>(begin.size(), status.bytes));
  if (read_exactly(ops, file.get(), 0, first) == 0) header_length(first, status.bytes);
}

const char* type_name(DType dtype) {
  for (const NamedType& t : kTypes)
    if (t.dtype == dtype) return t.name;
  return "?";
}

}  // namespace

Safetensors decode_safetensors(std::span<const std::byte> file) {
  const std::uint64_t header_bytes = header_length(file, file.size());
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof(header_bytes), header_bytes);
  HeaderReader header;
  read_json_events(text, "safetensors: the header", header, {.bytes = kMostHeaderBytes});
  const std::span<const std::byte> data = file.subspan(sizeof(header_bytes) + header_bytes);

  Safetensors content;
  content.metadata = std::move(header.metadata);
  std::vector<std::string> names;
  for (const Entry& e : header.entries) names.push_back(e.name);
  std::sort(names.begin(), names.end());
  if (const auto repeated = std::adjacent_find(names.begin(), names.end()); repeated != names.end())
    refuse("tensor \"" + shortened(*repeated) + "\" occurs twice");
  for (const Entry& e : header.entries) shape_of(e, data.size());
  check_coverage(header.entries, data.size());
  for (const Entry& e : header.entries) {
    Tensor t = Tensor::empty(shape_of(e, data.size()), *e.dtype);
    const std::span<const std::byte> bytes = data.subspan(e.offsets[0], e.offsets[1] - e.offsets[0]);
    if (*e.dtype == DType::boolean &&
        std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; }))
      refuse(label_of(e) + " holds a bool that is neither 0 nor 1");
    if (!bytes.empty()) std::memcpy(t.mutable_raw(), bytes.data(), bytes.size());
    content.tensors.emplace(e.name, std::move(t));
  }
  return content;
}

std::vector<std::byte> encode_safetensors(const Safetensors& content) {
  std::vector<std::pair<std::string, Tensor>> sorted;
  for (const auto& [name, tensor] : content.tensors) {
    check<ArgumentError>(name != kMetadataName, "safetensors: no tensor may be called {}", kMetadataName);
    sorted.emplace_back(name, tensor.on_host());
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return size_of(a.second.dtype()) > size_of(b.second.dtype()); });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!content.metadata.empty()) header[kMetadataName] = content.metadata;
  std::uint64_t data_bytes = 0;
  for (const auto& [name, tensor] : sorted) {
    const std::vector<std::int64_t> shape(tensor.shape().dims().begin(), tensor.shape().dims().end());
    header[name] = {{"dtype", type_name(tensor.dtype())},
                    {"shape", shape},
                    {"data_offsets", {data_bytes, data_bytes + tensor.bytes()}}};
    data_bytes += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + sizeof(std::uint64_t) + kAlignment - 1) / kAlignment * kAlignment - sizeof(std::uint64_t),
              ' ');
  const std::uint64_t header_bytes = text.size();
  std::vector<std::byte> file(sizeof(header_bytes) + header_bytes + data_bytes);
  std::memcpy(file.data(), &header_bytes, sizeof(header_bytes));
  std::memcpy(file.data() + sizeof(header_bytes), text.data(), text.size());
  std::byte* at = file.data() + sizeof(header_bytes) + header_bytes;
  for (const auto& [name, tensor] : sorted) {
    if (tensor.bytes() > 0) std::memcpy(at, tensor.raw(), tensor.bytes());
    at += tensor.bytes();
  }
  return file;
}

Safetensors read_safetensors(const std::string& path, std::uint64_t limit) {
  const auto [folder_path, name] = split_path(path);
  FileOps& ops = FileOps::real();
  const auto [open_error, folder] = try_open(ops, &FileOps::open_folder, folder_path);
  check<DataError>(open_error == 0, "{}: {}", path, error_text(open_error));
  std::vector<std::byte> bytes;
  try {
    check_begin(ops, folder.get(), name);
    const int error = read_file(ops, folder.get(), name, limit, bytes);
    check<DataError>(error == 0, "{}", error_text(error));
    return decode_safetensors(bytes);
  } catch (const DataError& e) {
    throw DataError(fmt::format("{}: {}", path, e.what()));
  }
}

void write_safetensors(const std::string& path, const Safetensors& content) {
  write_output_file(path, encode_safetensors(content));
}

}  // namespace binade::io
