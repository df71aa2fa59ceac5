#include "binade/io/data/text_data.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "binade/core/error.h"
#include "binade/core/program_flags.h"
#include "binade/core/sha256.h"
#include "binade/io/data/npy.h"
#include "binade/io/files/read_file.h"
#include "binade/io/text/utf8.h"

namespace binade::io {
namespace {

constexpr std::string_view kEmbeddedFolder = "/usr/share/common-licenses";

void check_is_text(const std::string& bytes, const std::string& path) {
  check<DataError>(!bytes.empty(), "{}: the text is empty", path);
  const std::size_t nul = bytes.find('\0');
  check<DataError>(nul == std::string::npos, "{}: wanted text, got a binary file (a NUL byte at offset {})", path, nul);
  const std::size_t probed = std::min<std::size_t>(bytes.size(), 1 << 16);
  const auto controls = std::count_if(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(probed), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 0x7F || (byte < 0x20 && (byte < 0x07 || byte > 0x0D) && byte != 0x1B);
  });
  check<DataError>(static_cast<std::size_t>(controls) * 10 <= probed * 3,
                   "{}: wanted text, got a binary file ({} of its first {} bytes are control characters)", path,
                   controls, probed);
}

Text read_folder(const std::string& folder) {
  Text text;
  text.path = folder;
  Sha256 hash;
  for (const std::string& name : list_files(folder)) {
    const std::string path = (std::filesystem::path(folder) / name).string();
    const std::string bytes = read_file(path);
    check_is_text(bytes, path);
    const std::string entry = fmt::format("{} {}\n", name, bytes.size());
    hash.update(entry.data(), entry.size());
    hash.update(bytes.data(), bytes.size());
    text.files.push_back({name, text.bytes.size()});
    text.bytes += bytes;
  }
  check<DataError>(!text.files.empty(), "{}: wanted text files in the folder, got none", folder);
  text.content = to_hex(hash.digest());
  return text;
}

TokenSequence tokens_of_array(const std::string& bytes, const std::string& name, std::int64_t vocabulary) {
  const Tensor values = decode_npy(std::as_bytes(std::span(bytes)), name).values;
  check<DataError>(values.rank() == 1 && values.numel() > 0 && !is_floating(values.dtype()),
                   "{}: wanted tokens as whole numbers in one dimension, got {} {}", name, name_of(values.dtype()),
                   values.shape());
  const std::vector<std::int64_t> wide = values.to_vector<std::int64_t>();
  std::vector<std::int32_t> tokens(wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    check<DataError>(wide[i] >= 0 && wide[i] < vocabulary, "{}: token {} at index {} is outside the vocabulary of {}",
                     name, wide[i], i, vocabulary);
    tokens[i] = static_cast<std::int32_t>(wide[i]);
  }
  return TokenSequence(tokens, vocabulary);
}

TextBatch windows_at(const TokenSequence& text, const std::vector<std::int64_t>& offsets, std::int64_t context) {
  const auto rows = static_cast<std::int64_t>(offsets.size());
  TextBatch batch;
  batch.tokens = Tensor::empty({rows, context}, DType::i32);
  batch.targets = Tensor::empty({rows, context}, DType::i32);
  auto* tokens = batch.tokens.mutable_data<std::int32_t>();
  auto* targets = batch.targets.mutable_data<std::int32_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t t = 0; t < context; ++t) {
      const std::int64_t at = offsets[static_cast<std::size_t>(row)] + t;
      const bool has_next = at + 1 < text.size();
      tokens[row * context + t] = has_next ? text[at] : 0;
      targets[row * context + t] = has_next ? text[at + 1] : kIgnoredTarget;
    }
  }
  return batch;
}

/// Returns a function that makes batches of windows at multiples of `context`.
auto disjoint_windows(const TokenSequence& text, std::int64_t context) {
  return [text, context](const BatchOrigin& origin) {
    std::vector<std::int64_t> offsets = origin.samples;
    for (std::int64_t& offset : offsets) offset *= context;
    return windows_at(text, offsets, context);
  };
}

