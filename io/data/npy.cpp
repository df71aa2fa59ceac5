#include "binade/io/data/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "binade/core/error.h"
#include "binade/io/files/extents.h"
#include "binade/io/files/output_file.h"
#include "binade/io/files/read_file.h"

namespace binade::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeaderBytes = 64 << 10;

struct Header {
  std::optional<std::string> type;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::uint64_t>> shape;
};

/// Parses the dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, keys in any order.
class HeaderText {
 public:
  HeaderText(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  Header read() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !header.type)
        header.type = type();
      else if (key == "fortran_order" && !header.fortran_order)
        header.fortran_order = boolean();
      else if (key == "shape" && !header.shape)
        header.shape = shape();
      else
        refuse("an unknown or repeated key");
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_blanks();
    if (!rest_.empty()) refuse("something after the dictionary");
    if (!header.type || !header.fortran_order || !header.shape) refuse("no descr, fortran_order or shape");
    return header;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(fmt::format("{}: the .npy header is not one that NumPy writes: {}", name_, what));
  }
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n\r"), rest_.size())); }
  bool accept(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse(fmt::format("no '{}' where one is required", c));
  }
  bool accept_word(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::string quoted() {
    skip_blanks();
    const char quote = rest_.empty() ? '\0' : rest_[0];
    const std::size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos || end > 32) refuse("no short quoted text where one is required");
    const std::string text(rest_.substr(1, end - 1));
    if (std::ranges::any_of(text, [](char c) { return c < ' ' || c > '~'; })) refuse("a text that is not ASCII");
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::string type() {
    skip_blanks();
    check<DataError>(!rest_.starts_with('['),
                     "{}: wanted an array of numbers, got one of records; save one field of it", name_);
    return quoted();
  }
  bool boolean() {
    if (accept_word("True")) return true;
    if (!accept_word("False")) refuse("fortran_order is neither True nor False");
    return false;
  }
  std::vector<std::uint64_t> shape() {
    std::vector<std::uint64_t> dims;
    expect('(');
    while (!accept(')')) {
      std::uint64_t extent = 0;
      skip_blanks();
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc()) refuse("an extent that is not a number from 0 to 2^64 - 1");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      dims.push_back(extent);
      check<DataError>(dims.size() <= Shape::kMaxRank, "{}: wanted at most {} dimensions, got more", name_,
                       int{Shape::kMaxRank});
      if (accept(',')) continue;
      if (dims.size() == 1) refuse("a shape that is not a tuple");
      expect(')');
      break;
    }
    return dims;
  }

  std::string_view rest_;
  const std::string& name_;
};

struct ElementType {
  std::string_view name;
  DType dtype;  // dtype of the tensor into which elements of this type are read
  std::size_t bytes;
};
constexpr ElementType kTypes[] = {{"f2", DType::f16, 2},    {"f4", DType::f32, 4}, {"f8", DType::f64, 8},
                                  {"i4", DType::i32, 4},    {"i8", DType::i64, 8}, {"u1", DType::u8, 1},
                                  {"i1", DType::i32, 1},    {"i2", DType::i32, 2}, {"u2", DType::i32, 2},
                                  {"b1", DType::boolean, 1}};

ElementType type_for(const std::string& descr, const std::string& name) {
  const char order = descr.empty() ? '\0' : descr[0];
  const std::string_view type = std::string_view(descr).substr(std::min<std::size_t>(1, descr.size()));
  check<DataError>(!type.starts_with('O'),
                   "{}: it holds Python objects, which only a pickle can store; a pickle is a program, and none is run "
                   "here: save an array of numbers",
                   name);
  check<DataError>(order != '>', "{}: wanted little-endian values, got big-endian ones ({}); save a.astype('<{}')",
                   name, descr, type);
  const auto* known = std::ranges::find(kTypes, type, &ElementType::name);
  const bool fits = known != std::end(kTypes) && (order == '<' || (order == '|' && known->bytes == 1));
  check<DataError>(fits,
                   "{}: wanted f2 f4 f8 i1 i2 i4 i8 u1 u2 or b1, got '{}'; save a.astype('<f4'), or '<i8' for whole "
                   "numbers",
                   name, descr);
  return *known;
}

template <class From>
void widen(std::span<const std::byte> from, Tensor& to) {
  auto* out = to.mutable_data<std::int32_t>();
  for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From value{};
    std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
    out[i] = value;
  }
}

void fill(Tensor& to, const ElementType& type, std::span<const std::byte> data, const std::string& name) {
  if (type.name == "i1") return widen<std::int8_t>(data, to);
  if (type.name == "i2") return widen<std::int16_t>(data, to);
  if (type.name == "u2") return widen<std::uint16_t>(data, to);
  if (type.dtype == DType::boolean)
    check<DataError>(std::ranges::all_of(data, [](std::byte b) { return b <= std::byte{1}; }),
                     "{}: it holds a bool that is neither 0 nor 1", name);
  if (!data.empty()) std::memcpy(to.mutable_raw(), data.data(), data.size());
}

