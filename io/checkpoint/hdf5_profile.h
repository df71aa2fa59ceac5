#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/shape.h"

namespace binade::io {

/// The type of a stored element. Text is a null-terminated UTF-8 string of a fixed number of bytes.
enum class StoredType : std::uint8_t { kF16, kBf16, kF32, kF64, kI32, kI64, kU8, kText };

/// An attribute: a scalar or a list. `bytes` points into the image.
struct StoredAttribute {
  StoredType type = StoredType::kI64;
  bool list = false;
  std::span<const std::byte> bytes{};

  bool is_text() const { return type == StoredType::kText && !list; }
  std::string_view text() const;  ///< without the terminator; REQUIRES is_text()
};
using StoredAttributes = std::map<std::string, StoredAttribute>;

/// A dataset, contiguous and row-major. `bytes` points into the image.
struct StoredDataset {
  StoredType type = StoredType::kF32;
  Shape shape{};
  std::span<const std::byte> bytes{};
  StoredAttributes attributes{};

  std::string_view text() const;  ///< the text, if the dataset is a single text
};

/// The groups and datasets of an image by path: "" is the root, "model", "model/head.weight".
struct StoredTree {
  std::map<std::string, StoredAttributes> groups{};
  std::map<std::string, StoredDataset> datasets{};
};

/// The largest numbers and sizes that the reader accepts in one file.
struct ProfileLimits {
  std::size_t objects = 65536;           ///< number of groups and datasets together; also of links to them
  std::size_t attributes = 1024;         ///< number of attributes of one object
  std::size_t all_attributes = 131072;   ///< number of attributes of all objects together
  std::size_t path_bytes = 16u << 20;    ///< length of all paths together, which is large if long names are nested
  std::size_t header_bytes = 16u << 20;  ///< size of all object headers together
  int depth = 6;                         ///< number of nested groups
};

/// Reads an HDF5 file image without the HDF5 library. Accepts only HDF5 as Binade writes it: superblock 3, object
/// headers 2 with checksums, hard links, contiguous datasets, fixed-size types, no filters, no external, shared,
/// chunked, virtual or variable-length storage, one link per object, no overlap. `image` starts with the user block of
/// `base` bytes. Every length is checked against the remaining bytes before it is used; allocations are bounded by the
/// file's size and the limits; the traversal is a loop that visits no byte twice.
///
/// Throws NoCheckpointError that names the first broken rule and its position.
StoredTree read_profile(std::span<const std::byte> image, std::size_t base, const ProfileLimits& limits = {});

/// True if a group, dataset or attribute may have this name: 1 to 255 bytes of valid UTF-8 without control characters
/// and '/', but not "." or "..".
bool is_valid_name(std::string_view name);

/// Returns the checksum of HDF5's metadata: Bob Jenkins' lookup3 ("hashlittle") with initial value 0, as the HDF5 file
/// format specification requires.
std::uint32_t lookup3(std::span<const std::byte> bytes);

}  // namespace binade::io
