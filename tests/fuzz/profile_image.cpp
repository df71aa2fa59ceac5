#include "tests/fuzz/profile_image.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "binade/io/checkpoint/hdf5_profile.h"
#include "binade/io/checkpoint/layout.h"

namespace binade::fuzz {
namespace {

constexpr std::size_t kBase = io::kUserBlockBytes;
constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

std::string frame(const Message& m) {
  return le(static_cast<unsigned>(m.type), 1) + le(m.body.size(), 2) + le(static_cast<unsigned>(m.flags), 1);
}

std::uint64_t size_of(const Message& m) { return 4 + m.body.size(); }

/// An object's messages by block, and the sizes from which addresses are computed.
struct Pieces {
  std::span<const Message> first, rest;
  std::uint64_t prefix = 0, first_bytes = 0, rest_bytes = 0;  // sizes without signatures and checksums
  std::uint64_t address = 0, rest_address = 0;
};

Pieces pieces_of(const ObjectHeader& o) {
  const std::size_t cut = std::min(o.continued_from, o.messages.size());
  Pieces p{.first = std::span(o.messages).first(cut), .rest = std::span(o.messages).subspan(cut)};
  p.prefix = 6 + (o.phase_change ? 4u : 0u) + static_cast<std::uint64_t>(o.size_width);
  for (const Message& m : p.first) p.first_bytes += size_of(m);
  for (const Message& m : p.rest) p.rest_bytes += size_of(m);
  if (!p.rest.empty()) p.first_bytes += 4 + 16;  // the message with the continuation's address
  p.first_bytes += static_cast<std::uint64_t>(o.gap);
  return p;
}

}  // namespace

std::string le(std::uint64_t value, int bytes) {
  std::string out(static_cast<std::size_t>(bytes), '\0');
  std::memcpy(out.data(), &value, out.size());
  return out;
}

ProfileImage::Laid ProfileImage::lay_out() const {
  std::vector<Pieces> pieces;
  std::uint64_t at = 48;
  for (const ObjectHeader& o : objects) {
    Pieces p = pieces_of(o);
    p.address = at;
    at += p.prefix + p.first_bytes + 4;
    if (!p.rest.empty()) {
      p.rest_address = at;
      at += 4 + p.rest_bytes + 4;
    }
    pieces.push_back(p);
  }
  std::vector<std::uint64_t> data_at;
  for (const std::string& block : data) {
    data_at.push_back(at);
    at += block.size();
  }
  Laid laid;
  std::string& out = laid.bytes;
  out.assign(kBase, '\0');
  out.reserve(kBase + at);
  const auto put_message = [&](const Message& m) {
    out += frame(m);
    const std::size_t body = out.size();
    out += m.body;
    if (m.points_to < 0 || m.address_at + 8 > m.body.size()) return;
    const auto i = static_cast<std::size_t>(m.points_to);
    std::uint64_t address = kNowhere;
    if (m.points_to_data && i < data_at.size()) address = data_at[i];
    if (!m.points_to_data && i < pieces.size()) address = pieces[i].address;
    out.replace(body + m.address_at, 8, le(address, 8));
  };
  const auto end_block = [&](std::size_t begin) {
    laid.blocks.push_back({begin, out.size() - begin});
    out += "crc?";
  };
  out += std::string("\x89HDF\r\n\x1a\n", 8) + '\3' + '\x8' + '\x8' + '\0' + le(kBase, 8) + le(kNowhere, 8) +
         le(kBase + at, 8) + le(pieces.empty() ? kNowhere : pieces[0].address, 8);
  end_block(kBase);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const ObjectHeader& o = objects[i];
    const Pieces& p = pieces[i];
    std::size_t begin = out.size();
    const unsigned width = o.size_width == 1 ? 0 : o.size_width == 2 ? 1 : 2;
    out += std::string("OHDR\2") + static_cast<char>(width | (o.phase_change ? 0x10 : 0));
    if (o.phase_change) out += le(65535, 2) + le(0, 2);
    out += le(p.first_bytes, o.size_width);
    for (const Message& m : p.first) put_message(m);
    if (!p.rest.empty()) put_message({.type = 0x10, .body = le(p.rest_address, 8) + le(4 + p.rest_bytes + 4, 8)});
    out.append(static_cast<std::size_t>(o.gap), '\0');
    end_block(begin);
    if (p.rest.empty()) continue;
    begin = out.size();
    out += "OCHK";
    for (const Message& m : p.rest) put_message(m);
    end_block(begin);
  }
  for (const std::string& block : data) out += block;
  repair(laid);
  return laid;
}

