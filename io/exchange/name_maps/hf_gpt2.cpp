#include "binade/io/exchange/name_maps/hf_gpt2.h"

#include <cstring>
#include <set>
#include <vector>

#include "binade/core/error.h"
#include "binade/io/exchange/name_maps/axes.h"

namespace binade::io {

namespace {

constexpr const char* kThirds[] = {"query", "key", "value"};

/// Names of a module in Hugging Face's model and in Binade's. `transposed` is true if one has the transposed weights of
/// the other.
struct NamePair {
  std::string theirs, ours;
  bool transposed;
};

std::vector<NamePair> name_pairs(std::int64_t layers) {
  std::vector<NamePair> all = {{"wte", "tokens", false}, {"wpe", "positions", false}, {"ln_f", "norm", false}};
  for (std::int64_t n = 0; n < layers; ++n) {
    const std::string h = fmt::format("h.{}.", n), block = fmt::format("blocks.{}.", n);
    all.push_back({h + "ln_1", block + "norm1", false});
    all.push_back({h + "ln_2", block + "norm2", false});
    all.push_back({h + "attn.c_proj", block + "attention.out", true});
    all.push_back({h + "mlp.c_fc", block + "mlp.up", true});
    all.push_back({h + "mlp.c_proj", block + "mlp.down", true});
  }
  return all;
}

std::int64_t count_layers(const TensorMap& map, const std::string& prefix, const std::string& probe) {
  std::int64_t n = 0;
  while (map.contains(fmt::format("{}.{}.{}", prefix, n, probe))) ++n;
  return n;
}

Tensor transposed_if(const Tensor& t, bool transpose, const std::string& name) {
  if (!transpose || t.rank() == 1) return t;
  check<DataError>(t.rank() == 2, "gpt2 names: {}: wanted a matrix, got {}", name, t.shape().to_string());
  return transposed(t);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  return a.bytes() == 0 || std::memcmp(a.on_host().raw(), b.on_host().raw(), a.bytes()) == 0;
}

/// Looks tensors up by name and records used and missing names.
class Transfer {
 public:
  explicit Transfer(const TensorMap& from) : from_(from) {}
  const Tensor* take(const std::string& name, bool required) {
    const auto found = from_.find(name);
    if (found == from_.end()) {
      if (required) missing_.push_back(name);
      return nullptr;
    }
    used_.insert(name);
    return &found->second;
  }
  void finish() const {
    std::string text;
    for (const std::string& name : missing_) text += " missing " + name + ";";
    for (const auto& [name, tensor] : from_)
      if (!used_.contains(name)) text += " unknown " + name + ";";
    check<DataError>(text.empty(), "gpt2 names:{} wanted the weights of one GPT-2", text);
  }

 private:
  const TensorMap& from_;
  std::set<std::string> used_;
  std::vector<std::string> missing_;
};

}  // namespace

TensorMap gpt2_from_hugging_face(const TensorMap& theirs) {
  TensorMap plain;
  for (const auto& [name, tensor] : theirs) {
    const std::string short_name = name.starts_with("transformer.") ? name.substr(12) : name;
    if (short_name.ends_with(".attn.bias") || short_name.ends_with(".attn.masked_bias")) continue;
    check<DataError>(plain.emplace(short_name, tensor).second,
                     "gpt2 names: {} occurs with and without \"transformer.\"", short_name);
  }
  Transfer transfer(plain);
  TensorMap ours;
  const std::int64_t layers = count_layers(plain, "h", "ln_1.weight");
  for (const NamePair& p : name_pairs(layers)) {
    if (const Tensor* w = transfer.take(p.theirs + ".weight", true))
      ours.emplace(p.ours + ".weight", transposed_if(*w, p.transposed, p.theirs));
    if (const Tensor* b = transfer.take(p.theirs + ".bias", false)) ours.emplace(p.ours + ".bias", *b);
  }
  for (std::int64_t n = 0; n < layers; ++n)
    for (const char* part : {"weight", "bias"}) {
      const std::string name = fmt::format("h.{}.attn.c_attn.{}", n, part);
      const Tensor* fused = transfer.take(name, true);
      if (fused == nullptr) continue;
      check<DataError>(fused->rank() == (*part == 'w' ? 2 : 1) && fused->shape().cols() % 3 == 0,
                       "gpt2 names: {}: wanted query, key and value side by side, got {}", name,
                       fused->shape().to_string());
      const std::int64_t width = fused->shape().cols() / 3;
      for (std::int64_t third = 0; third < 3; ++third)
        ours.emplace(fmt::format("blocks.{}.attention.{}.{}", n, kThirds[third], part),
                     transposed_if(columns(*fused, third * width, width), true, name));
    }
  if (const Tensor* head = transfer.take("lm_head.weight", false)) {
    const auto tokens = ours.find("tokens.weight");
    if (tokens == ours.end() || !same_bytes(*head, tokens->second)) ours.emplace("head.weight", *head);
  }
  transfer.finish();
  return ours;
}

TensorMap gpt2_to_hugging_face(const TensorMap& ours, std::int64_t rows) {
  Transfer transfer(ours);
  TensorMap theirs;
  const std::int64_t layers = count_layers(ours, "blocks", "norm1.weight");
  for (const NamePair& p : name_pairs(layers)) {
    if (const Tensor* w = transfer.take(p.ours + ".weight", true)) {
      const bool cut = p.ours == "tokens" && rows > 0 && rows < w->dim(0);
      theirs.emplace(p.theirs + ".weight", cut ? w->narrow(0, rows) : transposed_if(*w, p.transposed, p.ours));
    }
    if (const Tensor* b = transfer.take(p.ours + ".bias", false)) theirs.emplace(p.theirs + ".bias", *b);
  }
  for (std::int64_t n = 0; n < layers; ++n)
    for (const char* part : {"weight", "bias"}) {
      const bool weight = *part == 'w';
      Tensor fused;
      for (std::int64_t third = 0; third < 3; ++third) {
        const std::string name = fmt::format("blocks.{}.attention.{}.{}", n, kThirds[third], part);
        const Tensor* t = transfer.take(name, weight);
        if (t == nullptr) break;
        const Tensor projection = transposed_if(*t, true, name);
        const std::int64_t width = projection.shape().cols(), height = projection.shape().rows();
        if (third == 0) fused = Tensor::zeros(weight ? Shape{height, 3 * width} : Shape{3 * width}, projection.dtype());
        check<DataError>(fused.dtype() == projection.dtype() && fused.shape().rows() == height &&
                             fused.shape().cols() == 3 * width,
                         "gpt2 names: {}: query, key and value differ in shape or dtype", name);
        fused.channel_slice(third * width, width).copy_from(projection);
      }
      if (fused.defined()) theirs.emplace(fmt::format("h.{}.attn.c_attn.{}", n, part), fused);
    }
  if (const Tensor* head = transfer.take("head.weight", false)) theirs.emplace("lm_head.weight", *head);
  transfer.finish();
  return theirs;
}

}  // namespace binade::io
