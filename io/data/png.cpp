#include "binade/io/data/png.h"

#include <png.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "binade/core/error.h"
#include "binade/io/files/file_ops.h"
#include "binade/io/files/output_file.h"
#include "binade/io/files/read_file.h"

// libpng reports errors by longjmp. The functions below that call setjmp have only trivially destructible locals, so
// that no destructor is skipped; owning objects are in their callers.
namespace binade::io {
namespace {

constexpr std::size_t kMessageBytes = 200;
// Largest width and height. It is libpng's limit for writing, and also applied to reading, so that a mask of every
// image can be written.
constexpr std::int64_t kMostSide = 1'000'000;

struct Source {
  const char* bytes;
  std::size_t size;
  std::size_t at;
};

extern "C" void remember_error(png_structp png, png_const_charp text) {
  auto* message = static_cast<char*>(png_get_error_ptr(png));
  std::snprintf(message, kMessageBytes, "%s", text);
  longjmp(png_jmpbuf(png), 1);
}

extern "C" void ignore_warning(png_structp, png_const_charp) {}

extern "C" void read_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->size - source->at) png_error(png, "the file is truncated");
  std::memcpy(to, source->bytes + source->at, count);
  source->at += count;
}

extern "C" void append_bytes(png_structp png, png_bytep from, std::size_t count) {
  auto* out = static_cast<std::string*>(png_get_io_ptr(png));
  bool full = false;
  try {
    out->append(reinterpret_cast<const char*>(from), count);
  } catch (...) {
    full = true;
  }
  if (full) png_error(png, "no memory left");
}

extern "C" void flush_nothing(png_structp) {}

void destroy_reader(png_structpp png, png_infopp info) { png_destroy_read_struct(png, info, nullptr); }

/// libpng's state for one image, made and destroyed by the functions for reading or for writing.
template <auto create, auto destroy>
struct Codec {
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[kMessageBytes] = "";

  Codec() {
    png = create(PNG_LIBPNG_VER_STRING, message, remember_error, ignore_warning);
    if (png != nullptr) info = png_create_info_struct(png);
    if (info == nullptr) {
      destroy(&png, nullptr);
      throw OutOfMemoryError("png: libpng has no memory for its state");
    }
  }
  ~Codec() { destroy(&png, &info); }
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
};
using Reader = Codec<png_create_read_struct, destroy_reader>;
using Writer = Codec<png_create_write_struct, png_destroy_write_struct>;

struct Header {
  png_uint_32 width, height;
  int depth, color, interlace;
};

/// Reads the header of a PNG. Returns false if libpng fails; the reason is in reader.message.
bool read_header(Reader& reader, Source* source, Header* header) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_user_limits(reader.png, 0x7fffffff, 0x7fffffff);
  png_set_chunk_malloc_max(reader.png, 8 << 20);
  png_set_chunk_cache_max(reader.png, 64);
  png_set_read_fn(reader.png, source, read_bytes);
  png_read_info(reader.png, reader.info);
  return png_get_IHDR(reader.png, reader.info, &header->width, &header->height, &header->depth, &header->color,
                      &header->interlace, nullptr, nullptr) != 0;
}

/// Requests values of one byte each (two in host byte order for 16 bits), and colors instead of palette indices unless
/// indices are wanted. Returns false if libpng fails.
bool prepare_rows(Reader& reader, const Header& header, bool palette_as_index, std::size_t* row_bytes) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  if (header.color == PNG_COLOR_TYPE_PALETTE && !palette_as_index) {
    png_set_palette_to_rgb(reader.png);
    png_set_strip_alpha(reader.png);  // a transparent palette would give a fourth channel
  }
  png_set_packing(reader.png);
  if (header.depth == 16) png_set_swap(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  *row_bytes = png_get_rowbytes(reader.png, reader.info);
  return true;
}