void repair(ProfileImage::Laid& laid) {
  std::string& bytes = laid.bytes;
  const auto view = [&](std::size_t begin, std::size_t size) {
    return std::as_bytes(std::span(bytes)).subspan(begin, size);
  };
  for (const ProfileImage::Block& b : laid.blocks)
    if (b.begin + b.size + 4 <= bytes.size())
      bytes.replace(b.begin + b.size, 4, le(io::lookup3(view(b.begin, b.size)), 4));
  if (bytes.size() < kBase) return;
  bytes.replace(0, 8, io::layout::kMagic);
  bytes.replace(io::layout::kVersionAt, 4, le(io::layout::kUserBlockVersion, 4));
  bytes.replace(io::layout::kBlockSizeAt, 4, le(kBase, 4));
  seal(bytes);
}

void seal(std::string& bytes) {
  bytes.replace(io::layout::kLengthAt, 8, le(bytes.size(), 8));
  const Sha256::Digest digest = io::layout::guarded_digest(std::as_bytes(std::span(bytes)));
  std::memcpy(bytes.data() + io::layout::kDigestAt, digest.data(), digest.size());
}

namespace message {

std::string integer_type(int bytes, bool is_signed) {
  return std::string("\x10") + le(is_signed ? 8 : 0, 3) + le(static_cast<unsigned>(bytes), 4) + le(0, 2) +
         le(8u * static_cast<unsigned>(bytes), 2);
}

std::string float_type(int bytes, int exponent_bits) {
  const unsigned bits = 8 * static_cast<unsigned>(bytes), exponent = static_cast<unsigned>(exponent_bits),
                 mantissa = bits - 1 - exponent;
  return std::string("\x11") + '\x20' + le(bits - 1, 1) + '\0' + le(static_cast<unsigned>(bytes), 4) + le(0, 2) +
         le(bits, 2) + le(mantissa, 1) + le(exponent, 1) + '\0' + le(mantissa, 1) + le((1u << (exponent - 1)) - 1, 4);
}

std::string text_type(std::uint64_t bytes) { return std::string("\x13") + le(0x10, 3) + le(bytes, 4); }

std::string space(const std::vector<std::uint64_t>& dims, bool with_largest) {
  std::string body = le(2, 1) + le(dims.size(), 1) + le(with_largest && !dims.empty() ? 1 : 0, 1) +
                     le(dims.empty() ? 0 : 1, 1);
  for (const std::uint64_t d : dims) body += le(d, 8);
  if (with_largest && !dims.empty())
    for (const std::uint64_t d : dims) body += le(d, 8);
  return body;
}

std::string attribute(const std::string& name, const std::string& type, const std::string& space,
                      const std::string& data) {
  return le(3, 1) + le(0, 1) + le(name.size() + 1, 2) + le(type.size(), 2) + le(space.size(), 2) + le(1, 1) + name +
         '\0' + type + space + data;
}

Message link(const std::string& name, int object) {
  const int width = name.size() > 255 ? 2 : 1;
  const std::string head = le(1, 1) + le(width == 2 ? 0x11 : 0x10, 1) + le(1, 1) + le(name.size(), width) + name;
  return {.type = 6, .body = head + le(kNowhere, 8), .points_to = object, .address_at = head.size()};
}

Message layout(int data, std::uint64_t bytes) {
  return {.type = 8,
          .body = le(4, 1) + le(1, 1) + le(kNowhere, 8) + le(bytes, 8),
          .points_to = data,
          .address_at = 2,
          .points_to_data = true};
}

std::vector<Message> group_frame() {
  return {{.type = 2, .body = le(0, 2) + le(kNowhere, 8) + le(kNowhere, 8)}, {.type = 10, .body = le(0, 2)}};
}

}  // namespace message
}  // namespace binade::fuzz
