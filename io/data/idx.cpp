#include "binade/io/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/sha256.h"
#include "binade/io/files/extents.h"
#include "binade/io/files/read_file.h"

namespace binade::io {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 34;

struct ElementType {
  int code;
  std::size_t bytes;
  DType dtype;  // dtype of the tensor into which elements of this type are read
};
constexpr ElementType kTypes[] = {{0x08, 1, DType::u8},  {0x09, 1, DType::i32}, {0x0B, 2, DType::i32},
                                  {0x0C, 4, DType::i32}, {0x0D, 4, DType::f32}, {0x0E, 8, DType::f64}};

/// Returns the big-endian unsigned number in the `bytes` bytes at `from`.
std::uint64_t big_endian(const char* from, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = (value << 8) | static_cast<unsigned char>(from[i]);
  return value;
}

void decode(const char* from, const ElementType& type, Tensor& to) {
  for (std::int64_t i = 0; i < to.numel(); ++i, from += type.bytes) {
    const std::uint64_t bits = big_endian(from, type.bytes);
    switch (type.code) {
      case 0x08: to.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(bits); break;
      case 0x09: to.mutable_data<std::int32_t>()[i] = static_cast<std::int8_t>(bits); break;
      case 0x0B: to.mutable_data<std::int32_t>()[i] = static_cast<std::int16_t>(bits); break;
      case 0x0C: to.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(bits); break;
      case 0x0D: to.mutable_data<float>()[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits)); break;
      default: to.mutable_data<double>()[i] = std::bit_cast<double>(bits);
    }
  }
}

struct Header {
  ElementType type;
  Shape shape;

  std::size_t bytes() const { return 4 + 4 * static_cast<std::size_t>(shape.rank()); }
  std::size_t file_bytes() const { return bytes() + static_cast<std::size_t>(shape.numel()) * type.bytes; }
};

Header read_header(std::string_view file, const std::string& name) {
  check<DataError>(file.size() >= 4 && file[0] == 0 && file[1] == 0, "{}: wanted an IDX file, got something else",
                   name);
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const auto& t) { return t.code == file[2]; });
  check<DataError>(type != std::end(kTypes), "{}: wanted an IDX element type of 0x08 to 0x0e, got 0x{:02x}", name,
                   static_cast<unsigned char>(file[2]));
  const auto rank = static_cast<std::size_t>(static_cast<unsigned char>(file[3]));
  check<DataError>(rank >= 1 && rank <= Shape::kMaxRank && file.size() >= 4 + 4 * rank,
                   "{}: wanted an IDX header of 1 to {} extents, got {} in {} bytes", name, Shape::kMaxRank, rank,
                   file.size());
  std::vector<std::uint64_t> extents;
  for (std::size_t i = 0; i < rank; ++i) extents.push_back(big_endian(file.data() + 4 + 4 * i, 4));
  const std::optional<Shape> shape = shape_from_extents(extents);
  check<DataError>(shape.has_value(), "{}: the IDX header's extents are beyond any file", name);
  return {*type, *shape};
}

bool is_gzip(std::string_view file) { return file.starts_with("\x1f\x8b"); }

/// Unpacks a gzip file. Allocates the size that the IDX header gives, which may be at most 1032 times the size of the
/// file, the largest ratio of deflate.
std::string gunzip(std::string& file, const std::string& name) {
  check<DataError>(file.size() <= std::numeric_limits<uInt>::max(), "{}: wanted a gzip file of at most 4 GiB", name);
  z_stream stream{};
  check<OutOfMemoryError>(inflateInit2(&stream, 15 + 16) == Z_OK, "{}: zlib has no memory", name);
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end_inflate(&stream, [](z_stream* s) { return inflateEnd(s); });
  stream.next_in = reinterpret_cast<Bytef*>(file.data());
  stream.avail_in = static_cast<uInt>(file.size());
  std::string out;
  std::size_t declared = 0;
  std::vector<char> chunk(1 << 14);
  int result = Z_OK;
  while (result == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(chunk.data(), chunk.size() - stream.avail_out);
    if (declared == 0 && result == Z_OK) {
      declared = read_header(out, name).file_bytes();
      check<DataError>(declared / 1040 <= file.size(),
                       "{}: its IDX header declares {} bytes, more than {} can unpack to", name, declared, file.size());
      out.reserve(declared);
    }
    check<DataError>(result != Z_OK || out.size() <= declared, "{}: it unpacks to more than its IDX header declares",
                     name);
  }
  check<DataError>(result == Z_STREAM_END, "{}: the gzip stream is damaged or truncated", name);
  return out;
}

}  // namespace

