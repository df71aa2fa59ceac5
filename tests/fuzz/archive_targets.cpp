// Zip archives: files of torch.save() and .npz.
#include <cstring>
#include <span>

#include "binade/core/error.h"
#include "binade/io/data/npy.h"
#include "binade/io/data/npz.h"
#include "binade/io/exchange/pytorch_file.h"
#include "binade/io/files/zip.h"
#include "tests/fuzz/profile_image.h"
#include "tests/fuzz/target.h"

namespace binade::fuzz {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string unicode(const std::string& text) { return "X" + le(text.size(), 4) + text; }

/// A number as a pickle writes it; one in `wrong_one_in` is another.
std::string number(Draws& draws, std::uint64_t value, std::size_t wrong_one_in) {
  if (draws.one_in(wrong_one_in)) value = draws.edge();
  if (value < 256) return "K" + le(value, 1);
  return "\x8a\x08" + le(value, 8);
}

/// A pickle of a dictionary of tensors, in the form of torch.save().
std::string pickle(Draws& draws, std::uint64_t elements, std::size_t wrong_one_in) {
  static const std::vector<std::string> kStorages{"FloatStorage", "LongStorage", "HalfStorage", "BoolStorage",
                                                  "QInt8Storage"};
  static const std::vector<std::string> kGlobals{"cos\nsystem\n", "cbuiltins\neval\n", "ctorch\nSize\n",
                                                 "ctorch._utils\n_rebuild_parameter\n", "ccollections\nOrderedDict\n"};
  std::string text = "\x80\x02}q\x01(";
  for (std::size_t n = draws.below(4), i = 0; i < n; ++i) {
    text += unicode("w" + std::to_string(i));
    text += draws.one_in(wrong_one_in) ? draws.pick(kGlobals) : "ctorch._utils\n_rebuild_tensor_v2\n";
    const std::string kind = draws.one_in(wrong_one_in) ? draws.pick(kStorages) : "FloatStorage";
    text += "((" + unicode("storage") + "ctorch\n" + kind + "\n" + unicode(std::to_string(draws.below(2))) +
            unicode("cpu") + number(draws, elements, wrong_one_in) + "tQ";
    const std::uint64_t rows = draws.below(3), columns = draws.below(3);
    text += number(draws, draws.below(3), wrong_one_in) + "(" + number(draws, rows, wrong_one_in) +
            number(draws, columns, wrong_one_in) + "t(" + number(draws, columns, wrong_one_in) +
            number(draws, 1, wrong_one_in) + "t\x89}tR";
  }
  return text + "u.";
}

std::string make_pytorch(Draws& draws) {
  static const std::vector<std::string> kWords{"(", "t", "u", "R", "Q", "b", "}", "]", "0", "1", "h\x01", "q\x01", "."};
  const std::uint64_t elements = 4 + draws.below(8);
  std::string content = pickle(draws, elements, draws.one_in(2) ? 12 : ~std::size_t{0});
  if (draws.one_in(3)) content = mutate_text(content, draws, kWords);
  if (draws.one_in(6)) content = mutate(content, draws);
  const std::string data(4 * elements, '\1');
  const std::string file = text_of(
      io::encode_zip({{"a/data.pkl", bytes_of(content)}, {"a/data/0", bytes_of(data)}, {"a/data/1", bytes_of(data)}},
                     draws.one_in(3)));
  return draws.one_in(3) ? mutate(file, draws) : file;
}

Answer read_pytorch(const std::string& input) {
  for (const auto& [name, tensor] : io::decode_pytorch(std::as_bytes(std::span(input)), "a.pt"))
    if (tensor.numel() > 12) throw WrongResult(name + " has more elements than its storage");
  return Answer::kAccepted;
}

std::string make_npz(Draws& draws) {
  std::vector<std::pair<std::string, std::vector<std::byte>>> members;
  for (std::size_t n = draws.below(4), i = 0; i < n; ++i) {
    const Tensor tensor = Tensor::full({static_cast<std::int64_t>(draws.below(4)), 3}, 1,
                                       draws.one_in(2) ? DType::f32 : DType::u8);
    std::string array = text_of(io::encode_npy(tensor));
    if (draws.one_in(4)) array = mutate(array, draws);
    members.emplace_back("m" + std::to_string(i) + (draws.one_in(12) ? "" : ".npy"), bytes_of(array));
  }
  const std::string file = text_of(io::encode_zip(members, draws.one_in(2)));
  return draws.one_in(2) ? mutate(file, draws) : file;
}

Answer read_npz(const std::string& input) {
  const io::NpzArrays arrays = io::decode_npz(std::as_bytes(std::span(input)), "a.npz");
  const io::NpzArrays again = io::decode_npz(io::encode_npz(arrays), "a.npz");
  if (again.size() != arrays.size()) throw WrongResult("names changed on the way");
  for (const auto& [name, t] : arrays) {
    const Tensor& other = again.at(name);
    if (other.dtype() != t.dtype() || !(other.shape() == t.shape()) ||
        (t.bytes() > 0 && std::memcmp(other.raw(), t.raw(), t.bytes()) != 0))
      throw WrongResult("array " + name + " changed on the way");
  }
  return Answer::kAccepted;
}

}  // namespace

Target pytorch_target() {
  return {"pytorch", "decode_pytorch; hostile pickles in whole archives, and changed archives", make_pytorch,
          read_pytorch, is_one_of<DataError>};
}
Target npz_target() {
  return {"npz", "decode_npz; changed members in whole archives, and changed archives", make_npz, read_npz,
          is_one_of<DataError>};
}

}  // namespace binade::fuzz
