#include <cstring>
#include <span>

#include "binade/core/error.h"
#include "binade/io/exchange/safetensors.h"
#include "tests/fuzz/profile_image.h"
#include "tests/fuzz/target.h"

namespace binade::fuzz {
namespace {

struct Kind {
  const char* name;
  std::uint64_t size;
};
constexpr Kind kKinds[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2},
                           {"I64", 8}, {"I32", 4}, {"U8", 1},  {"BOOL", 1}};

const std::vector<std::string>& names() {
  static const std::vector<std::string> all{"",           "w0",           "../w",          "\\u0000",
                                            "\\u001b[2J", "__metadata__", "\\ud83d\\ude00"};
  return all;
}

/// A file of contiguous tensors: length, header, data. One in `wrong_one_in` fields has a wrong value.
std::string file(Draws& draws, std::size_t wrong_one_in) {
  const auto number = [&](std::uint64_t true_one) {
    return draws.one_in(wrong_one_in) ? (draws.one_in(2) ? draws.edge() : true_one + draws.below(3) - 1) : true_one;
  };
  std::string header = draws.one_in(3) ? R"({"__metadata__":{"format":"pt"})" : "{";
  std::string data;
  for (std::size_t n = draws.below(4), i = 0; i < n; ++i) {
    const Kind& kind = draws.pick(kKinds);
    std::string shape;
    std::uint64_t count = 1;
    for (std::size_t rank = draws.below(4); rank > 0; --rank) {
      const std::uint64_t d = draws.below(4);
      count *= d;
      shape += (shape.empty() ? "" : ",") + std::to_string(number(d));
    }
    const std::uint64_t begin = data.size();
    for (std::uint64_t b = 0; b < count * kind.size; ++b) data += static_cast<char>(draws.below(2));
    const std::string name = draws.one_in(wrong_one_in) ? draws.pick(names()) : "w" + std::to_string(i);
    const std::string type = draws.one_in(wrong_one_in) ? draws.pick(kKinds).name : kind.name;
    header += std::string(header.size() > 1 ? "," : "") + "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":[" +
              shape + "],\"data_offsets\":[" + std::to_string(number(begin)) + "," +
              std::to_string(number(data.size())) + "]}";
  }
  header += "}" + std::string(draws.below(8), ' ');
  return le(header.size(), 8) + header + data;
}

const std::vector<std::string>& words() {
  static const std::vector<std::string> all{"{}",
                                            "[]",
                                            ":",
                                            ",",
                                            "\"dtype\":\"F32\"",
                                            "\"shape\":[",
                                            "\"data_offsets\":[0,4]",
                                            "\"F32\"",
                                            "\"I16\"",
                                            "\"__metadata__\":{\"a\":\"b\"},",
                                            "null",
                                            "true",
                                            "-1",
                                            "1.5",
                                            "\"\\u0000\"",
                                            "\"w0\":",
                                            "\"\xff\"",
                                            "0,0,0,0,0,0,0,0,0",
                                            "18446744073709551615",
                                            "281474976710656,65536"};
  return all;
}

std::string make(Draws& draws) {
  if (draws.one_in(2)) return file(draws, 12);
  const std::string whole = file(draws, ~std::size_t{0});
  if (draws.one_in(2)) return mutate(whole, draws);
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  std::string header = mutate_text(whole.substr(8, length), draws, words());
  const std::string data = draws.one_in(4) ? mutate(whole.substr(8 + length), draws) : whole.substr(8 + length);
  return le(header.size(), 8) + header + data;
}

Answer read(const std::string& input) {
  const io::Safetensors content = io::decode_safetensors(std::as_bytes(std::span(input)));
  const io::Safetensors again = io::decode_safetensors(io::encode_safetensors(content));
  if (again.metadata != content.metadata || again.tensors.size() != content.tensors.size())
    throw WrongResult("metadata or names changed on the way");
  for (const auto& [name, t] : content.tensors) {
    const Tensor& other = again.tensors.at(name);
    const bool same = other.dtype() == t.dtype() && other.shape() == t.shape() &&
                      (t.bytes() == 0 || std::memcmp(other.raw(), t.raw(), t.bytes()) == 0);
    if (!same) throw WrongResult("tensor " + name + " changed on the way");
  }
  return Answer::kAccepted;
}

}  // namespace

Target safetensors_target() {
  return {"safetensors", "decode_safetensors; half with hostile headers of right length", make, read,
          is_one_of<DataError>};
}

}  // namespace binade::fuzz
