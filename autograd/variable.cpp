#include "binade/autograd/variable.h"

#include <algorithm>
#include <ostream>
#include <span>

#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/autograd/low_buffer.h"
#include "binade/autograd/node.h"
#include "binade/core/error.h"
#include "binade/core/kernels/table.h"

namespace binade {
namespace {
thread_local bool t_grad_enabled = true;
}

Variable::Variable(Tensor value, bool requires_grad) : state_(std::make_shared<State>()) {
  check<DTypeError>(!requires_grad || is_floating(value.dtype()), "variable: a gradient wants a floating dtype, got {}",
                    name_of(value.dtype()));
  state_->value = requires_grad ? value.with_counted_writes() : std::move(value);
  state_->requires_grad = requires_grad;
}

const Tensor& Variable::value() const {
  check<ArgumentError>(defined(), "variable: it is undefined; assign one first");
  return state_->value;
}

bool Variable::requires_grad() const { return defined() && state_->requires_grad; }
bool Variable::is_leaf() const { return defined() && state_->node == nullptr; }

void Variable::requires_grad(bool on) {
  check<AutogradError>(is_leaf(),
                       "requires_grad: wanted a parameter or another leaf, got {}; freeze what it was "
                       "computed from, or use detach()",
                       defined() ? "the result of an op" : "an undefined variable");
  check<DTypeError>(!on || is_floating(dtype()), "variable: a gradient wants a floating dtype, got {}",
                    name_of(dtype()));
  if (on) state_->value = state_->value.with_counted_writes();
  state_->requires_grad = on;
  zero_grad();
}

Tensor Variable::grad() const {
  if (!defined()) return {};
  if (state_->grad_defined) return state_->grad;
  return state_->ended_step.load(std::memory_order_acquire) == 0 ? Tensor() : state_->grad_of_ended_step();
}

void Variable::zero_grad() {
  if (!defined()) return;
  state_->grad_defined = false;
  state_->loss_scale = 1;
  state_->ended_step.store(0, std::memory_order_relaxed);
}

/// Threads may read the gradient at the same time: the first one multiplies it.
Tensor Variable::State::grad_of_ended_step() {
  const std::lock_guard lock(copies_mutex_);
  const float factor = ended_step.load(std::memory_order_relaxed);
  check<AutogradError>(factor != kCaptured,
                       "grad: the gradient of {} cannot be read after a captured step (TrainerOptions::record), whose "
                       "gradients stay on the device; train without record, or read StepResult::grad_norm",
                       name.empty() ? "a variable" : name);
  if (factor != 1 && grad.numel() > 0) {
    std::vector<FlatBlock> blocks;
    for (std::int64_t begin = 0; begin < grad.numel(); begin += kFlatBlock)
      blocks.push_back({0, static_cast<std::int32_t>(std::min(kFlatBlock, grad.numel() - begin)), begin});
    float* const values[] = {grad.mutable_data<float>()};
    kernels(grad.device()).limit({blocks, values, factor, 0});
  }
  ended_step.store(1, std::memory_order_release);
  return grad;
}

Variable Variable::detach() const { return Variable(value()); }

Variable Variable::operator[](std::int64_t i) const {
  const Shape& whole = shape();
  check<ShapeError>(whole.rank() >= 1 && i >= -whole.dim(0) && i < whole.dim(0),
                    "[]: wanted a position in dimension 0 of {}, got {}", whole, i);
  const Variable row = narrow(*this, 0, i < 0 ? i + whole.dim(0) : i, 1);
  return reshape(row, std::vector<std::int64_t>(whole.dims().begin() + 1, whole.dims().end()));
}

Variable Variable::operator[](const Variable& at) const {
  if (at.dtype() != DType::boolean) return index(*this, {at});
  const std::span<const std::int64_t> mask = at.shape().dims(), whole = shape().dims();
  check<ShapeError>(!mask.empty() && mask.size() <= whole.size() && std::ranges::equal(mask, whole.first(mask.size())),
                    "[]: wanted a mask with the first extents of {}, got {}", shape(), at.shape());
  return index(*this, unbind(nonzero(at), 1));
}

std::ostream& operator<<(std::ostream& out, const Variable& x) {
  return out << (x.defined() ? x.value().to_string() : "undefined variable");
}

Tensor Variable::State::low_copy(DType dtype) {
  if (!value.counts_writes()) return value.to(dtype);  // whether a copy is up to date would be unknown
  const std::uint64_t version = value.version();
  // Other threads may make copies at the same time. If `low` is up to date, nobody writes it.
  if (low_version.load(std::memory_order_acquire) == version && low.dtype() == dtype && low.shape() == value.shape()) {
    if (!low_read_.load(std::memory_order_relaxed)) low_read_.store(true, std::memory_order_relaxed);
    return low;
  }
  const std::lock_guard lock(copies_mutex_);
  const bool same_shape = low.defined() && low.shape() == value.shape();
  if (same_shape && low.dtype() != dtype) {
    // Ops read the parameter in two dtypes. A separate copy cannot overwrite one that an op has saved for backward.
    const auto found = std::ranges::find(other_copies, dtype, [](const OtherCopy& o) { return o.tensor.dtype(); });
    OtherCopy& other = found != other_copies.end() ? *found : other_copies.emplace_back();
    if (other.version != version) other = {value.to(dtype).with_counted_writes(), version};
    return other.tensor;
  }
  low_read_.store(true, std::memory_order_relaxed);
  if (same_shape && low_version.load(std::memory_order_relaxed) == version) return low;  // another thread has made it
  const auto& [buffer, begin] = low_place;
  if (!low.defined() && buffer != nullptr)
    low = buffer->at(begin, value.shape(), dtype);
  else if (!same_shape || buffer == nullptr || !buffer->holds(low))
    low = Tensor();
  if (low.defined())
    low.copy_from(value);  // raises the version, so that backward of an op that saved the old copy throws
  else
    low = value.to(dtype).with_counted_writes();
  low_version.store(version, std::memory_order_release);
  return low;
}

bool Variable::State::is_current_copy(const Tensor& tensor) {
  const std::lock_guard lock(copies_mutex_);
  const std::uint64_t version = value.version();
  return (low.shares_storage_with(tensor) && low_version.load(std::memory_order_relaxed) == version) ||
         std::ranges::any_of(other_copies, [&](const OtherCopy& other) {
           return other.tensor.shares_storage_with(tensor) && other.version == version;
         });
}

void Variable::State::forget_copies() {
  low = Tensor();
  low_version = kNoVersion;
  other_copies.clear();
}

void Variable::State::forget_unread_copies() {
  std::erase_if(other_copies, [&](const OtherCopy& other) { return other.version != value.version(); });
  if (!other_copies.empty() && !low_read_) forget_copies();
}

NoGradGuard::NoGradGuard() : ScopedValue(t_grad_enabled, false) {}
GradGuard::GradGuard() : ScopedValue(t_grad_enabled, true), counting_(true) {}

bool grad_enabled() { return t_grad_enabled; }

}  // namespace binade
