#include "binade/io/exchange/name_maps/hf_gpt2.h"

#include <cstring>

#include "binade/core/error.h"
#include "binade/io/exchange/name_map.h"

namespace binade::io {

namespace {

const NameMap& names() {
  static const NameMap map = NameMap::parse(R"(
prefix transformer.
wte.weight                   -> tokens.weight
wpe.weight                   -> positions.weight
ln_f.weight                  -> norm.weight
ln_f.bias                    -> norm.bias : optional
h.{1}.ln_1.weight            -> blocks.{1}.norm1.weight
h.{1}.ln_1.bias              -> blocks.{1}.norm1.bias : optional
h.{1}.ln_2.weight            -> blocks.{1}.norm2.weight
h.{1}.ln_2.bias              -> blocks.{1}.norm2.bias : optional
h.{1}.attn.c_attn.weight     -> blocks.{1}.attention.query.weight + blocks.{1}.attention.key.weight + blocks.{1}.attention.value.weight : transpose
h.{1}.attn.c_attn.bias       -> blocks.{1}.attention.query.bias + blocks.{1}.attention.key.bias + blocks.{1}.attention.value.bias : optional
h.{1}.attn.c_proj.weight     -> blocks.{1}.attention.out.weight : transpose
h.{1}.attn.c_proj.bias       -> blocks.{1}.attention.out.bias : optional
h.{1}.mlp.c_fc.weight        -> blocks.{1}.mlp.up.weight : transpose
h.{1}.mlp.c_fc.bias          -> blocks.{1}.mlp.up.bias : optional
h.{1}.mlp.c_proj.weight      -> blocks.{1}.mlp.down.weight : transpose
h.{1}.mlp.c_proj.bias        -> blocks.{1}.mlp.down.bias : optional
lm_head.weight               -> head.weight : optional
h.{1}.attn.bias              -> -
h.{1}.attn.masked_bias       -> -
)",
                                            "gpt2 names");
  return map;
}

TensorMap checked(MappedTensors mapped) {
  mapped.check("gpt2 names", "wanted the weights of one GPT-2");
  return std::move(mapped.tensors);
}

}  // namespace

TensorMap gpt2_from_hugging_face(const TensorMap& theirs) {
  TensorMap ours = checked(names().from_theirs(theirs));
  const auto head = ours.find("head.weight");
  if (head == ours.end()) return ours;
  const Tensor& tokens = ours.at("tokens.weight");
  const bool tied = head->second.dtype() == tokens.dtype() && head->second.shape() == tokens.shape() &&
                    (tokens.bytes() == 0 || std::memcmp(head->second.raw(), tokens.raw(), tokens.bytes()) == 0);
  if (tied) ours.erase(head);
  return ours;
}

TensorMap gpt2_to_hugging_face(const TensorMap& ours, std::int64_t rows) {
  TensorMap theirs = checked(names().to_theirs(ours));
  Tensor& table = theirs.at("wte.weight");
  if (rows > 0 && rows < table.dim(0)) table = table.narrow(0, rows);
  return theirs;
}

}  // namespace binade::io
