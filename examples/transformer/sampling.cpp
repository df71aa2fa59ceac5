#include "examples/transformer/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace binade::examples {
namespace {

/// Returns the last token's row of the logits (1, T, V), without the logits of the token table's padding.
std::vector<float> last_logits(const Variable& logits, std::int64_t vocabulary) {
  const Tensor rows = logits.value().reshape({logits.dim(1), logits.dim(2)}).narrow(logits.dim(1) - 1, 1);
  std::vector<float> values = rows.to_vector<float>();
  values.resize(static_cast<std::size_t>(vocabulary));
  return values;
}

Tensor row_of(std::span<const std::int32_t> tokens) {
  return Tensor::from(tokens, {1, static_cast<std::int64_t>(tokens.size())}).to(Runtime::current_device());
}

}  // namespace

std::int32_t draw_token(std::vector<float> logits, double temperature, std::int64_t top_k, double u) {
  const auto likeliest = std::ranges::max_element(logits, {}, [](float x) { return std::isnan(x) ? -INFINITY : x; });
  check<NumericError>(
      likeliest != logits.end() && std::isfinite(*likeliest),
      "sample: the model's logits are not finite; its weights are damaged, or the precision is too low");
  if (temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());

  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>{},
                           [&](std::int32_t i) { return logits[static_cast<std::size_t>(i)]; });
  if (top_k > 0 && top_k < std::ssize(order)) order.resize(static_cast<std::size_t>(top_k));

  std::vector<double> weights;
  for (const std::int32_t i : order)
    weights.push_back(std::exp((double{logits[static_cast<std::size_t>(i)]} - *likeliest) / temperature));
  double left = u * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();
}

std::vector<std::int32_t> sample(Gpt& model, std::vector<std::int32_t> tokens, const SamplingOptions& o,
                                 const std::function<void(std::int32_t)>& on_token) {
  check<ArgumentError>(!tokens.empty(), "sample: wanted a prompt of at least one token");
  check<ArgumentError>(o.tokens >= 0 && o.temperature >= 0 && std::isfinite(o.temperature) && o.top_k >= 0,
                       "sample: wanted tokens, temperature and top-k >= 0, got {}, {}, {}", o.tokens, o.temperature,
                       o.top_k);
  const InferenceMode inference;
  const std::int64_t context = model.options().context;
  const RandomStream numbers{o.seed, RngPurpose::kSampling};
  Gpt::Cache cache;
  for (std::int64_t i = 0; i < o.tokens; ++i) {
    const std::int64_t length = std::min<std::int64_t>(std::ssize(tokens), context);
    const auto window = std::span(tokens).last(static_cast<std::size_t>(length));
    // When the window slides, all positions change, so that cached keys and values are invalid.
    const bool continues = o.cache && std::ssize(tokens) <= context;
    const Variable logits = continues
                                ? model.next(row_of(window.subspan(static_cast<std::size_t>(cache.length))), cache)
                                : model(row_of(window));
    const std::int32_t token = draw_token(last_logits(logits, model.options().vocabulary), o.temperature, o.top_k,
                                          numbers.uniform(static_cast<std::uint64_t>(i)));
    tokens.push_back(token);
    if (on_token) on_token(token);
  }
  return tokens;
}

}  // namespace binade::examples
