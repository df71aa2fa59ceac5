#include "binade/autograd/variable.h"

#include "binade/autograd/node.h"
#include "binade/core/error.h"

namespace binade {
namespace {
thread_local bool t_grad_enabled = true;
}

Variable::Variable(Tensor value, bool requires_grad) : state_(std::make_shared<State>()) {
  check<DTypeError>(!requires_grad || is_floating(value.dtype()), "variable: a gradient wants a floating dtype, got {}",
                    name_of(value.dtype()));
  state_->value = std::move(value);
  state_->requires_grad = requires_grad;
}

const Tensor& Variable::value() const {
  check<ArgumentError>(defined(), "variable: it is undefined; assign one first");
  return state_->value;
}

bool Variable::requires_grad() const { return defined() && state_->requires_grad; }
bool Variable::is_leaf() const { return defined() && state_->node == nullptr; }

Tensor Variable::grad() const { return defined() && state_->grad_defined ? state_->grad : Tensor(); }

void Variable::zero_grad() {
  if (defined()) state_->grad_defined = false;
}

Variable Variable::detach() const { return Variable(value()); }

const Tensor& Variable::State::low_copy(DType dtype) {
  const bool fits = low.defined() && low.dtype() == dtype && low.shape() == value.shape();
  if (fits && low_version == value.version()) return low;
  const auto& [buffer, begin] = low_place;
  // A new copy is made in low_place only if no copy exists. Otherwise, if ops read the parameter in two dtypes by
  // turns, a new copy could overwrite one that an op has saved for backward.
  if (!low.defined() && buffer != nullptr)
    low = buffer->at(begin, value.shape(), dtype);
  else if (!fits || buffer == nullptr || !buffer->holds(low))
    low = Tensor();
  if (low.defined())
    low.copy_from(value);  // raises the version, so that backward of an op that saved the old copy throws
  else
    low = value.to(dtype);
  low_version = value.version();
  return low;
}

NoGradGuard::NoGradGuard() : ScopedValue(t_grad_enabled, false) {}
GradGuard::GradGuard() : ScopedValue(t_grad_enabled, true) {}

bool grad_enabled() { return t_grad_enabled; }

}  // namespace binade