/// Returns a tensor whose elements are stored with the first axis varying fastest, as a row-major one.
Tensor row_major(const Tensor& fortran) {
  const Shape& shape = fortran.shape();
  Tensor result = Tensor::empty(shape, fortran.dtype());
  const std::size_t size = size_of(fortran.dtype());
  std::array<std::int64_t, Shape::kMaxRank> stride{}, position{};
  std::int64_t at = 0, step = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    stride[static_cast<std::size_t>(i)] = step;
    step *= shape.dim(i);
  }
  const auto* from = static_cast<const std::byte*>(fortran.raw());
  auto* to = static_cast<std::byte*>(result.mutable_raw());
  for (std::int64_t n = fortran.numel(); n > 0; --n, to += size) {
    std::memcpy(to, from + static_cast<std::size_t>(at) * size, size);
    for (auto i = static_cast<std::size_t>(shape.rank()); i-- > 0;) {
      at += stride[i];
      if (++position[i] < shape.dim(static_cast<int>(i))) break;
      at -= stride[i] * position[i];
      position[i] = 0;
    }
  }
  return result;
}

/// Returns the text of a .npy file's header, the dictionary. Throws DataError.
std::string_view header_text(std::span<const std::byte> file, const std::string& name) {
  const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size());
  check<DataError>(is_npy(all) && all.size() >= kMagic.size() + 2, "{}: wanted a .npy file, got {}", name,
                   all.empty() ? "an empty file" : "something else");
  const auto major = static_cast<unsigned char>(all[6]), minor = static_cast<unsigned char>(all[7]);
  check<DataError>(major >= 1 && major <= 3 && minor == 0, "{}: wanted .npy version 1.0, 2.0 or 3.0, got {}.{}", name,
                   major, minor);
  const std::size_t width = major == 1 ? 2 : 4, begin = kMagic.size() + 2 + width;
  std::uint32_t length = 0;
  check<DataError>(all.size() >= begin, "{}: the .npy file is truncated in its header", name);
  std::memcpy(&length, file.data() + kMagic.size() + 2, width);
  check<DataError>(length <= kMostHeaderBytes && length <= all.size() - begin,
                   "{}: its .npy header of {} bytes is beyond the file or {} bytes", name, length, kMostHeaderBytes);
  return all.substr(begin, length);
}

}  // namespace

NpyArray decode_npy(std::span<const std::byte> file, const std::string& name) {
  const std::string_view text = header_text(file, name);
  const Header header = HeaderText(text, name).read();
  const ElementType type = type_for(*header.type, name);
  const auto end = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(text.data() + text.size()) -
                                            file.data());
  const std::span<const std::byte> data = file.subspan(end);
  const std::optional<Shape> found = shape_from_extents(*header.shape);
  check<DataError>(found.has_value(), "{}: its extents multiply to more than any file holds", name);
  const Shape& shape = *found;
  const auto count = static_cast<std::uint64_t>(shape.numel());
  check<DataError>(count * type.bytes == data.size(),
                   "{}: shape {} of {} needs {} values of {} bytes, the file has {} bytes for them", name, shape,
                   *header.type, count, type.bytes, data.size());
  NpyArray array{Tensor::empty(shape, type.dtype), std::string(type.name)};
  fill(array.values, type, data, name);
  if (*header.fortran_order && shape.rank() > 1) array.values = row_major(array.values);
  return array;
}

std::vector<std::byte> encode_npy(const Tensor& tensor) {
  const Tensor values = (tensor.dtype() == DType::bf16 ? tensor.to(DType::f32) : tensor).on_host();
  const auto* type = std::ranges::find(kTypes, values.dtype(), &ElementType::dtype);
  std::string shape;
  for (const std::int64_t extent : values.shape().dims()) shape += fmt::format("{}, ", extent);
  if (values.rank() > 1) shape.resize(shape.size() - 2);
  if (values.rank() == 1) shape.pop_back();
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   type->bytes == 1 ? '|' : '<', type->name, shape);
  constexpr std::size_t kAlignment = 64, kBeforeHeader = 10;
  const std::size_t begin = (kBeforeHeader + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(begin - kBeforeHeader - 1, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  std::vector<std::byte> file(begin + values.bytes());
  std::memcpy(file.data(), kMagic.data(), kMagic.size());
  file[kMagic.size()] = std::byte{1};
  std::memcpy(file.data() + kMagic.size() + 2, &length, sizeof length);
  std::memcpy(file.data() + kBeforeHeader, header.data(), header.size());
  if (values.bytes() > 0) std::memcpy(file.data() + begin, values.raw(), values.bytes());
  return file;
}

void write_npy(const std::string& path, const Tensor& tensor) { write_output_file(path, encode_npy(tensor)); }

bool is_npy(std::string_view bytes) { return bytes.starts_with(kMagic); }

NpyArray read_npy(const std::string& path) {
  const std::string bytes = read_file(path, std::uint64_t{1} << 40, kMagic);
  return decode_npy(std::as_bytes(std::span(bytes)), path);
}

}  // namespace binade::io
