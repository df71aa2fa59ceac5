#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "binade/core/dtype.h"
#include "binade/core/sha256.h"
#include "binade/core/shape.h"
#include "binade/io/checkpoint/file.h"

/// Constants that the writer and the reader of a checkpoint share; file.h describes the format.
namespace binade::io::layout {

inline constexpr std::string_view kMagic = "BINADECK";
inline constexpr std::string_view kNote =
    "\nThis is a Binade checkpoint: HDF5 behind a user block of 512 bytes. Read it with h5dump, h5py or "
    "binade-doctor.\n";
inline constexpr std::size_t kVersionAt = 8, kBlockSizeAt = 12, kLengthAt = 16, kDigestAt = 24, kNoteAt = 56;
inline constexpr std::uint32_t kUserBlockVersion = 1;

inline constexpr std::string_view kFormatName = "binade-checkpoint";
/// The attribute of every dataset: a dtype's name for a tensor, else one of these.
inline constexpr const char* kDTypeAttribute = "dtype";
inline constexpr std::string_view kIntegersKind = "integers", kNumbersKind = "numbers", kTextKind = "text";

/// What a list or text may take as an attribute, in bytes; longer ones become datasets. An object header message holds
/// 65,535 bytes at most.
inline constexpr std::size_t kAttributeBytes = 16384;

/// SHA-256 of an image but for the 32 bytes that hold it.
Sha256::Digest guarded_digest(std::span<const std::byte> image);

/// "1a2b3c4d f32[2,3] model/head.weight\n"
std::string manifest_line(const std::string& name, DType dtype, const Shape& shape, std::span<const std::byte> bytes);

}  // namespace binade::io::layout
