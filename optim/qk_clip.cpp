#include "binade/optim/qk_clip.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/autograd/observer.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"

namespace binade::optim {
namespace {

/// For ops that are not the model's: not recorded, not observed, in f32, and without an effect on the numbers of ops.
class UnrecordedScope {
 public:
  UnrecordedScope() : context_(step_context()), policy_(PrecisionPolicy{}) {}
  ~UnrecordedScope() { step_context() = std::move(context_); }
  UnrecordedScope(const UnrecordedScope&) = delete;
  UnrecordedScope& operator=(const UnrecordedScope&) = delete;

 private:
  StepContext context_;
  NoGradGuard no_grad_;
  PolicyScope policy_;
  NoObserverScope unseen_;
};

/// Returns 0 where query t sees key s, and -inf elsewhere, (queries, keys).
Tensor causal_mask(std::int64_t queries, std::int64_t keys, Device device) {
  std::vector<float> mask(static_cast<std::size_t>(queries * keys));
  for (std::int64_t t = 0; t < queries; ++t)
    for (std::int64_t s = std::max<std::int64_t>(0, t + keys - queries + 1); s < keys; ++s)
      mask[static_cast<std::size_t>(t * keys + s)] = -std::numeric_limits<float>::infinity();
  return Tensor::from(mask, Shape{queries, keys}).to(device);
}

}  // namespace

QkClip::QkClip(const Heads& heads, std::vector<Variable> query, std::vector<Variable> key)
    : heads_(heads), of_query_(std::move(query)), of_key_(std::move(key)) {
  check<ArgumentError>(heads.limit > 0 && std::isfinite(heads.limit), "qk-clip: wanted a limit > 0, got {}",
                       heads.limit);
  check<ArgumentError>(heads.query > 0 && heads.key > 0 && heads.query % heads.key == 0,
                       "qk-clip: wanted a multiple of {} key heads, got {} query heads", heads.key, heads.query);
}

QkClip::~QkClip() {
  for (HookHandle& hook : hooks_) hook.remove();
}

void QkClip::see(Tensor& projection, const Tensor& output) {
  const StepContext& now = step_context();
  if (step_ != now.step || attempt_ != now.attempt) {  // logits of an aborted attempt must not count
    largest_.clear();
    query_ = key_ = Tensor();
    step_ = now.step;
    attempt_ = now.attempt;
  }
  projection = output;
  if (!query_.defined() || !key_.defined()) return;
  const UnrecordedScope aside;
  const std::int64_t heads = heads_.query, key_heads = heads_.key, shared = heads / key_heads;
  const Variable q(query_.to(DType::f32)), k(key_.to(DType::f32));
  query_ = key_ = Tensor();
  const std::int64_t batch = q.dim(0), queries = q.dim(1), keys = k.dim(1), width = q.dim(2) / heads;
  const Variable by_head = permute(reshape(q, {batch, queries, heads, width}), {0, 2, 1, 3});
  const Variable of_keys = permute(reshape(k, {batch, keys, key_heads, width}), {0, 2, 1, 3});
  Variable logits = matmul(reshape(by_head, {batch, key_heads, shared * queries, width}), of_keys,
                           {.transpose_b = true});
  logits = reshape(logits, {batch, heads, queries, keys}) * (1 / std::sqrt(static_cast<double>(width)));
  if (heads_.causal) logits = logits + Variable(causal_mask(queries, keys, logits.device()));
  const std::vector<double> largest = max(logits, {0, 2, 3}).value().to_vector<double>();
  largest_[step_context().micro_batch] = largest;
}

std::vector<double> QkClip::largest() const {
  std::vector<double> all(static_cast<std::size_t>(heads_.query), 0.0);
  for (const auto& [micro_batch, one] : largest_)
    for (std::size_t h = 0; h < all.size(); ++h) all[h] = std::max(all[h], one[h]);
  return all;
}

Tensor QkClip::factors_of(const Variable::State* parameter) const {
  const auto is = [&](const Variable& v) { return v.state().get() == parameter; };
  const bool in_query = std::ranges::any_of(of_query_, is);
  if (!in_query && std::ranges::none_of(of_key_, is)) return {};
  const std::vector<double> logits = largest();
  const auto shared = static_cast<std::size_t>(heads_.query / heads_.key);
  std::vector<double> wanted(logits.size()), key_factors(static_cast<std::size_t>(heads_.key), 1.0);
  for (std::size_t h = 0; h < logits.size(); ++h) {
    wanted[h] = logits[h] > heads_.limit ? heads_.limit / logits[h] : 1;
    key_factors[h / shared] = std::min(key_factors[h / shared], std::sqrt(wanted[h]));
  }
  if (std::ranges::all_of(wanted, [](double w) { return w == 1; })) return {};
  std::vector<double> factors = key_factors;
  if (in_query) {
    factors = wanted;
    for (std::size_t h = 0; h < factors.size(); ++h) factors[h] /= key_factors[h / shared];
  }
  const Variable& any = in_query ? of_query_.front() : of_key_.front();
  const std::int64_t rows = any.dim(0), per_head = rows / static_cast<std::int64_t>(factors.size());
  std::vector<float> of_rows(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r)
    of_rows[static_cast<std::size_t>(r)] = static_cast<float>(factors[static_cast<std::size_t>(r / per_head)]);
  return Tensor::from(of_rows, Shape{rows}).to(any.device());
}

}  // namespace binade::optim
