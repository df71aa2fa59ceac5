#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binade/io/data/png.h"
#include "binade/io/files/files_below.h"

namespace binade::io {

/// Writes a TensorBoard event file, events.out.tfevents.<seconds>.binade.<number>, into a run folder: TFRecord framing
/// with masked CRC-32C around hand-encoded protocol buffers (tensorflow's event.proto and summary.proto). A resumed run
/// opens another file, whose first event makes TensorBoard discard the earlier files' events from `first_step` on.
class TensorBoardWriter {
 public:
  /// Throws StorageError if the folder cannot be written to.
  explicit TensorBoardWriter(const FilesBelow& folder, std::int64_t first_step = 0);
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  /// Adds a scalar. TensorBoard displays NaN and infinities.
  void scalar(std::string_view tag, std::int64_t step, float value);
  /// Adds an image of 8 or 16 bits, which browsers can display.
  void image(std::string_view tag, std::int64_t step, const Image& picture);
  void text(std::string_view tag, std::int64_t step, std::string_view markdown);
  /// Writes the collected events to the file; also happens every few seconds and in the destructor. Throws StorageError
  /// if a write fails, as all functions here may; the collected events are then lost, and the file keeps its previous
  /// end.
  void flush();

  const std::string& path() const { return path_; }

 private:
  void event(const std::string& content);

  std::string path_;
  std::string pending_;  // records that were collected but not written
  FileHandle file_;
  std::int64_t written_ = 0;  // size of the file in bytes
  double last_flush_ = 0;
};

}  // namespace binade::io