bool read_rows(Reader& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

int channels_of(int color, bool palette_as_index) {
  switch (color) {
    case PNG_COLOR_TYPE_GRAY: return 1;
    case PNG_COLOR_TYPE_GRAY_ALPHA: return 2;
    case PNG_COLOR_TYPE_RGB: return 3;
    case PNG_COLOR_TYPE_RGB_ALPHA: return 4;
    default: return palette_as_index ? 1 : 3;
  }
}

bool write_all(Writer& writer, std::string* out, const Header& header, png_bytepp rows) {
  if (setjmp(png_jmpbuf(writer.png)) != 0) return false;
  png_set_write_fn(writer.png, out, append_bytes, flush_nothing);
  png_set_IHDR(writer.png, writer.info, header.width, header.height, header.depth, header.color, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  if (header.depth < 8) png_set_packing(writer.png);
  if (header.depth == 16) png_set_swap(writer.png);
  png_write_image(writer.png, rows);
  png_write_end(writer.png, nullptr);
  return true;
}

/// Throws DataError if a chunk is longer than the file: libpng allocates memory for some chunks before it reads them.
void check_chunks(const std::string& bytes, const std::string& name) {
  // Bytes of the file's signature; bytes of a chunk besides its data (length and type before, checksum after).
  constexpr std::size_t kSignatureBytes = 8, kChunkOverhead = 12;
  for (std::size_t at = kSignatureBytes; at + kChunkOverhead <= bytes.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
    check<DataError>(length <= bytes.size() - at - kChunkOverhead, "{}: the PNG is damaged: the file is truncated",
                     name);
    if (bytes.compare(at + 4, 4, "IEND") == 0) return;  // the image ends here
    at += kChunkOverhead + length;
  }
}

std::vector<png_bytep> row_pointers(std::vector<std::uint8_t>& bytes, std::size_t row_bytes, std::size_t height) {
  std::vector<png_bytep> rows(height);
  for (std::size_t y = 0; y < height; ++y) rows[y] = bytes.data() + y * row_bytes;
  return rows;
}

}  // namespace

Image decode_png(const std::string& bytes, const std::string& name, const PngReadOptions& options) {
  check<DataError>(bytes.size() >= 8 && png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, 8) == 0,
                   "{}: wanted a PNG image, got {}", name, bytes.empty() ? "an empty file" : "something else");
  check_chunks(bytes, name);
  Reader reader;
  Source source{bytes.data(), bytes.size(), 0};
  Header header{};
  check<DataError>(read_header(reader, &source, &header), "{}: the PNG is damaged: {}", name, reader.message);

  const int channels = channels_of(header.color, options.palette_as_index);
  const std::int64_t pixels = static_cast<std::int64_t>(header.width) * header.height;
  check<DataError>(header.width <= kMostSide && header.height <= kMostSide && pixels <= options.max_pixels,
                   "{}: wanted at most {} pixels and {} a side, got {} x {}; cut the image", name, options.max_pixels,
                   kMostSide, header.width, header.height);
  // Deflate expands at most 1032 times; a header that declares more pixels is wrong.
  const double file_bits = header.depth * (header.color == PNG_COLOR_TYPE_PALETTE ? 1 : channels);
  check<DataError>(static_cast<double>(pixels) * file_bits / 8 <= 1040.0 * static_cast<double>(bytes.size()),
                   "{}: the PNG is damaged: {} bytes cannot hold {} x {} pixels", name, bytes.size(), header.width,
                   header.height);

  std::size_t row_bytes = 0;
  check<DataError>(prepare_rows(reader, header, options.palette_as_index, &row_bytes), "{}: the PNG is damaged: {}",
                   name, reader.message);
  const std::size_t width_bytes = header.depth == 16 ? 2 : 1;
  const std::size_t wanted = static_cast<std::size_t>(header.width) * static_cast<std::size_t>(channels) * width_bytes;
  check<DataError>(row_bytes == wanted, "{}: the PNG is of an unsupported kind ({} bytes a row, wanted {})", name,
                   row_bytes, wanted);
  std::vector<std::uint8_t> raw(row_bytes * header.height);
  std::vector<png_bytep> rows = row_pointers(raw, row_bytes, header.height);
  check<DataError>(read_rows(reader, rows.data()), "{}: the PNG is damaged: {}", name, reader.message);

  Image image{header.width, header.height, channels, header.depth, {}};
  if (header.color == PNG_COLOR_TYPE_PALETTE && !options.palette_as_index) image.depth = 8;
  image.values.resize(raw.size() / width_bytes);
  if (width_bytes == 2)
    std::memcpy(image.values.data(), raw.data(), raw.size());
  else
    std::copy(raw.begin(), raw.end(), image.values.begin());
  return image;
}

std::string read_png_bytes(const std::string& path) {
  return read_file(path, std::uint64_t{1} << 31, "\x89PNG\r\n\x1a\n");
}

Image read_png(const std::string& path, const PngReadOptions& options) {
  return decode_png(read_png_bytes(path), path, options);
}

std::string encode_png(const Image& image) {
  const bool depth_fits = image.depth == 8 || image.depth == 16 ||
                          ((image.depth == 1 || image.depth == 2 || image.depth == 4) && image.channels == 1);
  check<ArgumentError>(depth_fits && image.channels >= 1 && image.channels <= 4,
                       "png: wanted 8 or 16 bits (1, 2, 4 for grey) and 1 to 4 channels, got {} bits and {} channels",
                       image.depth, image.channels);
  check<ArgumentError>(
      image.width >= 1 && image.height >= 1 && image.width <= kMostSide && image.height <= kMostSide &&
          static_cast<std::int64_t>(image.values.size()) == image.width * image.height * image.channels,
      "png: wanted width x height x channels values and at most {} pixels a side, got {} values for {} x {} x {}",
      kMostSide, image.values.size(), image.width, image.height, image.channels);
  const auto largest = *std::max_element(image.values.begin(), image.values.end());
  check<ArgumentError>(largest <= image.max_value(), "png: wanted values up to {}, got {}", image.max_value(), largest);

  const std::size_t width_bytes = image.depth == 16 ? 2 : 1;
  const std::size_t row_bytes = static_cast<std::size_t>(image.width * image.channels) * width_bytes;
  std::vector<std::uint8_t> raw(row_bytes * static_cast<std::size_t>(image.height));
  if (width_bytes == 2)
    std::memcpy(raw.data(), image.values.data(), raw.size());
  else
    std::transform(image.values.begin(), image.values.end(), raw.begin(),
                   [](auto v) { return static_cast<std::uint8_t>(v); });
  std::vector<png_bytep> rows = row_pointers(raw, row_bytes, static_cast<std::size_t>(image.height));

  constexpr int kColor[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  const Header header{static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), image.depth,
                      kColor[image.channels - 1], PNG_INTERLACE_NONE};
  Writer writer;
  std::string out;
  if (!write_all(writer, &out, header, rows.data()))
    throw Error(fmt::format("png: cannot be encoded: {}", writer.message));
  return out;
}

void write_png(const std::string& path, const Image& image) { write_output_file(path, bytes_of(encode_png(image))); }

}  // namespace binade::io
