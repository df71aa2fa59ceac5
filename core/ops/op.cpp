#include "core/ops/op.h"

#include "core/step_context.h"

namespace binade {

int OpContext::save(const Tensor& tensor) {
  if (!grad_enabled) return -1;
  saved_.push_back({tensor, tensor.version()});
  return static_cast<int>(saved_.size()) - 1;
}

const Tensor& OpContext::saved(int position, const char* op) const {
  check<AutogradError>(position >= 0 && position < static_cast<int>(saved_.size()),
                       "{}: backward reads saved tensor {}, but {} were saved", op, position, saved_.size());
  const Saved& kept = saved_[static_cast<std::size_t>(position)];
  check<AutogradError>(!kept.tensor.defined() || kept.tensor.version() == kept.version,
                       "{}: a tensor that backward needs was written in place: saved at version {}, now {}; write to a "
                       "clone() instead",
                       op, kept.version, kept.tensor.version());
  return kept.tensor;
}

std::size_t OpContext::saved_bytes() const {
  std::size_t bytes = 0;
  for (const Saved& kept : saved_)
    if (kept.tensor.defined()) bytes += kept.tensor.bytes();
  return bytes;
}

}  // namespace binade
