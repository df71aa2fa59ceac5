#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binade/core/error.h"
#include "binade/core/random.h"
#include "binade/core/scope.h"

namespace binade {

/// The step, micro-batch, op and module that this thread executes. Errors, random numbers, nodes of the tape and
/// telemetry refer to it. The Trainer and the modules set it.
struct StepContext {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t micro_batch = 0;
  std::int64_t tape_index = 0;  ///< of the next op; equal in every step of a static model
  bool recomputing = false;     ///< true while a segment is recomputed for backward; statistics must not change then
  std::string module_path{};    ///< "blocks.2.attention"; empty at the root
};

/// Returns this thread's context.
StepContext& step_context();

/// Returns the random stream of the op at `tape_index`, keyed by the context.
RandomStream random_stream(RngPurpose purpose, std::int64_t tape_index);

/// Sets the module path of the context for the lifetime of the object.
class ModulePathScope : ScopedValue<std::string> {
 public:
  explicit ModulePathScope(std::string path) : ScopedValue(step_context().module_path, std::move(path)) {}
};

/// The beginning of an error text: "conv2d [encoder.0.conv1]", or just the op outside modules. It reads the module path
/// when it is formatted, so format it where it was made.
struct Where {
  std::string_view op{};
  std::string to_string() const;
};
inline Where where(std::string_view op) { return {op}; }

}  // namespace binade

template <>
struct fmt::formatter<binade::Where> : binade::PlainFormatter {
  auto format(const binade::Where& where, fmt::format_context& ctx) const { return write(where.to_string(), ctx); }
};
