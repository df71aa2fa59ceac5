#include <cstring>
#include <map>
#include <span>
#include <variant>

#include "binade/core/error.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/checkpoint/layout.h"
#include "tests/fuzz/profile_image.h"
#include "tests/fuzz/target.h"

namespace binade::fuzz {
namespace {

using Bytes = std::span<const std::byte>;

struct Kind {
  const char* dtype;
  DType is;
  std::string type;
  std::uint64_t size;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{{"f32", DType::f32, message::float_type(4, 8), 4},
                                     {"f16", DType::f16, message::float_type(2, 5), 2},
                                     {"bf16", DType::bf16, message::float_type(2, 8), 2},
                                     {"f64", DType::f64, message::float_type(8, 11), 8},
                                     {"i64", DType::i64, message::integer_type(8, true), 8},
                                     {"i32", DType::i32, message::integer_type(4, true), 4},
                                     {"u8", DType::u8, message::integer_type(1, false), 1},
                                     {"bool", DType::boolean, message::integer_type(1, false), 1}};
  return all;
}

std::string text_data(const std::string& text) { return text + '\0'; }

Message attribute(const std::string& name, const std::string& type, const std::string& space, const std::string& data) {
  return {.type = 12, .body = message::attribute(name, type, space, data)};
}
Message text_attribute(const std::string& name, const std::string& text) {
  return attribute(name, message::text_type(text.size() + 1), message::space({}), text_data(text));
}
Message integer_attribute(const std::string& name, std::int64_t value) {
  return attribute(name, message::integer_type(8, true), message::space({}), le(static_cast<std::uint64_t>(value), 8));
}

/// Composes a valid checkpoint of random content, before addresses are assigned.
class Composer {
 public:
  explicit Composer(Draws& draws) : draws_(draws) { root_ = group(); }

  ProfileImage compose() {
    const int format = child(root_, "format");
    put(format, text_attribute("name", "binade-checkpoint"));
    put(format, integer_attribute("major", draws_.one_in(40) ? 2 : 1));
    put(format, integer_attribute("minor", static_cast<std::int64_t>(draws_.below(3))));
    put(format, integer_attribute("required_features", draws_.one_in(40) ? 4 : 0));
    put(format, integer_attribute("optional_features", 0));
    put(format, text_attribute("writer", "binade 0.1.0"));
    const int manifest = child(root_, "manifest");
    put(manifest, text_attribute("state_hash", std::string(64, 'a')));
    const int model = child(root_, "model");
    for (std::size_t n = draws_.below(4); n > 0; --n)
      tensor(model, "model/t" + std::to_string(n), "t" + std::to_string(n));
    int deep = child(root_, "optim");
    std::string path = "optim";
    for (std::size_t n = draws_.below(draws_.one_in(30) ? 8 : 3); n > 0; --n) {
      deep = child(deep, "g");
      path += "/g";
    }
    tensor(deep, path + "/moment", "moment");
    scalars(deep);
    if (draws_.one_in(3)) long_value(deep);
    if (draws_.one_in(6)) add_unexpected(deep, format);
    std::string list;
    for (const auto& [name, line] : lines_) list += line;
    dataset(manifest, "tensors", message::text_type(list.size() + 1), {}, text_data(list), "text");
    return std::move(image_);
  }

