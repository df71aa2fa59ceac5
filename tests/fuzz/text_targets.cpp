// Readers of texts: data, vocabularies, manifests, settings, the logs of a run.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "binade/core/crc32c.h"
#include "binade/core/error.h"
#include "binade/doctor/report/run_history.h"
#include "binade/io/checkpoint/manifest.h"
#include "binade/io/data/text_data.h"
#include "binade/io/files/file_ops.h"
#include "binade/io/text/bpe_vocabulary.h"
#include "binade/io/text/pretokenize.h"
#include "binade/io/text/tokenizer.h"
#include "examples/common/settings.h"
#include "tests/fuzz/target.h"

namespace binade::fuzz {
namespace {

// ---- any bytes as text

std::string make_text(Draws& draws) {
  static const std::vector<std::string> kPieces{"'s",
                                                "'ll",
                                                " ",
                                                "  ",
                                                "\n",
                                                "\t",
                                                "word",
                                                "Stra\xc3\x9f"
                                                "e",
                                                "1984",
                                                "\xe4\xb8\xad",
                                                "\xf0\x9f\x98\x80",
                                                "\xff",
                                                "\xc2",
                                                "\xed\xa0\x80",
                                                "!?",
                                                "\xe2\x80\x83",
                                                "\x1b[0m",
                                                "\xcc\x81"};
  std::string text;
  for (std::size_t n = draws.below(30); n > 0; --n) {
    if (draws.one_in(4))
      text += static_cast<char>(draws.word());
    else
      text += draws.pick(kPieces);
  }
  return text;
}

Answer read_text(const std::string& input) {
  std::string again;
  for (const std::string_view piece : io::pretokenize_gpt2(input)) again += piece;
  if (again != input) throw WrongResult("the pieces are not the text");
  const auto bytes = io::make_byte_tokenizer();
  if (bytes->decode(bytes->encode(input)) != input) throw WrongResult("bytes to tokens and back is another text");
  io::Text text;
  text.path = "a.txt";
  text.bytes = input;
  text.files = {{"a.txt", 0}};
  io::check_utf8(text);
  const auto characters = io::make_char_tokenizer(input);
  if (characters->decode(characters->encode(input)) != input)
    throw WrongResult("characters to tokens and back is another text");
  return Answer::kAccepted;
}

// ---- BPE vocabularies

const std::vector<std::string>& bpe_words() {
  static const std::vector<std::string> all{"\"\":0,",
                                            "\"a\":1,",
                                            "\"ab\":9,",
                                            "\"\xc4\xa0\":7,",
                                            "[\"a\",\"b\"],",
                                            "\"a b\",",
                                            "\"a  b\",",
                                            "null",
                                            "true",
                                            "{}",
                                            "[]",
                                            "-1",
                                            "1e9",
                                            "16777216",
                                            "\"type\":\"BPE\",",
                                            "\"type\":\"WordPiece\",",
                                            "\"ignore_merges\":true,",
                                            "\"dropout\":0.5,",
                                            "\"byte_fallback\":true,",
                                            "\"content\":\"\",",
                                            "\"lstrip\":true,",
                                            "\"add_prefix_space\":true,",
                                            "\"use_regex\":false,",
                                            "\"normalizer\":{},",
                                            "\"\\ud800\"",
                                            "\"<|endoftext|>\":5,",
                                            "\\u0000"};
  return all;
}

/// A small BPE vocabulary in one of three forms: canonical, tokenizer.json, or vocab.json and merges.txt separated by a
/// NUL.
std::string make_bpe(Draws& draws) {
  std::string vocab, merges, merge_lines;
  int number = 0;
  const auto add = [&](const std::string& token) {
    vocab += (vocab.empty() ? "\"" : ",\"") + token + "\":" + std::to_string(number++);
  };
  for (const char* letter : {"a", "b", "c", "t", "e", "x", "\xc4\xa0", "'", "s"}) add(letter);
  std::vector<std::string> tokens{"a", "b", "t", "e"};
  for (std::size_t n = draws.below(5); n > 0; --n) {
    const std::string left = draws.pick(tokens), right = draws.pick(tokens);
    if (vocab.find("\"" + left + right + "\"") != std::string::npos) continue;
    add(left + right);
    tokens.push_back(left + right);
    merges += (merges.empty() ? "\"" : ",\"") + left + " " + right + "\"";
    merge_lines += left + " " + right + "\n";
  }
  const std::string end = std::to_string(number);
  std::string text;
  switch (draws.below(3)) {
    case 0:
      text = R"({"added":{"<|endoftext|>":)" + end + R"(},"merges":[)" + merges + R"(],"vocab":{)" + vocab + "}}";
      break;
    case 1:
      text =
          R"({"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"added_tokens":[{"id":)" +
          end + R"(,"content":"<|endoftext|>","lstrip":false}],"model":{"type":"BPE","dropout":null,"vocab":{)" +
          vocab + R"(},"merges":[)" + merges + "]}}";
      break;
    default:
      text = "{" + vocab + ",\"<|endoftext|>\":" + end + "}" + std::string(1, '\0') + "#version: 0.2\n" + merge_lines;
  }
  return draws.one_in(8) ? text : mutate_text(text, draws, bpe_words());
}

Answer read_bpe(const std::string& input) {
  const std::size_t cut = input.find('\0');
  std::string canonical = input;
  if (cut != std::string::npos)
    canonical = io::bpe_from_vocab_and_merges(input.substr(0, cut), input.substr(cut + 1), "vocab.json");
  else if (input.find("\"model\"") != std::string::npos)
    canonical = io::bpe_from_tokenizer_json(input, "tokenizer.json");
  const auto tokenizer = io::make_bpe_tokenizer(canonical);
  const std::string text = "a text<|endoftext|> that's abtet\xc3\xa9";
  std::vector<std::int32_t> tokens;
  try {
    tokens = tokenizer->encode(text);
  } catch (const DataError&) {
    return Answer::kAccepted;  // a valid vocabulary may lack a byte
  }
  if (tokenizer->decode(tokens) != text) throw WrongResult("text to tokens and back is another text");
  return Answer::kAccepted;
}

// ---- MANIFEST

/// `text` with the right checksum on every line.
std::string sealed(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at),
                      body = line.substr(0, line.size() < 9 ? line.size() : line.size() - 9);
    char crc[16];
    std::snprintf(crc, sizeof crc, " %08x\n", crc32c(body.data(), body.size()));
    out += body + crc;
    at = end + 1;
  }
  return out;
}

std::string make_manifest(Draws& draws) {
  static const std::vector<std::string> kWords{
      "good", "verified", "committed", "finite", "non-finite",        "-",         "nan",       "inf",  " ",
      "\n",   "ckpt-",    ".h5",       "../",    "binade-manifest 1", " entries ", " trouble ", "1e308"};
  io::Manifest manifest;
  manifest.last_trouble = static_cast<std::int64_t>(draws.below(100));
  std::int64_t step = 0;
  for (std::size_t n = draws.below(4); n > 0; --n) {
    step += static_cast<std::int64_t>(1 + draws.below(1000));
    io::ManifestEntry e{.step = step,
                        .file = io::checkpoint_file_name(step),
                        .bytes = draws.edge(),
                        .sha256 = std::string(64, 'a'),
                        .finite = draws.one_in(2)};
    e.status = static_cast<io::CheckpointStatus>(draws.below(3));
    if (draws.one_in(2)) e.score = io::Score{static_cast<double>(draws.below(1000)) / 7, draws.one_in(2)};
    manifest.entries.push_back(e);
  }
  const std::string text = io::to_text(manifest);
  if (draws.one_in(10)) return text;
  const std::string changed = draws.one_in(2) ? mutate(text, draws) : mutate_text(text, draws, kWords);
  return draws.one_in(2) ? changed : sealed(changed);
}

Answer read_manifest(const std::string& input) {
  const io::ManifestReading reading = io::manifest_from(input);
  const io::ManifestReading again = io::manifest_from(io::to_text(reading.manifest));
  if (!again.whole || again.manifest.entries.size() != reading.manifest.entries.size())
    throw WrongResult("written and read again, the list differs");
  for (std::size_t i = 0; i < again.manifest.entries.size(); ++i)
    if (again.manifest.entries[i].step != reading.manifest.entries[i].step ||
        again.manifest.entries[i].score != reading.manifest.entries[i].score)
      throw WrongResult("written and read again, an entry differs");
  return reading.whole ? Answer::kAccepted : Answer::kRefused;
}

// ---- settings: config.json

std::string make_settings(Draws& draws) {
  static const std::vector<std::string> kWords{"[]",         "[[]]",    "{}",
                                               "null",       "true",    "\"on\"",
                                               "\"steps\":", "\"lr\":", "\"words\":[\"a\"],",
                                               "1e999",      "-0",      "\"\\ud800\"",
                                               "\xff",       ",",       "\"precision\":\"fp17\","};
  std::string text =
      "{\"steps\": " + std::to_string(draws.below(1000)) +
      R"(, "lr": 0.001, "shuffle": true, "precision": "fp16", "words": ["a", "b"], "environment": {"cpu": "x"}})";
  return draws.one_in(10) ? text : mutate_text(text, draws, kWords);
}

Answer read_settings(const std::string& input) {
  std::int64_t steps = 1;
  double lr = 1;
  bool shuffle = false;
  std::string precision = "fp32";
  std::vector<std::string> words;
  examples::Settings table;
  table.add("steps", &steps, "", {.low = 0, .high = 1e6});
  table.add("lr", &lr, "", {.low = 0});
  table.add("shuffle", &shuffle, "");
  table.add("precision", &precision, "", {.choices = {"fp32", "fp16"}});
  table.add("words", &words, "");
  table.apply_json(input, "config.json");
  if (steps < 0 || steps > 1000000 || !(lr >= 0) || (precision != "fp32" && precision != "fp16"))
    throw WrongResult("a setting outside of its range");
  return Answer::kAccepted;
}

// ---- the logs of a run

const std::string& run_folder() {
  struct Folder {
    std::string path =
        (std::filesystem::temp_directory_path() / ("binade-fuzz-" + std::to_string(::getpid()))).string();
    Folder() { std::filesystem::create_directories(path + "/incidents/000000000005"); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

std::string make_journal(Draws& draws) {
  static const std::vector<std::string> kWords{
      "null",  "[]",          "{}",        "\"inf\"", "\"-inf\"",
      "1e999", "-1",          "\"step\":", "\n",      "\"headroom\":{\"a\":[1]}",
      "true",  "\"\\u0000\"", "\xff",      "[[1]]",   "9007199254740993"};
  std::string text;
  for (std::size_t n = 1 + draws.below(4), i = 1; i <= n; ++i)
    text +=
        "{\"step\":" + std::to_string(i) +
        R"(,"attempt":1,"committed":true,"loss":2.5,"ms":12,"time":"t","tokens_per_s":9,"headroom":{"m":[0.5,"inf"]},)" +
        R"("cause":{"class":"x","proof":[{"variant":"v","finite":true}]},"first_bad":{"index":[0,1],"operand_max":[1]}})" +
        "\n";
  return mutate_text(text, draws, kWords);
}

Answer read_journal(const std::string& input) {
  for (const char* name :
       {"metrics.jsonl", "timing.jsonl", "headroom.jsonl", "config.json", "incidents/000000000005/report.json"})
    std::ofstream(run_folder() + "/" + name, std::ios::binary) << input;
  return doctor::report::read_history(run_folder()).problems.empty() ? Answer::kAccepted : Answer::kRefused;
}

}  // namespace

Target text_target() {
  return {"text", "check_utf8, pre-tokenizer, byte and char tokenizers on any bytes", make_text, read_text,
          is_one_of<DataError>};
}
Target bpe_target() {
  return {"bpe", "BPE vocabularies in their three forms, then a text through them", make_bpe, read_bpe,
          is_one_of<DataError>};
}
Target manifest_target() {
  return {"manifest", "manifest_from; half with right checksums", make_manifest, read_manifest, is_one_of<>};
}
Target settings_target() {
  return {"settings", "config.json and --config", make_settings, read_settings, is_one_of<ArgumentError, DataError>};
}
Target journal_target() {
  return {"journal", "a run's JSON lines, config and incident reports, by files", make_journal, read_journal,
          is_one_of<>};
}

}  // namespace binade::fuzz
