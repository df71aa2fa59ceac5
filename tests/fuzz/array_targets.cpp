// Arrays and images: .npy, IDX, PNG, token files.
#include <zlib.h>

#include <span>

#include "binade/core/error.h"
#include "binade/io/data/idx.h"
#include "binade/io/data/npy.h"
#include "binade/io/data/png.h"
#include "binade/io/data/text_data.h"
#include "tests/fuzz/profile_image.h"
#include "tests/fuzz/target.h"
#include "tests/io/png_bytes.h"

namespace binade::fuzz {
namespace {

// ---- .npy

std::string npy_file(int version, std::string header, const std::string& data) {
  header += '\n';
  return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' + le(header.size(), version == 1 ? 2 : 4) +
         header + data;
}

std::string make_npy(Draws& draws) {
  static const std::vector<std::string> kTypes{"<f4", "<f2", "<f8", "<i4", "<i8", "|u1", "|i1", "<i2", "<u2", "|b1"};
  static const std::vector<std::string> kWords{">f4",
                                               "|O",
                                               "<c8",
                                               "<U3",
                                               "<M8[us]",
                                               "|V8",
                                               "[('a', '<i4')]",
                                               "True",
                                               "False",
                                               "(",
                                               ")",
                                               ",",
                                               "'",
                                               "\"",
                                               "3,",
                                               "-1",
                                               "'shape'",
                                               "'descr': '<f4', ",
                                               "'fortran_order': True, ",
                                               "{",
                                               "}",
                                               "\x93",
                                               "0x10",
                                               "3L",
                                               "=f4",
                                               "<u4",
                                               "__import__('os')"};
  const std::string& type = draws.pick(kTypes);
  std::uint64_t bytes = static_cast<std::uint64_t>(type[2] - '0');
  std::string shape;
  const std::size_t rank = draws.below(4);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint64_t d = draws.below(5);
    bytes *= d;
    shape += std::to_string(d) + (i + 1 < rank ? ", " : rank == 1 ? "," : "");
  }
  std::string header = "{'descr': '" + type + "', 'fortran_order': " + (draws.one_in(8) ? "True" : "False") +
                       ", 'shape': (" + shape + "), }";
  std::string data(bytes, '\0');
  for (char& b : data) b = static_cast<char>(type == "|b1" ? draws.below(2) : draws.word());
  const int version = draws.one_in(10) ? static_cast<int>(draws.below(5)) : 1 + static_cast<int>(draws.below(3));
  if (draws.one_in(10)) return npy_file(version, header, data);
  if (draws.one_in(2)) return mutate(npy_file(version, header, data), draws);
  return npy_file(version, mutate_text(header, draws, kWords), data);
}

Answer read_npy(const std::string& input) {
  const io::NpyArray array = io::decode_npy(std::as_bytes(std::span(input)), "a.npy");
  if (array.type.size() != 2) throw WrongResult("a type of another name");
  return Answer::kAccepted;
}

// ---- IDX

std::string gzipped(const std::string& bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string big_endian(std::uint64_t value) { return io::PngBytes::big_endian(static_cast<std::uint32_t>(value)); }

std::string make_idx(Draws& draws) {
  constexpr int kTypes[] = {8, 9, 11, 12, 13, 14};
  constexpr std::size_t kSizes[] = {1, 1, 2, 4, 4, 8};
  const std::size_t type = draws.below(6), rank = draws.one_in(10) ? draws.below(12) : 1 + draws.below(3);
  std::string file = std::string("\0\0", 2) + static_cast<char>(kTypes[type]) + static_cast<char>(rank);
  std::size_t count = 1;
  const bool hostile = draws.one_in(4);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint64_t d = hostile && draws.one_in(3) ? draws.edge() : draws.below(5);
    count *= d;
    file += big_endian(d);
  }
  file += std::string(count < 1000 ? count * kSizes[type] : 16, '\3');
  if (!draws.one_in(6)) file = mutate(file, draws);
  if (draws.one_in(20)) {  // compressing is slow
    file = gzipped(file);
    if (draws.one_in(2)) file = mutate(file, draws);
  }
  return file;
}

Answer read_idx(const std::string& input) {
  io::decode_idx(input, "a.idx");
  return Answer::kAccepted;
}

// ---- PNG

std::string make_png(Draws& draws) {
  constexpr int kDepths[] = {1, 2, 4, 8, 16};
  constexpr int kColors[] = {0, 2, 3, 4, 6};
  io::PngBytes png{.width = static_cast<std::uint32_t>(1 + draws.below(9)),
                   .height = static_cast<std::uint32_t>(1 + draws.below(9)),
                   .depth = draws.pick(kDepths),
                   .color = draws.pick(kColors),
                   .interlace = static_cast<int>(draws.below(2))};
  if (draws.one_in(20)) png.width = static_cast<std::uint32_t>(draws.edge());
  if (draws.one_in(20)) png.height = static_cast<std::uint32_t>(draws.edge());
  png.rows.resize(draws.one_in(3) ? draws.below(400)
                                  : (1 + static_cast<std::size_t>(png.width % 64) * 8) * (png.height % 64));
  for (char& byte : png.rows) byte = static_cast<char>(draws.below(draws.one_in(4) ? 256 : 5));
  png.palette.resize(png.color == 3 || draws.one_in(8) ? 3 * draws.below(260) : 0);
  png.transparency.resize(draws.one_in(4) ? draws.below(260) : 0);
  std::string file = png.file();
  if (draws.one_in(4)) {  // chunks with a right checksum, of types that libpng knows or not
    static const std::vector<std::string> kChunks{"gAMA", "sRGB", "iCCP", "tEXt", "zTXt", "iTXt",
                                                  "tIME", "bKGD", "sBIT", "hIST", "PLTE", "IHDR",
                                                  "IDAT", "abcd", "ABCD", "eXIf", "sPLT"};
    std::string content(draws.below(60), '\0');
    for (char& byte : content) byte = static_cast<char>(draws.word());
    file.insert(33, io::PngBytes::chunk(draws.pick(kChunks), content));
  }
  return draws.one_in(2) ? mutate(file, draws) : file;
}

Answer read_png(const std::string& input) {
  const bool as_index = input.size() % 2 == 0;
  const io::Image image = io::decode_png(input, "a.png", {.palette_as_index = as_index});
  if (image.values.size() != static_cast<std::size_t>(image.width * image.height * image.channels))
    throw WrongResult("another number of values than its extents say");
  for (const std::uint16_t v : image.values)
    if (v > image.max_value()) throw WrongResult("a value beyond the depth");
  return Answer::kAccepted;
}

// ---- token files

constexpr std::int64_t kVocabulary = 300;

std::string make_tokens(Draws& draws) {
  std::string tokens;
  for (std::size_t n = draws.below(40); n > 0; --n) tokens += le(draws.below(draws.one_in(30) ? 400 : 300), 2);
  if (draws.one_in(2)) {
    const std::uint64_t count = draws.one_in(4) ? draws.edge() : tokens.size() / 2;
    const std::string head = le(20240520, 4) + le(draws.one_in(6) ? draws.edge() : 1, 4) + le(count, 4);
    tokens = head + std::string(1024 - head.size(), '\0') + tokens;
  }
  return draws.one_in(3) ? tokens : mutate(tokens, draws);
}

Answer read_tokens(const std::string& input) {
  const io::TokenSequence tokens = io::decode_token_file(input, "a.bin", kVocabulary);
  for (std::int64_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= kVocabulary) throw WrongResult("a token outside of the vocabulary");
  return Answer::kAccepted;
}

}  // namespace

Target npy_target() {
  return {"npy", "decode_npy; a third with hostile headers of right length", make_npy, read_npy, is_one_of<DataError>};
}
Target idx_target() {
  return {"idx", "decode_idx, plain and gzipped; extents that promise too much", make_idx, read_idx,
          is_one_of<DataError>};
}
Target png_target() {
  return {"png", "decode_png; half with right checksums around hostile content", make_png, read_png,
          is_one_of<DataError>};
}
Target token_target() {
  return {"tokens", "decode_token_file: nanoGPT's and llm.c's token files", make_tokens, read_tokens,
          is_one_of<DataError>};
}

}  // namespace binade::fuzz
