#pragma once

#include <memory>
#include <string>

#include "binade/io/text/tokenizer.h"

namespace binade::io {

/// GPT-2's tokenizer (Radford et al. 2019; byte-pair encoding after Sennrich et al. 2016): text is cut into pieces by
/// GPT-2's pattern (io/text/pretokenize.h), the bytes of a piece are joined pair by pair, the pair that stands first in
/// the merge table first. Added tokens such as <|endoftext|> are recognized in the text before that, the longest first.
///
/// `vocabulary` is the text of read_bpe_vocabulary() (io/text/bpe_vocabulary.h). Throws DataError for a vocabulary that
/// is no byte-level BPE.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(const std::string& vocabulary);

}  // namespace binade::io
