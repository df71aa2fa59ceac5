#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/draws.h"

/// Builds checkpoint images from the HDF5 file format specification (version 3.0), with right checksums, as test inputs
/// for the validator. They do not depend on libhdf5, and may contain structures that libhdf5 would never write.
namespace binade::fuzz {

/// `value` as a little-endian field.
std::string le(std::uint64_t value, int bytes);

/// One message of an object header. If it is a link or a layout, lay_out() writes the address of its target into it.
struct Message {
  int type = 0;
  int flags = 0;
  std::string body{};
  int points_to = -1;          ///< the target: index of an object or data block; -1: none
  std::size_t address_at = 0;  ///< offset of the address in the body
  bool points_to_data = false;
};

struct ObjectHeader {
  std::vector<Message> messages{};
  int size_width = 1;                            ///< width of the size field: 1, 2 or 4 bytes
  bool phase_change = false;                     ///< has the four optional bytes of phase-change values
  std::size_t continued_from = ~std::size_t{0};  ///< index of the first message in a continuation block
  int gap = 0;                                   ///< zero bytes (0 to 3) after the messages
};

/// An image before addresses are assigned.
struct ProfileImage {
  std::vector<ObjectHeader> objects{};  ///< the first is the root
  std::vector<std::string> data{};      ///< raw data blocks

  /// A checksummed block of the image; repair() needs these after a mutation.
  struct Block {
    std::size_t begin = 0, size = 0;  ///< without the four bytes of its checksum, which follow
  };
  struct Laid {
    std::string bytes{};
    std::vector<Block> blocks{};
  };
  Laid lay_out() const;
};

/// Message bodies.
namespace message {
std::string integer_type(int bytes, bool is_signed);
std::string float_type(int bytes, int exponent_bits);
std::string text_type(std::uint64_t bytes);
std::string space(const std::vector<std::uint64_t>& dims, bool with_largest = false);
std::string attribute(const std::string& name, const std::string& type, const std::string& space,
                      const std::string& data);
Message link(const std::string& name, int object);
Message layout(int data, std::uint64_t bytes);
std::vector<Message> group_frame();
}  // namespace message

/// Recomputes every checksum of `laid.blocks`, and the user block.
void repair(ProfileImage::Laid& laid);
/// Recomputes the length and the SHA-256 in the user block.
void seal(std::string& bytes);

}  // namespace binade::fuzz
