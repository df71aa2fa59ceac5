#include "binade/io/checkpoint/hdf5_profile.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <optional>
#include <set>

#include "binade/core/error.h"
#include "binade/io/files/extents.h"
#include "binade/io/text/utf8.h"

namespace binade::io {

std::uint32_t lookup3(std::span<const std::byte> bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  std::uint32_t a = 0xdeadbeefu + length, b = a, c = a;
  const auto add = [&](std::span<const std::byte> block) {  // a block of up to 12 bytes; missing bytes count as zero
    std::uint32_t words[3] = {0, 0, 0};
    std::memcpy(words, block.data(), block.size());
    a += words[0];
    b += words[1];
    c += words[2];
  };
  const auto mix = [](std::uint32_t& x, std::uint32_t& y, std::uint32_t& z, int by) {
    x -= y;
    x ^= std::rotl(y, by);
    y += z;
  };
  while (bytes.size() > 12) {
    add(bytes.first(12));
    bytes = bytes.subspan(12);
    mix(a, c, b, 4);
    mix(b, a, c, 6);
    mix(c, b, a, 8);
    mix(a, c, b, 16);
    mix(b, a, c, 19);
    mix(c, b, a, 4);
  }
  if (bytes.empty()) return c;
  add(bytes);
  const auto last = [](std::uint32_t& x, std::uint32_t y, int by) {
    x ^= y;
    x -= std::rotl(y, by);
  };
  last(c, b, 14);
  last(a, c, 11);
  last(b, a, 25);
  last(c, b, 16);
  last(a, c, 4);
  last(b, a, 14);
  last(c, b, 24);
  return c;
}

static_assert(std::endian::native == std::endian::little, "checkpoints hold little-endian data that is used in place");

namespace {

using Bytes = std::span<const std::byte>;
constexpr std::uint64_t kUndefined = ~std::uint64_t{0};

[[noreturn]] void refuse(std::uint64_t at, std::string_view what) {
  throw NoCheckpointError(fmt::format("structure at byte {}: {}; the file is not one that Binade wrote", at, what));
}

/// Reads the items of a span one after another; refuses the file if an item extends beyond the span.
class Cursor {
 public:
  Cursor(Bytes bytes, std::uint64_t at) : bytes_(bytes), at_(at) {}

  std::uint64_t at() const { return at_; }
  std::size_t left() const { return bytes_.size(); }
  Bytes take(std::size_t count, std::string_view what) {
    if (count > bytes_.size()) refuse(at_, fmt::format("{} runs past the end of its container", what));
    const Bytes taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    at_ += count;
    return taken;
  }
  /// Reads a little-endian unsigned integer of 1 to 8 bytes.
  std::uint64_t number(std::size_t size, std::string_view what) {
    std::uint64_t value = 0;
    std::memcpy(&value, take(size, what).data(), size);
    return value;
  }
  void expect(std::size_t size, std::uint64_t wanted, std::string_view what) {
    const std::uint64_t where = at_;
    const std::uint64_t got = number(size, what);
    if (got != wanted) refuse(where, fmt::format("{} is {}, wanted {}", what, got, wanted));
  }
  void expect_end(std::string_view what) {
    if (!bytes_.empty()) refuse(at_, fmt::format("{} has {} bytes too many", what, bytes_.size()));
  }