 private:
  ObjectHeader& at(int object) { return image_.objects[static_cast<std::size_t>(object)]; }
  void put(int object, Message m) { at(object).messages.push_back(std::move(m)); }
  int group() {
    image_.objects.push_back({.messages = message::group_frame()});
    return static_cast<int>(image_.objects.size()) - 1;
  }
  int child(int parent, const std::string& name) {
    const int made = group();
    put(parent, message::link(name, made));
    return made;
  }
  void dataset(int parent, const std::string& name, const std::string& type, const std::vector<std::uint64_t>& dims,
               const std::string& data, const std::string& dtype) {
    ObjectHeader o;
    o.messages = {{.type = 1, .body = message::space(dims, draws_.one_in(2))},
                  {.type = 3, .flags = 1, .body = type},
                  {.type = 5, .flags = 1, .body = le(3, 1) + le(0x0a, 1)}};
    int block = -1;
    if (!data.empty()) {
      block = static_cast<int>(image_.data.size());
      image_.data.push_back(data);
    }
    o.messages.push_back(message::layout(block, data.size()));
    o.messages.push_back(text_attribute("dtype", dtype));
    image_.objects.push_back(std::move(o));
    put(parent, message::link(name, static_cast<int>(image_.objects.size()) - 1));
  }
  void tensor(int parent, const std::string& path, const std::string& name) {
    const Kind& kind = draws_.pick(kinds());
    std::vector<std::uint64_t> dims;
    std::uint64_t count = 1;
    for (std::size_t rank = draws_.below(4); rank > 0; --rank) {
      dims.push_back(draws_.below(5));
      count *= dims.back();
    }
    std::string data(count * kind.size, '\0');
    for (char& byte : data) byte = static_cast<char>(kind.is == DType::boolean ? draws_.below(2) : draws_.word());
    dataset(parent, name, kind.type, dims, data, kind.dtype);
    const std::vector<std::int64_t> extents(dims.begin(), dims.end());
    lines_[path] = io::layout::manifest_line(path, kind.is, Shape(std::span<const std::int64_t>(extents)),
                                             std::as_bytes(std::span(data)));
  }
  void scalars(int object) {
    put(object, integer_attribute("step", static_cast<std::int64_t>(draws_.word())));
    put(object, attribute("lr", message::float_type(8, 11), message::space({}), le(draws_.word(), 8)));
    const std::uint64_t count = draws_.below(4);
    std::string values;
    for (std::uint64_t i = 0; i < count; ++i) values += le(draws_.word(), 8);
    put(object, attribute("window", draws_.one_in(2) ? message::float_type(8, 11) : message::integer_type(8, true),
                          message::space({count}), values));
  }
  void long_value(int object) {
    const bool integers = draws_.one_in(2);
    if (draws_.one_in(2)) return dataset(object, "notes", message::text_type(6), {}, text_data("notes"), "text");
    dataset(object, "cursor", integers ? message::integer_type(8, true) : message::float_type(8, 11), {2},
            std::string(16, '\1'), integers ? "integers" : "numbers");
  }

  /// Adds something that HDF5 allows but Binade never writes: an unexpected type, rank, name or place.
  void add_unexpected(int object, int format) {
    const Kind& kind = draws_.pick(kinds());
    const std::string one(kind.size, '\1');
    const std::vector<std::uint64_t> dims(draws_.below(2), 1);
    switch (draws_.below(6)) {
      case 0: return put(object, attribute("odd", kind.type, message::space(dims), one));
      case 1: return put(root_, integer_attribute("odd", 1));
      case 2: {  // one of the six attributes of /format
        constexpr const char* kNames[] = {"name", "major", "minor", "required_features", "optional_features", "writer"};
        const std::size_t which = draws_.below(std::size(kNames));
        at(format).messages[2 + which] = attribute(draws_.one_in(4) ? "none" : kNames[which], kind.type,
                                                   message::space(dims), one);
        return;
      }
      case 3: return dataset(object, "step", kind.type, dims, one, kind.dtype);  // also the name of an attribute
      case 4: {
        constexpr const char* kMarks[] = {"integers", "numbers", "text", "f32", "bool", "f8", ""};
        return dataset(object, "odd", kind.type, dims, one, draws_.pick(kMarks));
      }
      default:
        dataset(object, "odd", kind.type, dims, one, kind.dtype);
        image_.objects.back().messages.pop_back();
        if (draws_.one_in(2)) image_.objects.back().messages.push_back(integer_attribute("dtype", 1));
    }
  }

