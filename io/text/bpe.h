#pragma once

#include <memory>
#include <string>

#include "binade/io/text/tokenizer.h"

namespace binade::io {

/// Makes GPT-2's tokenizer (Radford et al. 2019; byte-pair encoding after Sennrich et al. 2016). Added tokens such as
/// <|endoftext|> are recognized first, the longest first. The text between them is split by GPT-2's pattern
/// (io/text/pretokenize.h), and the bytes of each part are merged pair by pair in the order of the merge table.
///
/// `vocabulary` is the text that read_bpe_vocabulary() returns (io/text/bpe_vocabulary.h). Throws DataError if it is
/// not a byte-level BPE vocabulary.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(const std::string& vocabulary);

}  // namespace binade::io
