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

/// A checkpoint is an HDF5 file that h5dump and h5py read, behind a user block of 512 bytes that guards every bit:
///
///     0  "BINADECK"            16  length of the whole file, u64 little-endian
///     8  u32 version 1         24  SHA-256 of every byte but these 32
///    12  u32 512               56  one line of text for people, then zeros
///
/// Entry "model/head.weight" of the state is the dataset head.weight of the group /model: contiguous, row-major, with
/// an attribute `dtype`. Scalars and texts are attributes of their group; lists are attributes, long ones and long
/// texts datasets. /format holds version and feature bits, /manifest one line per tensor (CRC-32C, dtype, shape, name)
/// and the state hash. No time, path, host or library version is stored: the same state gives the same bytes.
///
/// The file is built in memory by the HDF5 library and read by Binade's own code (io/checkpoint/hdf5_profile.h):
/// libhdf5 never sees bytes from outside.
inline constexpr std::size_t kUserBlockBytes = 512;
inline constexpr std::int64_t kCheckpointMajor = 1;
inline constexpr std::int64_t kCheckpointMinor = 0;

/// The system would not hand the file over (permission, I/O error); its bytes may well be whole.
class UnreadableCheckpointError : public NoCheckpointError {
 public:
  using NoCheckpointError::NoCheckpointError;
};

/// What a checkpoint says about itself.
struct CheckpointInfo {
  std::int64_t major = kCheckpointMajor;
  std::int64_t minor = kCheckpointMinor;
  std::string writer{};                ///< "binade 0.1.0"
  std::string state_hash{};            ///< 64 hex digits, or empty when the writer gave none
  std::optional<std::int64_t> step{};  ///< /progress/step; nothing if the file holds weights alone
  std::string manifest{};              ///< one line per tensor: "1a2b3c4d f32[2,3] model/head.weight"
  std::uint64_t bytes = 0;
  /// Groups of a newer minor version that this one does not know. They are optional (what is not would be a required
  /// feature) and not in the state; whoever loads says so.
  std::set<std::string> left_out{};
};

/// Bytes of a file, in one piece.
class CheckpointImage {
 public:
  CheckpointImage() = default;
  CheckpointImage(std::byte* bytes, std::size_t size) : bytes_(bytes), size_(size) {}  ///< takes malloc'ed memory
  std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }
  std::span<std::byte> mutable_bytes() { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
};

/// The whole file for a state. Entries are called "group/name" or deeper; "format" and "manifest" are Binade's own.
/// Copies tensors from their device when need be. Throws ArgumentError on names that a checkpoint cannot hold, and on
/// more of them than a reader accepts.
CheckpointImage encode_checkpoint(const StateDict& state, const std::string& state_hash);

struct DecodedCheckpoint {
  StateDict state{};
  CheckpointInfo info{};
};

/// Checks magic, length and SHA-256 of an image, then walks its structure and checks every CRC; changes nothing and
/// copies nothing but the tensors. Throws NoCheckpointError saying what is broken when the file is not whole,
/// CheckpointError when it is whole and of a format this version cannot read.
///
/// Messages begin with `name`.
DecodedCheckpoint decode_checkpoint(std::span<const std::byte> image, const std::string& name = "checkpoint");

/// The checks of decode_checkpoint() without making tensors; cheap in memory.
CheckpointInfo verify_checkpoint(std::span<const std::byte> image, const std::string& name = "checkpoint");

/// Reads a file of an open folder; messages call it `shown`. The first bytes must identify it as a checkpoint of its
/// length before the rest is read. Otherwise as below.
CheckpointImage read_checkpoint_image(FileOps& ops, int folder, const std::string& name, std::uint64_t limit,
                                      const std::string& shown);
/// A file from anywhere: regular, no link followed, at most `limit` bytes. Throws NoCheckpointError naming it, or its
/// UnreadableCheckpointError.
CheckpointImage read_checkpoint_file(const std::string& path, std::uint64_t limit = std::uint64_t{1} << 40);
DecodedCheckpoint load_checkpoint(const std::string& path);

/// SHA-256 of a whole image, as the MANIFEST lists it; 64 hex digits.
std::string image_sha256(std::span<const std::byte> image);

/// Version of the linked HDF5 library: "1.10.8 (built against 1.10.8, thread-safe)".
std::string hdf5_version();

}  // namespace binade::io