 private:
  Bytes bytes_;
  std::uint64_t at_;
};

struct Type {
  StoredType type = StoredType::kU8;
  std::uint64_t size = 0;
};

/// Where a dataset's values are in the file.
struct Layout {
  std::uint64_t address = kUndefined;
  std::uint64_t bytes = 0;
};

/// A member of a group: its name, and the address of its object header.
struct LinkTo {
  std::string name;
  std::uint64_t address = 0;
};

/// The parsed messages of one object header.
struct Object {
  std::optional<Type> type;
  std::optional<Shape> shape;
  std::optional<Layout> layout;
  bool group = false;
  std::vector<LinkTo> links;
  StoredAttributes attributes;
};

Type read_type(Cursor& c) {
  const std::uint64_t at = c.at();
  const auto head = static_cast<unsigned>(c.number(1, "datatype"));
  const unsigned version = head >> 4, kind = head & 15;
  if (version < 1 || version > 3) refuse(at, fmt::format("datatype version {}, wanted 1 to 3", version));
  const std::uint64_t flags = c.number(3, "datatype flags");
  const std::uint64_t size = c.number(4, "datatype size");
  if (kind == 0) {  // fixed point; flags bit 3 is the sign, the rest must be zero (little-endian, no padding)
    c.expect(2, 0, "integer bit offset");
    c.expect(2, 8 * size, "integer precision");
    if (size == 8 && flags == 8) return {StoredType::kI64, size};
    if (size == 4 && flags == 8) return {StoredType::kI32, size};
    if (size == 1 && flags == 0) return {StoredType::kU8, size};
    refuse(at, fmt::format("integer type of {} bytes with flags {:#x}; only i64, i32 and u8 are used", size, flags));
  }
  if (kind == 1) {
    c.expect(2, 0, "float bit offset");
    c.expect(2, 8 * size, "float precision");
    const std::uint64_t exponent_at = c.number(1, "float exponent"), exponent_bits = c.number(1, "float exponent");
    c.expect(1, 0, "float mantissa offset");
    const std::uint64_t mantissa_bits = c.number(1, "float mantissa"), bias = c.number(4, "float bias");
    struct FloatFormat {
      StoredType type;
      std::uint64_t size, exponent_at, exponent_bits, bias;
    };
    constexpr FloatFormat kFormats[] = {{StoredType::kF16, 2, 10, 5, 15},
                                        {StoredType::kBf16, 2, 7, 8, 127},
                                        {StoredType::kF32, 4, 23, 8, 127},
                                        {StoredType::kF64, 8, 52, 11, 1023}};
    for (const FloatFormat& k : kFormats) {
      // Byte 1 of the flags is the offset of the sign; 0x20 is an implied leading mantissa bit.
      const std::uint64_t wanted_flags = ((8 * k.size - 1) << 8) | 0x20;
      if (size == k.size && exponent_at == k.exponent_at && exponent_bits == k.exponent_bits &&
          mantissa_bits == k.exponent_at && bias == k.bias && flags == wanted_flags)
        return {k.type, size};
    }
    refuse(at, fmt::format("float type of {} bytes with {} exponent bits; only f16, bf16, f32 and f64 are used", size,
                           exponent_bits));
  }
  if (kind == 3) {
    if (flags != 0x10) refuse(at, "text that is not null-terminated UTF-8");
    if (size == 0) refuse(at, "text type of no bytes");
    return {StoredType::kText, size};
  }
  constexpr std::string_view kKinds[] = {"fixed point", "float",           "time",     "text",
                                         "bit field",   "opaque",          "compound", "reference",
                                         "enumeration", "variable length", "array"};
  refuse(at, fmt::format("datatype class {} is not used", kind < std::size(kKinds) ? kKinds[kind] : "unknown"));
}

Shape read_space(Cursor& c) {
  const std::uint64_t at = c.at();
  c.expect(1, 2, "dataspace version");
  const std::uint64_t rank = c.number(1, "dataspace rank");
  const std::uint64_t flags = c.number(1, "dataspace flags");
  const std::uint64_t kind = c.number(1, "dataspace kind");
  if (rank > Shape::kMaxRank) refuse(at, fmt::format("rank {} is more than {}", rank, Shape::kMaxRank));
  if (flags > 1) refuse(at, "dataspace flags are not known");
  if (kind != (rank == 0 ? 0u : 1u)) refuse(at, "dataspace is neither a scalar nor simple");
  std::vector<std::uint64_t> extents;
  for (std::uint64_t i = 0; i < rank; ++i) extents.push_back(c.number(8, "dataspace extent"));
  const std::optional<Shape> shape = shape_from_extents(extents);
  if (!shape) refuse(at, "extents multiply to more than any file holds");
  if (flags == 1)
    for (const std::uint64_t extent : extents) c.expect(8, extent, "largest extent");
  return *shape;
}

std::string read_name(Bytes bytes, std::uint64_t at) {
  std::string name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!is_valid_name(name)) refuse(at, "a name that is empty, too long, not UTF-8, or holds control characters or '/'");
  return name;
}

LinkTo read_link(Cursor& c) {
  const std::uint64_t at = c.at();
  c.expect(1, 1, "link version");
  const std::uint64_t flags = c.number(1, "link flags");
  if ((flags & 8) != 0 && c.number(1, "link kind") != 0)
    refuse(at, "a soft, external or user link; only hard links are used");
  if ((flags & ~std::uint64_t{0x1b}) != 0) refuse(at, "link flags that are not used");
  if ((flags & 0x10) != 0 && c.number(1, "link character set") > 1) refuse(at, "an unknown character set");
  const std::uint64_t length = c.number(std::size_t{1} << (flags & 3), "link name length");
  if (length > 255) refuse(at, "a link name of more than 255 bytes");
  LinkTo link;
  link.name = read_name(c.take(length, "link name"), at);
  link.address = c.number(8, "link address");
  return link;
}

std::pair<std::string, StoredAttribute> read_attribute(Cursor& c) {
  const std::uint64_t at = c.at();
  c.expect(1, 3, "attribute version");
  c.expect(1, 0, "attribute flags (shared types are not used)");
  const std::uint64_t name_size = c.number(2, "attribute name size");
  const std::uint64_t type_size = c.number(2, "attribute type size");
  const std::uint64_t space_size = c.number(2, "attribute space size");
  if (c.number(1, "attribute character set") > 1) refuse(at, "an unknown character set");
  const Bytes name = c.take(name_size, "attribute name");
  if (name.empty() || name.back() != std::byte{0}) refuse(at, "an attribute name without its terminator");
  Cursor type_bytes(c.take(type_size, "attribute type"), at);
  const Type type = read_type(type_bytes);
  type_bytes.expect_end("attribute type");
  Cursor space_bytes(c.take(space_size, "attribute space"), at);
  const Shape shape = read_space(space_bytes);
  space_bytes.expect_end("attribute space");
  if (shape.rank() > 1) refuse(at, "an attribute of more than one dimension");
  const std::uint64_t count = static_cast<std::uint64_t>(shape.numel());
  if (count > c.left()) refuse(at, "an attribute with more elements than bytes");
  StoredAttribute attribute{type.type, shape.rank() == 1, c.take(count * type.size, "attribute data")};
  if (type.type == StoredType::kText && (attribute.list || attribute.bytes.back() != std::byte{0}))
    refuse(at, "a text without its terminator");
  return {read_name(name.first(name.size() - 1), at), attribute};
}

/// Parses the objects of a file, from the root group on.
class Walk {
 public:
  Walk(Bytes image, std::size_t base, const ProfileLimits& limits) : image_(image), base_(base), limits_(limits) {}

