#pragma once

#include <memory>
#include <string>

#include "binade/io/data/text_data.h"
#include "binade/io/text/tokenizer.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// Text, its tokens, and what is held out of it.
struct TextSource {
  std::unique_ptr<io::Tokenizer> tokenizer{};
  io::TextSplit split{};
  std::string content{};  ///< hash of the data that was read: a resumed run must find the same data
};

/// Reads --data (a text file, a folder of them, or a .bin or .npy token file; the embedded text when left out) and
/// --val-data. `tokenizer` is a word of --tokenizer, or null `known` gives the one a checkpoint was trained with.
TextSource read_text_source(const TrainSettings& s, const std::string& tokenizer,
                            std::unique_ptr<io::Tokenizer> known = nullptr);

}  // namespace binade::examples