std::string content_of(const TokenSequence& text) {
  Sha256 hash;
  std::vector<std::int32_t> chunk;
  for (std::int64_t begin = 0; begin < text.size(); begin += 1 << 16) {
    chunk.clear();
    for (std::int64_t i = begin; i < std::min<std::int64_t>(text.size(), begin + (1 << 16)); ++i)
      chunk.push_back(text[i]);
    hash.update(chunk.data(), chunk.size() * sizeof(chunk[0]));
  }
  return to_hex(hash.digest());
}

void check_context(std::int64_t context) {
  check<ArgumentError>(context >= 1, "text loader: wanted a context of at least 1, got {}", context);
}

}  // namespace

Text read_text(const std::string& path) {
  std::error_code error;
  check<DataError>(std::filesystem::exists(path, error), "{}: there is no such file or folder", path);
  if (std::filesystem::is_directory(path, error)) return read_folder(path);
  Text text;
  text.path = path;
  text.bytes = read_file(path);
  check_is_text(text.bytes, path);
  text.files.push_back({std::filesystem::path(path).filename().string(), 0});
  text.content = to_hex(sha256(std::as_bytes(std::span(text.bytes.data(), text.bytes.size()))));
  return text;
}

void check_utf8(const Text& text) {
  const std::size_t bad = find_bad_utf8(text.bytes);
  if (bad == std::string_view::npos) return;
  const auto after = std::ranges::upper_bound(text.files, bad, {}, &Text::File::begin);
  const Text::File& file = *std::prev(after);
  const std::filesystem::path path(text.path);
  throw DataError(fmt::format("{}: wanted UTF-8, got byte 0x{:02x} at offset {}; convert the text or use {}",
                              path.filename() == file.name ? text.path : (path / file.name).string(),
                              static_cast<unsigned char>(text.bytes[bad]), bad - file.begin,
                              flag_or("tokenizer", "byte", "io::make_byte_tokenizer()")));
}

Text embedded_text() {
  std::error_code error;
  const std::string folder(kEmbeddedFolder);
  check<DataError>(std::filesystem::is_directory(folder, error),
                   "{}: the default text is not on this system; give a text with {}", folder,
                   flag_or("data", "PATH", "io::read_text()"));
  return read_folder(folder);
}

TokenSequence::TokenSequence(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary)
    : count_(static_cast<std::int64_t>(tokens.size())), vocabulary_(vocabulary) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    check<DataError>(tokens[i] >= 0 && tokens[i] < vocabulary, "tokens: wanted 0 to {}, got {} at index {}",
                     vocabulary - 1, tokens[i], i);
  if (vocabulary <= 65536)
    narrow_ = std::make_shared<const std::vector<std::uint16_t>>(tokens.begin(), tokens.end());
  else
    wide_ = std::make_shared<const std::vector<std::int32_t>>(tokens);
}

std::int32_t TokenSequence::operator[](std::int64_t i) const {
  const auto at = static_cast<std::size_t>(begin_ + i);
  return narrow_ ? (*narrow_)[at] : (*wide_)[at];
}

TokenSequence TokenSequence::part(std::int64_t begin, std::int64_t count) const {
  check<ArgumentError>(begin >= 0 && count >= 0 && begin <= count_ - count,
                       "tokens: wanted a part of 0 … {}, got {} tokens from {}", count_, count, begin);
  TokenSequence result = *this;
  result.begin_ += begin;
  result.count_ = count;
  return result;
}

TokenSequence decode_token_file(const std::string& bytes, const std::string& name, std::int64_t vocabulary) {
  constexpr std::size_t kHeader = 1024;
  constexpr std::uint32_t kMagic = 20240520;
  check<DataError>(!bytes.empty(), "{}: the token file is empty", name);
  if (is_npy(bytes)) return tokens_of_array(bytes, name, vocabulary);
  const auto word = [&](std::size_t i) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    return value;
  };
  std::size_t begin = 0;
  if (bytes.size() >= kHeader && word(0) == kMagic) {
    check<DataError>(word(1) == 1, "{}: wanted an llm.c token file of version 1 (GPT-2, uint16), got version {}", name,
                     word(1));
    check<DataError>(bytes.size() == kHeader + 2 * std::size_t{word(2)},
                     "{}: its header declares {} tokens, the file has space for {}; it is truncated or damaged", name,
                     word(2), (bytes.size() - kHeader) / 2);
    begin = kHeader;
  }
  check<DataError>((bytes.size() - begin) % 2 == 0, "{}: wanted uint16 tokens, got an odd number of bytes ({})", name,
                   bytes.size());
  auto tokens = std::make_shared<std::vector<std::uint16_t>>((bytes.size() - begin) / 2);
  check<DataError>(!tokens->empty(), "{}: the token file holds no token", name);
  std::memcpy(tokens->data(), bytes.data() + begin, 2 * tokens->size());
  for (std::size_t i = 0; i < tokens->size(); ++i)
    check<DataError>((*tokens)[i] < vocabulary, "{}: token {} at index {} is outside the vocabulary of {}", name,
                     (*tokens)[i], i, vocabulary);
  TokenSequence result;
  result.count_ = static_cast<std::int64_t>(tokens->size());
  result.vocabulary_ = vocabulary;
  result.narrow_ = std::move(tokens);
  return result;
}

