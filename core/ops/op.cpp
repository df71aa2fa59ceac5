#include "binade/core/ops/op.h"

#include <algorithm>
#include <string_view>

#include "binade/core/step_context.h"

namespace binade {
namespace {

/// Returns name number i (from 0) in a list such as "x, w, bias?": "bias?" for i = 2. If i is beyond the end of the
/// list, returns the last name, because a list that ends in "x..." stands for any number of inputs.
std::string_view input_name(std::string_view inputs, std::size_t i) {
  for (std::size_t comma = inputs.find(", "); i > 0 && comma != inputs.npos; --i, comma = inputs.find(", "))
    inputs.remove_prefix(comma + 2);
  return inputs.substr(0, inputs.find(','));
}

}  // namespace

int OpContext::save(const Tensor& tensor) {
  if (!grad_enabled) return -1;
  check<AutogradError>(!tensor.defined() || tensor.counts_writes(),
                       "{}: backward needs a tensor that was made in an InferenceMode, and such tensors do not count "
                       "writes in place; pass its clone(), or make it under a NoGradGuard",
                       where("autograd"));
  saved_.push_back({tensor, tensor.version()});
  return static_cast<int>(saved_.size()) - 1;
}

int OpContext::save_input(int i, const Tensor& tensor) {
  const auto source = std::ranges::find(recomputable, i, &Recomputable::input);
  if (source == recomputable.end()) return save(tensor);
  const int position = save(source->z);
  if (position >= 0) saved_.back().recomputed_by = source->activation;
  return position;
}

Activation OpContext::recomputed_by(int position) const {
  return saved_.at(static_cast<std::size_t>(position)).recomputed_by;
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

void check_inputs(const OpInfo& info, std::span<const Tensor> in) {
  const std::string_view names = info.inputs;
  const auto commas = static_cast<std::size_t>(std::ranges::count(names, ','));
  check<ArgumentError>(!in.empty() || !names.ends_with("...") || commas > 0, "{}: wanted at least one input, got 0",
                       where(info.name));
  check<ArgumentError>(names.empty() || (names.ends_with("...") ? in.size() > commas : in.size() == commas + 1),
                       "{}: wanted the inputs ({}), got {} of them", where(info.name), names, in.size());
  const Tensor* first = nullptr;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::string_view name = input_name(names, i);
    if (!in[i].defined()) {
      check<ArgumentError>(name.ends_with('?'), "{}: wanted input {}{}{}, got an undefined variable; assign it first",
                           where(info.name), i, name.empty() ? "" : ", ", name);
      continue;
    }
    if (first == nullptr) first = &in[i];
    check<DeviceError>(in[i].device() == first->device(),
                       "{}: wanted inputs on one device, got {} and {}; move one "
                       "with to(Device)",
                       where(info.name), first->device(), in[i].device());
  }
}

}  // namespace binade
