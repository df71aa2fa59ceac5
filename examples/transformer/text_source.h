#pragma once

#include <memory>
#include <string>

#include "binade/io/data/text_data.h"
#include "binade/io/text/tokenizer.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// A tokenized text, split into training and validation parts.
struct TextSource {
  std::unique_ptr<io::Tokenizer> tokenizer{};
  io::TextSplit split{};
  std::string content{};  ///< hash of the data, which must be the same in a resumed run
};

/// Reads --data (a text file, a folder of text files, or a .bin or .npy token file; the embedded text by default) and
/// --val-data. Uses the tokenizer `known` of a checkpoint or, if that is null, the one that `tokenizer`, a value of
/// --tokenizer, names.
TextSource read_text_source(const TrainSettings& s, const std::string& tokenizer,
                            std::unique_ptr<io::Tokenizer> known = nullptr);

}  // namespace binade::examples
