#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "binade/core/dtype.h"
#include "binade/core/sha256.h"
#include "binade/core/shape.h"
#include "binade/io/checkpoint/file.h"

/// Constants that the writer and the reader of a checkpoint share; file.h describes the format.
namespace binade::io::layout {

/// The first bytes of every checkpoint, and a note for people who open the file in an editor.
inline constexpr std::string_view kMagic = "BINADECK";
inline constexpr std::string_view kNote =
    "\nThis is a Binade checkpoint: HDF5 behind a user block of 512 bytes. Read it with h5dump, h5py or "
    "binade-doctor.\n";
/// Offsets in the user block, in bytes.
inline constexpr std::size_t kVersionAt = 8, kBlockSizeAt = 12, kLengthAt = 16, kDigestAt = 24, kNoteAt = 56;
inline constexpr std::uint32_t kUserBlockVersion = 1;

/// Name of the format, which is stored in the group /format.
inline constexpr std::string_view kFormatName = "binade-checkpoint";
/// The attribute of every dataset: the dtype's name for a tensor, otherwise one of the kinds below.
inline constexpr const char* kDTypeAttribute = "dtype";
inline constexpr std::string_view kIntegersKind = "integers", kNumbersKind = "numbers", kTextKind = "text";

/// Largest list or text, in bytes, that is stored as an attribute; a longer one becomes a dataset. An object header
/// message holds at most 65,535 bytes.
inline constexpr std::size_t kAttributeBytes = 16384;

/// Returns the SHA-256 of an image, without the 32 bytes that contain the digest itself.
Sha256::Digest guarded_digest(std::span<const std::byte> image);

/// Returns a tensor's line in /manifest/tensors: "1a2b3c4d f32[2,3] model/head.weight\n".
std::string manifest_line(const std::string& name, DType dtype, const Shape& shape, std::span<const std::byte> bytes);

}  // namespace binade::io::layout
