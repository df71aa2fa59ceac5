#include "binade/nn/lora.h"

#include <cmath>
#include <utility>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/core/sha256.h"
#include "binade/nn/init.h"

namespace binade::nn {
namespace {

/// Returns a hash that shows whether a weight was changed. Its version number does not: all views of an optimizer's
/// buffer share one.
std::string hash_of(const Tensor& weight) {
  const Tensor host = weight.to(Device::cpu()).contiguous_copy();
  return to_hex(sha256({static_cast<const std::byte*>(host.raw()), host.bytes()}));
}

}  // namespace

Lora::Lora(Linear given, const LoraOptions& o) : layer(std::move(given)), options_(o) {
  check<ArgumentError>(o.rank > 0 && std::isfinite(o.alpha), "Lora: wanted rank > 0 and a finite alpha, got {} and {}",
                       o.rank, o.alpha);
  check<ArgumentError>(o.dropout >= 0 && o.dropout < 1, "Lora: wanted dropout in [0, 1), got {}", o.dropout);
  check<ArgumentError>(layer.options().activation == Activation::kNone,
                       "Lora: wanted a Linear without an activation, which would be applied before the update is "
                       "added; apply it to the result");
  layer.requires_grad(false);
  const Device device = layer.weight.value().device();
  lora_a = Parameter(Tensor::empty({o.rank, layer.options().in}, DType::f32, device));
  lora_b = Parameter(Tensor::zeros({layer.options().out, o.rank}, DType::f32, device));
  Parameter none;
  init_as_linear(lora_a, none);
}

void Lora::visit(Visitor& v) {
  v("", layer);
  if (merged()) return;
  v("lora_a", lora_a);
  v("lora_b", lora_b);
}

Variable Lora::forward(const Variable& x) {
  if (merged()) {
    check<ArgumentError>(!training(), "{}: wanted evaluation mode while the update is merged; call unmerge() to train",
                         where(kind()));
    return layer(x);
  }
  const Variable y = layer(x);
  const Variable input = options_.dropout > 0 && training() ? dropout(x, options_.dropout) : x;
  const Variable low = linear(input, lora_a) * (options_.alpha / static_cast<double>(options_.rank));
  return y + linear(low, lora_b);
}

void Lora::merge() {
  check<ArgumentError>(!merged(), "Lora::merge: wanted an update that is not merged yet");
  const NoGradGuard no_grad;
  const PolicyScope f32{PrecisionPolicy{}};
  const Variable update = matmul(lora_b, lora_a) * (options_.alpha / static_cast<double>(options_.rank));
  original_ = layer.weight.value().clone();
  layer.weight.mutable_value().copy_from((layer.weight + update).value());
  merged_bits_ = hash_of(layer.weight.value());
}

void Lora::unmerge() {
  check<ArgumentError>(merged(), "Lora::unmerge: wanted a merged update, got one that is not; call merge() first");
  check<ArgumentError>(hash_of(layer.weight.value()) == merged_bits_,
                       "Lora::unmerge: wanted the weight that merge() wrote, but it was changed since, so that the "
                       "weight without the update is not known; load states before merge()");
  layer.weight.mutable_value().copy_from(original_);
  original_ = Tensor();
}

}  // namespace binade::nn
