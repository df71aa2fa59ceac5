#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "binade/core/state_dict.h"

namespace binade::io {

class FileOps;

/// A checkpoint is an HDF5 file that h5dump and h5py read, after a user block of 512 bytes with a checksum of the whole
/// file:
///
///     0  "BINADECK"            16  length of the whole file, u64 little-endian
///     8  u32 version 1         24  SHA-256 of every byte except these 32
///    12  u32 512               56  one line of text for human readers, then zeros
///
/// Entry "model/head.weight" of the state is the dataset head.weight of the group /model: contiguous, row-major, with
/// an attribute `dtype`. Scalars, texts and lists are attributes of their group; long texts and long lists are
/// datasets. /format contains version and feature bits; /manifest contains one line per tensor (CRC-32C, dtype, shape,
/// name) and the state hash. No time, path, host or library version is stored, so the same state gives the same bytes.
///
/// The HDF5 library builds the file in memory, and Binade's own code reads it (io/checkpoint/hdf5_profile.h), so that
/// libhdf5 never parses bytes from outside.
inline constexpr std::size_t kUserBlockBytes = 512;
inline constexpr std::int64_t kCheckpointMajor = 1;
inline constexpr std::int64_t kCheckpointMinor = 0;

/// Thrown if the system cannot read the file (permission, I/O error); the file itself may be intact.
class UnreadableCheckpointError : public NoCheckpointError {
 public:
  using NoCheckpointError::NoCheckpointError;
};

/// The description of a checkpoint that its file contains.
struct CheckpointInfo {
  std::int64_t major = kCheckpointMajor;
  std::int64_t minor = kCheckpointMinor;
  std::string writer{};                ///< "binade 0.1.0"
  std::string state_hash{};            ///< 64 hex digits; empty if the writer gave none
  std::optional<std::int64_t> step{};  ///< /progress/step; std::nullopt if the file holds weights alone
  std::string manifest{};              ///< one line per tensor: "1a2b3c4d f32[2,3] model/head.weight"
  std::uint64_t bytes = 0;             ///< size of the file
  /// Groups of a newer minor version that the load omitted, with a warning. A run can resume without them: a group that
  /// is necessary sets a bit of required_features, which this version refuses.
  std::set<std::string> left_out{};
};

/// The bytes of a checkpoint file in memory.
class CheckpointImage {
 public:
  CheckpointImage() = default;
  CheckpointImage(std::byte* bytes, std::size_t size)
      : bytes_(bytes), size_(size) {}  ///< takes ownership of malloc'ed memory
  std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }
  std::span<std::byte> mutable_bytes() { return {bytes_.get(), size_}; }

 private:
  /// Releases memory that malloc() allocated.
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
};

/// Returns the bytes of a checkpoint file for a state. Entries are named "group/name" or deeper; the groups "format"
/// and "manifest" are reserved. Tensors on a device are copied to the host. Throws ArgumentError for a name that a
/// checkpoint cannot hold, and for more entries than the reader accepts.
CheckpointImage encode_checkpoint(const StateDict& state, const std::string& state_hash);

/// The content of a checkpoint file.
struct DecodedCheckpoint {
  StateDict state{};
  CheckpointInfo info{};
};

/// Checks magic, length and SHA-256 of an image, then walks its structure and checks every CRC; copies only the
/// tensors. Throws NoCheckpointError that names the defect if the file is damaged, CheckpointError if it is intact but
/// has a format that this version cannot read. Messages begin with `name`.
DecodedCheckpoint decode_checkpoint(std::span<const std::byte> image, const std::string& name = "checkpoint");

/// Makes the checks of decode_checkpoint() without allocating tensors.
CheckpointInfo verify_checkpoint(std::span<const std::byte> image, const std::string& name = "checkpoint");

/// Reads the file `name` of an open folder, with the checks and errors of read_checkpoint_file(); error texts call the
/// file `shown`. Bytes after the user block are read only if it has the magic and the file's length.
CheckpointImage read_checkpoint_image(FileOps& ops, int folder, const std::string& name, std::uint64_t limit,
                                      const std::string& shown);
/// Reads a regular file of at most `limit` bytes; a symbolic link is not followed. Throws NoCheckpointError that names
/// the file, or UnreadableCheckpointError.
CheckpointImage read_checkpoint_file(const std::string& path, std::uint64_t limit = std::uint64_t{1} << 40);
/// Reads and decodes a checkpoint file; throws the errors of read_checkpoint_file() and decode_checkpoint().
DecodedCheckpoint load_checkpoint(const std::string& path);

/// Describes the first NaN or infinity of a state by entry and index; returns std::nullopt if all numbers are finite.
std::optional<std::string> first_non_finite(const StateDict& state);

/// Returns the SHA-256 of a whole image as MANIFEST lists it: 64 hex digits.
std::string image_sha256(std::span<const std::byte> image);

/// Returns the version of the linked HDF5 library: "1.10.8 (built against 1.10.8, thread-safe)".
std::string hdf5_version();

}  // namespace binade::io