  Draws& draws_;
  ProfileImage image_;
  int root_ = 0;
  std::map<std::string, std::string> lines_;
};

const std::vector<std::string>& bad_names() {
  static const std::vector<std::string> all{"",
                                            ".",
                                            "..",
                                            "a/b",
                                            "../../etc/passwd",
                                            std::string("a\0b", 3),
                                            "\x1b[2J",
                                            "\n",
                                            "\xff\xfe",
                                            "\xc0\xaf",
                                            "\xed\xa0\x80",
                                            "\xc2\x85",
                                            "\xf5\x80\x80\x80",
                                            "\xe2\x82",
                                            "ok",
                                            "\xc3\xa9",
                                            "\xf0\x9f\x98\x80",
                                            "\xe2\x82\xac",
                                            std::string(255, 'n'),
                                            std::string(256, 'n'),
                                            "dtype",
                                            "tensors",
                                            "\xf0\x80\x80\x80",
                                            "\xe0\x80\x80",
                                            "\xf4\x90\x80\x80",
                                            "\x7f"};
  return all;
}

std::vector<std::uint64_t> hostile_dims(Draws& draws) {
  std::vector<std::uint64_t> dims;
  for (std::size_t rank = draws.below(draws.one_in(4) ? 12 : 4); rank > 0; --rank)
    dims.push_back(draws.one_in(2) ? draws.edge() : draws.below(4));
  return dims;
}

std::string hostile_type(Draws& draws) {
  switch (draws.below(6)) {
    case 0: return message::text_type(draws.edge());
    case 1: return message::float_type(draws.one_in(2) ? 4 : 2, static_cast<int>(2 + draws.below(9)));
    case 2: return message::integer_type(static_cast<int>(1u << draws.below(4)), draws.one_in(2));
    case 3: {  // an unknown class or version
      std::string type = draws.pick(kinds()).type;
      type[0] = static_cast<char>(draws.word());
      return type;
    }
    case 4: return draws.pick(kinds()).type;
    default: return mutate(draws.pick(kinds()).type, draws);
  }
}

Message hostile_message(Draws& draws) {
  switch (draws.below(6)) {
    case 0:
      return {.type = 12,
              .body = message::attribute(draws.pick(bad_names()), hostile_type(draws),
                                         message::space(hostile_dims(draws)), std::string(draws.below(40), '\0'))};
    case 1:
      return {.type = 16,
              .body = le(draws.one_in(2) ? 48 + draws.below(600) : draws.edge(), 8) +
                      le(draws.one_in(2) ? draws.below(600) : draws.edge(), 8)};
    case 2: return {.type = 1, .body = message::space(hostile_dims(draws), draws.one_in(2))};
    case 3: return {.type = 3, .body = hostile_type(draws)};
    case 4:
      return {.type = static_cast<int>(draws.below(28)),
              .flags = static_cast<int>(draws.one_in(3) ? draws.below(256) : 0),
              .body = std::string(draws.below(30), static_cast<char>(draws.one_in(2) ? 0 : draws.word()))};
    default: return message::link(draws.pick(bad_names()), static_cast<int>(draws.below(12)));
  }
}

/// Makes one hostile change to an image, before its checksums are computed.
void corrupt(ProfileImage& image, Draws& draws) {
  ObjectHeader& object = image.objects[draws.below(image.objects.size())];
  if (object.messages.empty()) return;
  const std::size_t at = draws.below(object.messages.size());
  Message& m = object.messages[at];
  switch (draws.below(14)) {
    case 0: m.body = mutate(m.body, draws); break;
    case 1: m.flags = static_cast<int>(draws.below(256)); break;
    case 2: m.type = static_cast<int>(draws.below(26)); break;
    case 3: object.messages.push_back(m); break;
    case 4: object.messages.erase(object.messages.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 5: m.points_to = static_cast<int>(draws.below(image.objects.size() + 2)) - 1; break;
    case 6:
    case 7: m = hostile_message(draws); break;
    case 8: object.messages.push_back(hostile_message(draws)); break;
    case 9:
      if (m.type == 6) m = message::link(draws.pick(bad_names()), m.points_to);
      if (m.type == 8 && m.body.size() == 18)
        m.body.replace(10, 8, le(draws.one_in(2) ? draws.edge() : draws.below(64), 8));
      if (m.type == 1) m.body = message::space(hostile_dims(draws), draws.one_in(2));
      if (m.type == 3) m.body = hostile_type(draws);
      if (m.type == 12 && m.body.size() > 9)
        m.body[draws.below(9)] = static_cast<char>(draws.one_in(2) ? draws.word() : draws.below(9));
      break;
    case 10: {  // points elsewhere in the file
      const std::uint64_t address = draws.one_in(2) ? draws.edge() : draws.below(2000);
      if (m.points_to >= 0 && m.address_at + 8 <= m.body.size()) m.body.replace(m.address_at, 8, le(address, 8));
      m.points_to = -1;
      break;
    }
    case 11:
      if (!image.data.empty()) {
        std::string& block = image.data[draws.below(image.data.size())];
        block = draws.one_in(2) ? mutate(block, draws) : std::string(draws.below(64), '\2');
      }
      break;
    case 12:
      object.messages.insert(object.messages.begin() + static_cast<std::ptrdiff_t>(at),
                             {.type = 0, .body = std::string(draws.below(9), '\0')});
      break;
    default: object = image.objects[draws.below(image.objects.size())];
  }
}

/// Changes the layout in ways that the format allows, without a change of the content.
void vary_layout(ProfileImage& image, Draws& draws) {
  for (ObjectHeader& o : image.objects) {
    if (draws.one_in(4)) o.continued_from = draws.below(o.messages.size() + 1);
    if (draws.one_in(4)) o.phase_change = true;
    o.gap = draws.one_in(4) ? static_cast<int>(draws.below(4)) : 0;
    std::size_t bytes = 64;
    for (const Message& m : o.messages) bytes += 4 + m.body.size();
    o.size_width = bytes > 255 || draws.one_in(2) ? (draws.one_in(3) ? 4 : 2) : 1;
  }
}

std::string make(Draws& draws) {
  ProfileImage image = Composer(draws).compose();
  const bool structured = draws.one_in(2);
  if (structured)
    for (std::size_t n = draws.one_in(8) ? 0 : 1 + draws.below(3); n > 0; --n) corrupt(image, draws);
  vary_layout(image, draws);
  ProfileImage::Laid laid = image.lay_out();
  if (structured) {
    if (!draws.one_in(50)) return laid.bytes;
    // An unknown version or size of the user block.
    laid.bytes.replace(draws.one_in(2) ? io::layout::kVersionAt : io::layout::kBlockSizeAt, 4, le(draws.edge(), 4));
    seal(laid.bytes);
    return laid.bytes;
  }
  switch (draws.below(4)) {
    case 0: return mutate(laid.bytes, draws);
    case 1: laid.bytes = mutate(laid.bytes, draws); break;
    default: {  // changes one checksummed block, and keeps its length
      const ProfileImage::Block block = draws.pick(laid.blocks);
      std::string part = mutate(laid.bytes.substr(block.begin, block.size), draws);
      part.resize(block.size);
      laid.bytes.replace(block.begin, block.size, part);
    }
  }
  repair(laid);
  return laid.bytes;
}

bool same_bytes(const void* a, const void* b, std::size_t count) { return count == 0 || std::memcmp(a, b, count) == 0; }

/// Compares bits, so that a NaN equals itself.
bool same(const StateDict::Value& a, const StateDict::Value& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&]<class T>(const T& x) {
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, Tensor>)
          return x.dtype() == y.dtype() && x.shape() == y.shape() && same_bytes(x.raw(), y.raw(), x.bytes());
        else if constexpr (std::is_arithmetic_v<T>)
          return same_bytes(&x, &y, sizeof x);
        else
          return x.size() == y.size() && same_bytes(x.data(), y.data(), x.size() * sizeof(x[0]));
      },
      a);
}

void check_same(const StateDict& a, const StateDict& b) {
  if (a.values().size() != b.values().size())
    throw WrongResult("written and read again, the state has another number of entries");
  for (const auto& [name, value] : a.values())
    if (!b.contains(name) || !same(value, b.values().at(name)))
      throw WrongResult("written and read again, an entry differs: " + name);
}

Answer read(const std::string& input) {
  const Bytes image = std::as_bytes(std::span(input));
  const io::DecodedCheckpoint decoded = io::decode_checkpoint(image);
  // Writing takes about a thousand times as long as reading, so only one in a hundred is written back.
  if (Draws(input.size(), static_cast<unsigned char>(input.back())).one_in(100)) {
    const io::CheckpointImage again = io::encode_checkpoint(decoded.state, decoded.info.state_hash);
    check_same(decoded.state, io::decode_checkpoint(again.bytes()).state);
  }
  return Answer::kAccepted;
}

}  // namespace

Target checkpoint_target() {
  return {"checkpoint", "decode_checkpoint: validator and decoder; half with hostile structure behind right checksums",
          make, read, is_one_of<NoCheckpointError, CheckpointError>};
}

}  // namespace binade::fuzz
