#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/draws.h"

/// Checkpoint images put together by hand from the HDF5 file format specification (version 3.0), with every checksum
/// right: what the validator is tested against owes nothing to libhdf5, and may hold what libhdf5 would never write.
namespace binade::fuzz {

/// Fields of the format, little-endian.
std::string le(std::uint64_t value, int bytes);

/// One message of an object header. A link or a layout names what it points to; its address is filled in when the
/// image is laid out.
struct Message {
  int type = 0;
  int flags = 0;
  std::string body{};
  int points_to = -1;          ///< object or data block; -1: the body is complete
  std::size_t address_at = 0;  ///< where in the body the address goes
  bool points_to_data = false;
};

struct ObjectHeader {
  std::vector<Message> messages{};
  int size_width = 1;                            ///< bytes of the size field: 1, 2, 4
  bool phase_change = false;                     ///< the optional four bytes are there
  std::size_t continued_from = ~std::size_t{0};  ///< messages from here on lie in a continuation block
  int gap = 0;                                   ///< zero bytes (0 to 3) behind the messages
};

/// An image before it has addresses.
struct ProfileImage {
  std::vector<ObjectHeader> objects{};  ///< the first is the root
  std::vector<std::string> data{};      ///< raw data blocks

  /// Where the checksummed blocks of the image lie: what mutations behind the layout are repaired with.
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

/// Writes every checksum of `laid.blocks` and the user block anew.
void repair(ProfileImage::Laid& laid);
/// Writes the length and the SHA-256 in the user block anew.
void seal(std::string& bytes);

}  // namespace binade::fuzz
