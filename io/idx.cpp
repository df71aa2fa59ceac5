#include "io/idx.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/sha256.h"
#include "io/read_file.h"

namespace binade::io {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 34;

/// The content of a gzip file; `bytes` itself when it is none.
std::string gunzip(std::string bytes, const std::string& name) {
  if (!bytes.starts_with("\x1f\x8b")) return bytes;
  check<DataError>(bytes.size() <= std::numeric_limits<uInt>::max(), "{}: wanted a gzip file of at most 4 GiB", name);
  z_stream stream{};
  check<OutOfMemoryError>(inflateInit2(&stream, 15 + 16) == Z_OK, "{}: zlib has no memory", name);
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  std::vector<char> chunk(1 << 16);
  int result = Z_OK;
  while (result == Z_OK && out.size() <= kMaxBytes) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(chunk.data(), chunk.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  check<DataError>(result == Z_STREAM_END, "{}: the gzip stream is damaged or truncated", name);
  return out;
}

struct ElementType {
  int code;
  std::size_t bytes;
  DType dtype;  // as which it is read
};
constexpr ElementType kTypes[] = {{0x08, 1, DType::u8},  {0x09, 1, DType::i32}, {0x0B, 2, DType::i32},
                                  {0x0C, 4, DType::i32}, {0x0D, 4, DType::f32}, {0x0E, 8, DType::f64}};

/// An unsigned number, most significant byte first.
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

}  // namespace

Tensor read_idx(const std::string& path) {
  const std::string bytes = gunzip(read_file(path, kMaxBytes), path);
  check<DataError>(bytes.size() >= 4 && bytes[0] == 0 && bytes[1] == 0, "{}: wanted an IDX file, got something else",
                   path);
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const auto& t) { return t.code == bytes[2]; });
  check<DataError>(type != std::end(kTypes), "{}: wanted an IDX element type of 0x08 to 0x0e, got 0x{:02x}", path,
                   static_cast<unsigned char>(bytes[2]));
  const auto rank = static_cast<std::size_t>(static_cast<unsigned char>(bytes[3]));
  check<DataError>(rank >= 1 && rank <= Shape::kMaxRank && bytes.size() >= 4 + 4 * rank,
                   "{}: wanted an IDX header of 1 to {} extents, got {} in {} bytes", path, Shape::kMaxRank, rank,
                   bytes.size());
  const std::size_t body = bytes.size() - 4 - 4 * rank;
  std::vector<std::int64_t> dims;
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint64_t extent = big_endian(bytes.data() + 4 + 4 * i, 4);
    check<DataError>(extent == 0 || elements <= kMaxBytes / extent, "{}: the IDX header's extents are beyond any file",
                     path);
    elements *= extent;
    dims.push_back(static_cast<std::int64_t>(extent));
  }
  check<DataError>(elements * type->bytes == body,
                   "{}: the IDX header promises {} elements, the file has {} bytes for them", path, elements, body);
  Tensor tensor = Tensor::empty(Shape(dims), type->dtype);
  decode(bytes.data() + 4 + 4 * rank, *type, tensor);
  return tensor;
}

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
