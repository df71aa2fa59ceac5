#include "binade/core/ops/stacked.h"

#include <algorithm>

namespace binade::ops {
namespace {

/// True if each tensor starts where the previous one ends.
bool are_adjacent(std::span<const Tensor> parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].defined() || !parts[i].contiguous()) return false;
    if (i == 0) continue;
    const Tensor& before = parts[i - 1];
    const bool follows = static_cast<const std::byte*>(before.raw()) + before.bytes() == parts[i].raw();
    if (!follows || !parts[i].shares_storage_with(before)) return false;
  }
  return true;
}

}  // namespace

Stacked::Stacked(std::span<const Tensor> parts) {
  const Tensor& first = parts.front();
  if (are_adjacent(parts)) {
    data_ = first.raw();
    return;
  }
  std::int64_t rows = 0;
  for (const Tensor& part : parts) rows += part.dim(0);
  copy_ = Tensor::empty(first.shape().with_dim(0, rows), first.dtype(), first.device());
  rows = 0;
  for (const Tensor& part : parts) {
    copy_.narrow(rows, part.dim(0)).copy_from(part);
    rows += part.dim(0);
  }
  data_ = copy_.raw();
}

StackedGradient::StackedGradient(const OpContext& ctx, GradSink& sink, int first, int count,
                                 std::optional<DType> dtype) {
  const auto inputs = std::span(ctx.inputs).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  const OpContext::Input* like = nullptr;
  bool agree = true;
  std::int64_t rows = 0;
  for (int i = 0; i < count; ++i) {
    const OpContext::Input& input = inputs[static_cast<std::size_t>(i)];
    rows_.push_back(input.shape.rank() > 0 ? input.shape[0] : 0);
    rows += rows_.back();
    destinations_.push_back(sink.needs(first + i) ? sink.destination(first + i) : Tensor());
    if (!destinations_.back().defined()) continue;
    agree = agree && (like == nullptr || like->grad_dtype == input.grad_dtype);
    like = &input;
  }
  if (like == nullptr) return;
  dtype_ = dtype.value_or(agree ? like->grad_dtype : DType::f32);
  if (agree && like->grad_dtype == dtype_ && are_adjacent(destinations_)) {
    data_ = destinations_.front().mutable_raw();
    return;
  }
  temporary_ = Tensor::empty(like->shape.with_dim(0, rows), dtype_, like->device);
  data_ = temporary_.mutable_raw();
}

void StackedGradient::finish() {
  if (!temporary_.defined()) return;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (destinations_[i].defined()) destinations_[i].copy_from(temporary_.narrow(begin, rows_[i]));
    begin += rows_[i];
  }
}

}  // namespace binade::ops