Tensor decode_idx(std::string file, const std::string& name) {
  if (is_gzip(file)) file = gunzip(file, name);
  const Header header = read_header(file, name);
  check<DataError>(header.file_bytes() == file.size(),
                   "{}: the IDX header declares {} elements, the file has {} bytes for them", name,
                   header.shape.numel(), file.size() - header.bytes());
  Tensor tensor = Tensor::empty(header.shape, header.type.dtype);
  decode(file.data() + header.bytes(), header.type, tensor);
  return tensor;
}

Tensor read_idx(const std::string& path) { return decode_idx(read_file(path, kMaxBytes), path); }

LabeledImages read_labeled_images(const std::string& folder, const std::string& prefix) {
  const auto read = [&](const std::string& name) {
    const std::string path = (std::filesystem::path(folder) / (prefix + name)).string();
    std::error_code error;
    return read_idx(std::filesystem::exists(path, error) ? path : path + ".gz");
  };
  LabeledImages set{read("-images-idx3-ubyte"), read("-labels-idx1-ubyte"), {}};
  check<DataError>(set.images.rank() == 3 && set.images.dtype() == DType::u8 && set.images.numel() > 0,
                   "{}: wanted images (N, H, W) of bytes, got {} {}", folder, name_of(set.images.dtype()),
                   set.images.shape().to_string());
  check<DataError>(set.labels.rank() == 1 && set.labels.dtype() == DType::u8 && set.labels.dim(0) == set.images.dim(0),
                   "{}: wanted one label for each of {} images, got {} {}", folder, set.images.dim(0),
                   name_of(set.labels.dtype()), set.labels.shape().to_string());
  Sha256 hash;
  for (const Tensor& part : {set.images, set.labels}) {
    const std::string shape = part.shape().to_string();
    hash.update(shape.data(), shape.size());
    hash.update(part.raw(), part.bytes());
  }
  set.content = to_hex(hash.digest());
  return set;
}

LabeledBatch LabeledBatch::rows(std::int64_t begin, std::int64_t count) const {
  return {images.narrow(begin, count), labels.narrow(begin, count), origin.rows(begin, count)};
}

Loader<LabeledBatch> labeled_batches(const LabeledImages& set, LoaderOptions options) {
  options.samples = set.size();
  options.content = set.content;
  return {options, [set](const BatchOrigin& origin) {
            const auto count = static_cast<std::int64_t>(origin.samples.size());
            const std::int64_t pixels = set.images.dim(1) * set.images.dim(2);
            LabeledBatch batch{Tensor::empty({count, set.images.dim(1), set.images.dim(2), 1}),
                               Tensor::empty({count}, DType::i32),
                               {}};
            for (std::int64_t row = 0; row < count; ++row) {
              const std::int64_t sample = origin.samples[static_cast<std::size_t>(row)];
              const std::uint8_t* from = set.images.data<std::uint8_t>() + sample * pixels;
              std::transform(from, from + pixels, batch.images.mutable_data<float>() + row * pixels,
                             [](std::uint8_t v) { return v / 255.0f; });
              batch.labels.mutable_data<std::int32_t>()[row] = set.labels.data<std::uint8_t>()[sample];
            }
            return batch;
          }};
}

}  // namespace binade::io