TokenSequence read_token_file(const std::string& path, std::int64_t vocabulary) {
  return decode_token_file(read_file(path), path, vocabulary);
}

TextSplit split_text(const TokenSequence& tokens, double fraction) {
  const std::int64_t held_out = held_out_count(tokens.size(), fraction);
  const std::int64_t train = tokens.size() - held_out;
  check<DataError>(train >= 1, "split: a text of {} tokens leaves nothing to train on after holding out {}",
                   tokens.size(), held_out);
  return {tokens.part(0, train), tokens.part(train, held_out)};
}

TextBatch TextBatch::without(std::span<const std::int64_t> rows) const {
  return {without_rows(tokens, rows), without_rows(targets, rows), origin.without(rows)};
}

StateDict TextBatch::state() const {
  StateDict state = origin.state();
  state.put("tokens", tokens);
  state.put("targets", targets);
  return state;
}

TextBatch TextBatch::from_state(const StateDict& state) {
  const Tensor &tokens = state.tensor("tokens"), &targets = state.tensor("targets");
  BatchOrigin origin = BatchOrigin::from_state(state);
  check<CheckpointError>(tokens.rank() == 2 && tokens.dtype() == DType::i32 && targets.dtype() == DType::i32 &&
                             tokens.shape() == targets.shape() &&
                             (origin.samples.empty() || std::ssize(origin.samples) == tokens.dim(0)),
                         "batch: wanted tokens and targets (B, T) of i32 and B samples, got {} {}, {} {} and {}",
                         name_of(tokens.dtype()), tokens.shape(), name_of(targets.dtype()), targets.shape(),
                         origin.samples.size());
  return {tokens, targets, std::move(origin)};
}

Loader<TextBatch> training_batches(const TokenSequence& text, const TextLoaderOptions& options) {
  check_context(options.context);
  check<DataError>(
      text.size() > options.context,
      "text loader: wanted at least context + 1 = {} tokens to train on, got {}; give more text or a smaller {}",
      options.context + 1, text.size(), flag_or("context", "", "TextLoaderOptions::context"));
  const std::int64_t windows = (text.size() - 1) / options.context;
  LoaderOptions loader{
      .batch = options.batch, .seed = options.seed, .content = content_of(text), .prefetch = options.prefetch};
  const std::int64_t context = options.context;
  if (options.shuffled_windows) {
    loader.samples = windows;
    return {loader, disjoint_windows(text, context)};
  }
  loader.order = SampleOrder::kRandomOffset;
  loader.samples = text.size() - context;
  loader.epoch = windows;
  loader.width = context + 1;
  return {loader, [text, context](const BatchOrigin& origin) { return windows_at(text, origin.samples, context); }};
}

Loader<TextBatch> evaluation_batches(const TokenSequence& text, const TextLoaderOptions& options) {
  check_context(options.context);
  check<DataError>(text.size() >= 2, "text loader: wanted at least 2 tokens to evaluate on, got {}; hold out more",
                   text.size());
  const std::int64_t context = options.context;
  LoaderOptions loader{.batch = options.batch,
                       .order = SampleOrder::kSequential,
                       .samples = (text.size() - 2) / context + 1,
                       .prefetch = options.prefetch};
  return {loader, disjoint_windows(text, context)};
}

}  // namespace binade::io
