#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binade/io/data/png.h"
#include "binade/io/files/files_below.h"

namespace binade::io {

/// Writes a TensorBoard event file, events.out.tfevents.<seconds>.binade.<number>, into a run folder: TFRecord framing
/// with masked CRC-32C, protocol buffers put together by hand (tensorflow's event.proto and summary.proto). A resumed
/// run opens a further file; its first event tells TensorBoard to drop what earlier files have from `first_step` on.
class TensorBoardWriter {
 public:
  /// Throws StorageError when the folder cannot be written to.
  explicit TensorBoardWriter(const FilesBelow& folder, std::int64_t first_step = 0);
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  /// NaN and infinities are shown by TensorBoard as what they are.
  void scalar(std::string_view tag, std::int64_t step, float value);
  /// Shown in the browser, so 8 bits or 16.
  void image(std::string_view tag, std::int64_t step, const Image& picture);
  void text(std::string_view tag, std::int64_t step, std::string_view markdown);
  /// Brings what was written to the system. Lines are collected until then; done every few seconds and at the end too.
  /// Throws StorageError when a write fails, as all of these may; the collected records are then lost, and the file
  /// keeps its previous end.
  void flush();

  const std::string& path() const { return path_; }

 private:
  void event(const std::string& content);

  std::string path_;
  std::string pending_;
  FileHandle file_;
  std::int64_t written_ = 0;
  double last_flush_ = 0;
};

}  // namespace binade::io
