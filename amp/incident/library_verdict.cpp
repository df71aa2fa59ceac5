#include "binade/amp/incident/library_verdict.h"

#include <algorithm>

#include "binade/amp/verdict.h"
#include "binade/core/step_context.h"

namespace binade::amp {

bool EngineProbe::concerns(const OpCall& call) const {
  return call.tape_index == tape_index_ && step_context().micro_batch == static_cast<std::uint32_t>(micro_batch_);
}

void EngineProbe::begin(const OpCall& call) {
  if (!own_kernels_ || !concerns(call)) return;
  gpus::OwnKernels::take_keys();
  own_.emplace();
}

void EngineProbe::end(Pass& pass, const OpCall& call, std::span<const Tensor> results) {
  if (!concerns(call)) return;
  own_.reset();
  if (own_kernels_) pass.keys = gpus::OwnKernels::take_keys();
  pass.has_run = true;
  pass.is_finite = std::ranges::all_of(results, [](const Tensor& result) { return all_finite(result); });
}

void EngineProbe::before_forward(const OpCall& call, std::span<const Variable>, Tensors&) { begin(call); }
void EngineProbe::after_forward(const OpCall& call, std::span<const Tensor>, Tensors& outputs, const Observation&) {
  end(forward_, call, outputs);
}
void EngineProbe::before_backward(const OpCall& call, Tensors&) { begin(call); }
void EngineProbe::after_backward(const OpCall& call, std::span<const Tensor>, std::span<const Tensor> gx,
                                 const Observation&) {
  end(backward_, call, gx);
}

bool EngineProbe::is_finite(std::string_view direction) const {
  const Pass& pass = direction == "backward" ? backward_ : forward_;
  return pass.has_run && pass.is_finite;
}

std::vector<std::string> EngineProbe::keys(std::string_view direction) const {
  const bool is_backward = direction == "backward";
  std::vector<std::string> all = is_backward ? backward_.keys : forward_.keys;
  for (const std::string& key : is_backward ? forward_.keys : backward_.keys)
    if (std::ranges::find(all, key) == all.end()) all.push_back(key);
  return all;
}

LibraryFault library_fault(std::vector<std::string> keys) {
  LibraryFault fault{.library = gpus::library_of_plan(keys.front()), .keys = std::move(keys)};
  for (const std::string& key : fault.keys) fault.plans.push_back(gpus::line_of_plan(key));
  return fault;
}

}  // namespace binade::amp
