#include "examples/transformer/text_source.h"

#include "binade/core/error.h"
#include "binade/core/sha256.h"
#include "binade/io/files/read_file.h"

namespace binade::examples {
namespace {

bool is_token_file(const std::string& path) { return path.ends_with(".bin") || path.ends_with(".npy"); }

struct Tokens {
  io::TokenSequence tokens;
  std::string content;
};

Tokens read_tokens(const std::string& path, const io::Tokenizer& tokenizer, const io::Text* text) {
  if (is_token_file(path))
    return {io::read_token_file(path, tokenizer.vocabulary_size()), sha256_hex(io::read_file(path))};
  if (tokenizer.kind() == "char") io::check_utf8(*text);
  try {
    return {io::TokenSequence(tokenizer.encode(text->bytes), tokenizer.vocabulary_size()), text->content};
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", text->path, error.what()));
  }
}

}  // namespace

TextSource read_text_source(const TrainSettings& s, const std::string& tokenizer,
                            std::unique_ptr<io::Tokenizer> known) {
  TextSource source;
  io::Text text;
  if (!is_token_file(s.data)) text = s.data.empty() ? io::embedded_text() : io::read_text(s.data);
  if (!known && tokenizer == "char") io::check_utf8(text);
  source.tokenizer = known ? std::move(known) : io::make_tokenizer(tokenizer, text.bytes);
  const Tokens tokens = read_tokens(s.data, *source.tokenizer, &text);
  source.content = tokens.content;
  if (s.val_data.empty()) {
    source.split = io::split_text(tokens.tokens, s.val_fraction);
    return source;
  }
  io::Text held_out;
  if (!is_token_file(s.val_data)) held_out = io::read_text(s.val_data);
  const Tokens validation = read_tokens(s.val_data, *source.tokenizer, &held_out);
  source.split = {tokens.tokens, validation.tokens};
  source.content = sha256_hex(tokens.content + validation.content);
  return source;
}

}  // namespace binade::examples