  StoredTree run() {
    queue_.push_back({"", read_superblock(), 0});
    while (!queue_.empty()) {
      const Pending next = queue_.front();
      queue_.pop_front();
      visit(next);
    }
    check_disjoint();
    return std::move(tree_);
  }

 private:
  struct Pending {
    std::string path;
    std::uint64_t address;
    int depth;
  };
  struct Extent {
    std::uint64_t begin, end;
  };

  /// Returns `count` > 0 bytes at an HDF5 address, which is relative to the end of the user block. Records them, so
  /// that check_disjoint() finds objects on the same bytes.
  Bytes claim(std::uint64_t address, std::uint64_t count, std::string_view what) {
    const std::uint64_t size = image_.size() - base_;
    if (address > size || count > size - address)
      refuse(base_ + std::min(address, size), fmt::format("{} lies outside the file", what));
    extents_.push_back({address, address + count});
    return image_.subspan(base_ + address, count);
  }

  std::uint64_t read_superblock() {
    constexpr std::size_t kSize = 48;
    const Bytes bytes = claim(0, kSize, "superblock");
    Cursor c(bytes, base_);
    constexpr unsigned char kSignature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    if (std::memcmp(c.take(8, "signature").data(), kSignature, 8) != 0)
      refuse(base_, "no HDF5 signature after the user block");
    c.expect(1, 3, "superblock version");
    c.expect(1, 8, "size of offsets");
    c.expect(1, 8, "size of lengths");
    c.expect(1, 0, "file status flags");
    c.expect(8, base_, "base address");
    c.expect(8, kUndefined, "superblock extension");
    c.expect(8, image_.size(), "end of file");
    const std::uint64_t root = c.number(8, "root group");
    c.expect(4, lookup3(bytes.first(kSize - 4)), "superblock checksum");
    return root;
  }

