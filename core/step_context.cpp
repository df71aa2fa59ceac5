#include "binade/core/step_context.h"

#include "binade/core/per_thread.h"
#include "binade/core/runtime.h"

namespace binade {

StepContext& step_context() {
  constinit thread_local PerThread<StepContext> context;
  return context.get();
}

std::uint64_t current_seed() {
  if (const std::optional<std::uint64_t>& seed = step_context().seed) return *seed;
  const Runtime* const runtime = Runtime::find_current();
  return runtime != nullptr ? runtime->seed() : 0;
}

RandomStream random_stream(RngPurpose purpose, std::int64_t call_index) {
  const StepContext& context = step_context();
  return {current_seed(), purpose, context.step, context.micro_batch, static_cast<std::uint32_t>(call_index)};
}

std::string Where::to_string() const {
  const std::string& path = step_context().module_path;
  std::string text(op);
  if (!path.empty()) text += " [" + path + "]";
  return text;
}

}  // namespace binade
