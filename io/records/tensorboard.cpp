#include "binade/io/records/tensorboard.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "binade/core/crc32c.h"
#include "binade/core/error.h"

namespace binade::io {
namespace {

// Protocol buffers: a field is a key (number and wire type), then a varint, 4 or 8 bytes, or a length and bytes.

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

template <class T>
void put_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

std::string varint_field(int number, std::uint64_t value) {
  std::string out;
  put_varint(out, static_cast<std::uint64_t>(number) << 3);
  put_varint(out, value);
  return out;
}

std::string bytes_field(int number, std::string_view bytes) {
  std::string out;
  put_varint(out, (static_cast<std::uint64_t>(number) << 3) | 2);
  put_varint(out, bytes.size());
  out += bytes;
  return out;
}

/// A float or double as its bits.
template <class Bits>
std::string fixed_field(int number, Bits bits) {
  std::string out;
  put_varint(out, (static_cast<std::uint64_t>(number) << 3) | (sizeof(Bits) == 4 ? 5 : 1));
  put_little_endian(out, bits);
  return out;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Returns the SummaryMetadata (field 9 of Summary.Value) that names the TensorBoard plugin that displays the value.
std::string metadata(std::string_view plugin) { return bytes_field(9, bytes_field(1, bytes_field(1, plugin))); }

/// Encodes an Event. Fields: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
std::string summary_event(std::int64_t step, std::string_view tag, const std::string& value) {
  return varint_field(2, static_cast<std::uint64_t>(step)) +
         bytes_field(5, bytes_field(1, bytes_field(1, tag) + value));
}

/// Returns TFRecord's masked CRC, rotated and offset because a CRC of data that contains CRCs is weak.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes.data(), bytes.size());
  return std::rotr(crc, 15) + 0xA282EAD8u;
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const FilesBelow& folder, std::int64_t first_step) {
  const auto seconds = static_cast<std::int64_t>(now());
  for (int number = 0; !file_.open(); ++number) {
    const std::string name = fmt::format("events.out.tfevents.{}.binade.{}", seconds, number);
    path_ = folder.path_of(name);
    if (std::optional<FileHandle> file = folder.create(name)) file_ = std::move(*file);
  }
  event(bytes_field(3, "brain.Event:2"));
  if (first_step > 0)
    event(varint_field(2, static_cast<std::uint64_t>(first_step)) +
          bytes_field(7, varint_field(1, 1)));  // a SessionLog with status START
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    flush();
  } catch (const StorageError&) {  // a full disk must not make a finished run fail
  }
}

void TensorBoardWriter::event(const std::string& content) {
  const double time = now();
  const std::string data = fixed_field(1, std::bit_cast<std::uint64_t>(time)) + content;
  std::string length;
  put_little_endian(length, static_cast<std::uint64_t>(data.size()));
  pending_ += length;
  put_little_endian(pending_, masked_crc(length));
  pending_ += data;
  put_little_endian(pending_, masked_crc(data));
  if (time - last_flush_ > 5 || time < last_flush_) flush();
}

void TensorBoardWriter::flush() {
  last_flush_ = now();
  const std::string records = std::exchange(pending_, {});
  if (const int error = write_all(FileOps::real(), file_.get(), bytes_of(records))) {
    // Half a record would make the rest of the file unreadable.
    const bool restored = ::ftruncate(file_.get(), written_) == 0;
    throw StorageError(fmt::format("{}: cannot be written: {}{}", path_, std::strerror(error),
                                   restored ? "" : " (its last record is incomplete)"));
  }
  written_ += static_cast<std::int64_t>(records.size());
}

void TensorBoardWriter::scalar(std::string_view tag, std::int64_t step, float value) {
  event(summary_event(step, tag, fixed_field(2, std::bit_cast<std::uint32_t>(value))));
}

void TensorBoardWriter::image(std::string_view tag, std::int64_t step, const Image& picture) {
  // Summary.Image: height = 1, width = 2, colorspace = 3 (the number of channels), encoded_image_string = 4.
  const std::string content = varint_field(1, static_cast<std::uint64_t>(picture.height)) +
                              varint_field(2, static_cast<std::uint64_t>(picture.width)) +
                              varint_field(3, static_cast<std::uint64_t>(picture.channels)) +
                              bytes_field(4, encode_png(picture));
  event(summary_event(step, tag, bytes_field(4, content)));
}

void TensorBoardWriter::text(std::string_view tag, std::int64_t step, std::string_view markdown) {
  // A text is a TensorProto of one string: dtype = 1 (DT_STRING = 7), tensor_shape = 2, string_val = 8.
  const std::string shape = bytes_field(2, bytes_field(2, varint_field(1, 1)));
  const std::string tensor = varint_field(1, 7) + shape + bytes_field(8, markdown);
  event(summary_event(step, tag, metadata("text") + bytes_field(8, tensor)));
}

}  // namespace binade::io