  void visit(const Pending& pending) {
    if (!visited_.insert(pending.address).second)
      refuse(base_ + pending.address, fmt::format("object \"{}\" is reached twice", pending.path));
    if (visited_.size() > limits_.objects)
      refuse(base_ + pending.address, fmt::format("more than {} objects", limits_.objects));
    Object object = read_object(pending.address);
    const std::uint64_t at = base_ + pending.address;
    if (object.group) {
      if (object.type || object.shape || object.layout) refuse(at, "an object that is both group and dataset");
      if (pending.depth >= limits_.depth) refuse(at, fmt::format("groups nested deeper than {}", limits_.depth));
      enqueue(object.links, pending, at);
      tree_.groups.emplace(pending.path, std::move(object.attributes));
      return;
    }
    if (!object.type || !object.shape || !object.layout || !object.links.empty())
      refuse(at, fmt::format("object \"{}\" is neither a group nor a dataset", pending.path));
    if (pending.path.empty()) refuse(at, "the root is not a group");
    tree_.datasets.emplace(pending.path, dataset_from(std::move(object), at));
  }

  void enqueue(const std::vector<LinkTo>& links, const Pending& group, std::uint64_t at) {
    links_ += links.size();
    if (links_ > limits_.objects) refuse(at, fmt::format("more than {} links", limits_.objects));
    std::set<std::string_view> names;
    for (const LinkTo& link : links) {
      if (!names.insert(link.name).second) refuse(at, fmt::format("two links named \"{}\"", link.name));
      path_bytes_ += group.path.size() + 1 + link.name.size();
      if (path_bytes_ > limits_.path_bytes)
        refuse(at, fmt::format("paths of more than {} bytes in all", limits_.path_bytes));
      queue_.push_back({group.path.empty() ? link.name : group.path + "/" + link.name, link.address, group.depth + 1});
    }
  }

  StoredDataset dataset_from(Object object, std::uint64_t at) {
    const auto count = static_cast<std::uint64_t>(object.shape->numel());
    if (count > image_.size() || object.type->size > image_.size()) refuse(at, "a dataset larger than the file");
    // No overflow: both factors are at most 2^48, and either the size is at most 8 or the count is 1.
    const std::uint64_t wanted = count * object.type->size;
    if (object.type->type == StoredType::kText && object.shape->rank() != 0) refuse(at, "a list of texts");
    if (object.layout->bytes != wanted)
      refuse(at, fmt::format("a dataset of {} stored bytes, its shape and type need {}", object.layout->bytes, wanted));
    StoredDataset dataset;
    dataset.type = object.type->type;
    dataset.shape = *object.shape;
    if (wanted == 0) {
      if (object.layout->address != kUndefined) refuse(at, "an empty dataset with an address");
    } else {
      dataset.bytes = claim(object.layout->address, wanted, "dataset");
    }
    if (dataset.type == StoredType::kText && dataset.bytes.back() != std::byte{0})
      refuse(at, "a text without its terminator");
    dataset.attributes = std::move(object.attributes);
    return dataset;
  }

  Object read_object(std::uint64_t address) {
    Object object;
    Cursor head(claim_header(address, 6), base_ + address);
    if (std::memcmp(head.take(4, "object header").data(), "OHDR", 4) != 0)
      refuse(base_ + address, "no object header here");
    head.expect(1, 2, "object header version");
    const std::uint64_t flags = head.number(1, "object header flags");
    if ((flags & ~std::uint64_t{0x13}) != 0)
      refuse(base_ + address, "object header flags for times or creation order, which are not used");
    const std::size_t size_bytes = std::size_t{1} << (flags & 3);
    std::uint64_t prefix = 6 + ((flags & 0x10) != 0 ? 4 : 0);
    Cursor size_field(claim_header(address + prefix, size_bytes), base_ + address + prefix);
    const std::uint64_t messages = size_field.number(size_bytes, "object header size");
    prefix += size_bytes;
    if (messages > limits_.header_bytes) refuse(base_ + address, "an object header of too many bytes");
    extents_.push_back({address, address + prefix + messages + 4});
    std::deque<Extent> continuations;
    read_block(address, prefix, prefix + messages + 4, object, continuations);
    while (!continuations.empty()) {
      const Extent block = continuations.front();
      continuations.pop_front();
      if (block.end - block.begin < 8) refuse(base_ + block.begin, "a continuation block too small for its frame");
      if (!continued_.insert(block.begin).second) refuse(base_ + block.begin, "a continuation block is reached twice");
      extents_.push_back(block);
      const Bytes bytes = claim_header(block.begin, block.end - block.begin);
      if (std::memcmp(bytes.data(), "OCHK", 4) != 0) refuse(base_ + block.begin, "no continuation block here");
      read_block(block.begin, 4, block.end - block.begin, object, continuations);
    }
    return object;
  }

