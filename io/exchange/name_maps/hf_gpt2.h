#pragma once

#include "binade/io/exchange/safetensors.h"

namespace binade::io {

/// Converts weights of Hugging Face's GPT-2 (transformers.GPT2LMHeadModel or GPT2Model) to the names and layouts of the
/// model of examples/transformer. A model of your own has other names: load_pytorch() and a NameMap convert to them
/// (docs/exchange.md), which is why binade.h does not include this header.
///
///     wte, wpe                    tokens, positions
///     h.N.ln_1, ln_2; ln_f        blocks.N.norm1, norm2; norm
///     h.N.attn.c_attn             blocks.N.attention.query|key|value: the thirds of its last axis
///     h.N.attn.c_proj             blocks.N.attention.out
///     h.N.mlp.c_fc, c_proj        blocks.N.mlp.up, down
///
/// Hugging Face's Conv1D weights are (in, out), Binade's (out, in). The prefix "transformer." is removed; the causal
/// masks (h.N.attn.bias, masked_bias) are dropped. lm_head.weight is dropped if it equals wte.weight, to which GPT-2
/// ties it. Throws DataError that lists missing and unexpected names.
TensorMap gpt2_from_hugging_face(const TensorMap& theirs);
/// Converts weights in Binade's names and layouts to Hugging Face's. `rows` > 0 truncates the token table to that many
/// rows, which removes the padding of a vocabulary.
TensorMap gpt2_to_hugging_face(const TensorMap& ours, std::int64_t rows = 0);

}  // namespace binade::io
