#pragma once

#include "binade/io/exchange/safetensors.h"

namespace binade::io {

/// Weights of Hugging Face's GPT-2 (transformers.GPT2LMHeadModel or GPT2Model) to Binade's names and layouts, and back:
///
///     wte, wpe                    tokens, positions
///     h.N.ln_1, ln_2; ln_f        blocks.N.norm1, norm2; norm
///     h.N.attn.c_attn             blocks.N.attention.query|key|value: the thirds of its last axis
///     h.N.attn.c_proj             blocks.N.attention.out
///     h.N.mlp.c_fc, c_proj        blocks.N.mlp.up, down
///
/// Their Conv1D weights are (in, out), ours (out, in). On the way in "transformer." before a name is dropped, and so
/// are the causal masks (h.N.attn.bias, masked_bias) and lm_head.weight when it equals wte.weight, as GPT-2 ties them.
/// Throws DataError that lists what is missing and what is not known.
TensorMap gpt2_from_hugging_face(const TensorMap& theirs);
/// `rows` > 0 cuts the token table to that many rows: a padded vocabulary goes back to its size.
TensorMap gpt2_to_hugging_face(const TensorMap& ours, std::int64_t rows = 0);

}  // namespace binade::io