  /// Returns bytes as claim() does; instead of recording them, it counts them against ProfileLimits::header_bytes.
  Bytes claim_header(std::uint64_t address, std::uint64_t count) {
    const std::uint64_t size = image_.size() - base_;
    if (address > size || count > size - address)
      refuse(base_ + std::min(address, size), "an object header lies outside the file");
    header_bytes_ += count;
    if (header_bytes_ > 2 * limits_.header_bytes) refuse(base_ + address, "more object headers than the budget");
    return image_.subspan(base_ + address, count);
  }

  /// Reads the messages of one block of an object header. The block consists of a prefix of `prefix` bytes, the
  /// messages, and a checksum of all bytes before the checksum.
  void read_block(std::uint64_t address, std::uint64_t prefix, std::uint64_t size, Object& object,
                  std::deque<Extent>& continuations) {
    const Bytes block = claim_header(address, size);
    Cursor checksum(block.last(4), base_ + address + size - 4);
    checksum.expect(4, lookup3(block.first(size - 4)), "object header checksum");
    Cursor c(block.subspan(prefix, size - 4 - prefix), base_ + address + prefix);
    while (c.left() >= 4) {
      const std::uint64_t at = c.at();
      const std::uint64_t type = c.number(1, "message type");
      const std::uint64_t bytes = c.number(2, "message size");
      const std::uint64_t flags = c.number(1, "message flags");
      if ((flags & ~std::uint64_t{0x05}) != 0) refuse(at, "a shared message, or flags that are not used");
      Cursor message(c.take(bytes, "message"), c.at());
      read_message(type, message, at, object, continuations);
    }
    for (const std::byte b : c.take(c.left(), "gap"))
      if (b != std::byte{0}) refuse(base_ + address, "a gap that is not zero");
  }

  void read_message(std::uint64_t type, Cursor& c, std::uint64_t at, Object& object,
                    std::deque<Extent>& continuations) {
    const auto once = [&](bool taken, std::string_view what) {
      if (taken) refuse(at, fmt::format("two {} messages", what));
    };
    switch (type) {
      case 0x00: return;  // null message: unused space in a header
      case 0x01:
        once(object.shape.has_value(), "dataspace");
        object.shape = read_space(c);
        return c.expect_end("dataspace");
      case 0x02:  // link info; all links must be messages of the header itself
        once(object.group, "link info");
        object.group = true;
        c.expect(1, 0, "link info version");
        c.expect(1, 0, "link info flags");
        c.expect(8, kUndefined, "fractal heap of links");
        c.expect(8, kUndefined, "name index of links");
        return c.expect_end("link info");
      case 0x03:
        once(object.type.has_value(), "datatype");
        object.type = read_type(c);
        return c.expect_end("datatype");
      case 0x05: return read_fill(c);
      case 0x06:
        object.links.push_back(read_link(c));
        if (object.links.size() > limits_.objects) refuse(at, "too many links");
        return c.expect_end("link");
      case 0x08:
        once(object.layout.has_value(), "layout");
        object.layout = read_layout(c, at);
        return c.expect_end("layout");
      case 0x0a: return read_group_info(c);
      case 0x0c: {
        auto [name, attribute] = read_attribute(c);
        if (object.attributes.size() >= limits_.attributes || ++attributes_ > limits_.all_attributes)
          refuse(at, "too many attributes");
        if (!object.attributes.emplace(name, attribute).second)
          refuse(at, fmt::format("two attributes named \"{}\"", name));
        return c.expect_end("attribute");
      }
      case 0x10: {
        const std::uint64_t begin = c.number(8, "continuation address"), size = c.number(8, "continuation size");
        if (size > limits_.header_bytes || begin > image_.size()) refuse(at, "a continuation outside the file");
        continuations.push_back({begin, begin + size});
        return c.expect_end("continuation");
      }
      case 0x15:  // attribute info; all attributes must be messages of the header itself
        c.expect(1, 0, "attribute info version");
        c.expect(1, 0, "attribute info flags");
        c.expect(8, kUndefined, "fractal heap of attributes");
        c.expect(8, kUndefined, "name index of attributes");
        return c.expect_end("attribute info");
      default: break;
    }
    struct Named {
      std::uint64_t type;
      std::string_view name;
    };
    constexpr Named kForbidden[] = {
        {0x04, "old fill value"},        {0x07, "external storage"},   {0x09, "bogus"},
        {0x0b, "filter pipeline"},       {0x0d, "object comment"},     {0x0e, "old time"},
        {0x0f, "shared messages"},       {0x11, "symbol table"},       {0x12, "time"},
        {0x13, "B-tree K values"},       {0x14, "driver information"}, {0x16, "reference count"},
        {0x17, "file space information"}};
    for (const Named& n : kForbidden)
      if (n.type == type) refuse(at, fmt::format("a message that is not used: {}", n.name));
    refuse(at, fmt::format("unknown message {:#x}", type));
  }

  static void read_fill(Cursor& c) {
    c.expect(1, 3, "fill value version");
    const std::uint64_t at = c.at();
    const std::uint64_t flags = c.number(1, "fill value flags");
    if ((flags & ~std::uint64_t{0x1f}) != 0) refuse(at, "a fill value");
    c.expect_end("fill value");
  }

  static Layout read_layout(Cursor& c, std::uint64_t at) {
    const std::uint64_t version = c.number(1, "layout version");
    if (version != 3 && version != 4) refuse(at, fmt::format("layout version {}, wanted 3 or 4", version));
    const std::uint64_t kind = c.number(1, "layout class");
    constexpr std::string_view kKinds[] = {"compact", "contiguous", "chunked", "virtual"};
    if (kind != 1) refuse(at, fmt::format("{} storage; only contiguous is used", kind < 4 ? kKinds[kind] : "unknown"));
    Layout layout;
    layout.address = c.number(8, "layout address");
    layout.bytes = c.number(8, "layout size");
    return layout;
  }

  static void read_group_info(Cursor& c) {
    c.expect(1, 0, "group info version");
    const std::uint64_t at = c.at();
    const std::uint64_t flags = c.number(1, "group info flags");
    if (flags > 3) refuse(at, "group info flags that are not used");
    if ((flags & 1) != 0) c.take(4, "group info");
    if ((flags & 2) != 0) c.take(4, "group info");
    c.expect_end("group info");
  }

  void check_disjoint() {
    std::sort(extents_.begin(), extents_.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < extents_.size(); ++i)
      if (extents_[i].begin < extents_[i - 1].end) refuse(base_ + extents_[i].begin, "two objects on the same bytes");
  }

  Bytes image_;
  std::size_t base_;
  ProfileLimits limits_;
  StoredTree tree_;
  std::deque<Pending> queue_;
  std::set<std::uint64_t> visited_, continued_;
  std::vector<Extent> extents_;
  std::uint64_t header_bytes_ = 0;
  std::size_t links_ = 0, attributes_ = 0, path_bytes_ = 0;
};

std::string_view text_in(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1}; }

}  // namespace

std::string_view StoredAttribute::text() const { return text_in(bytes); }
std::string_view StoredDataset::text() const { return text_in(bytes); }

bool is_valid_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  for (std::size_t at = 0; at < name.size();) {
    const CodePoint c = decode_utf8(name, at);
    const bool control = c.value < 0x20 || (c.value >= 0x7f && c.value < 0xa0);
    if (!c.valid || control || c.value == '/') return false;
    at = c.end;
  }
  return true;
}

StoredTree read_profile(std::span<const std::byte> image, std::size_t base, const ProfileLimits& limits) {
  if (image.size() < base) refuse(image.size(), "shorter than its user block");
  return Walk(image, base, limits).run();
}

}  // namespace binade::io
