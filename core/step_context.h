#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binade/core/error.h"
#include "binade/core/random.h"

namespace binade {

/// Where this thread is: which step, which micro-batch, which op of the tape, inside which module. Errors, random
/// numbers, saved nodes and telemetry are keyed by it. The lower floors read it; the Trainer and the modules set it.
struct StepContext {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t micro_batch = 0;
  std::int64_t tape_index = 0;  ///< of the next op; the same op has the same index in every step of a static model
  bool recomputing = false;     ///< a recomputed segment runs again for backward: it must not move statistics
  std::string module_path{};    ///< "blocks.2.attention"; empty at the root
};

/// This thread's context.
StepContext& step_context();

/// The stream an op draws from: keyed by the context and the given tape index.
RandomStream random_stream(RngPurpose purpose, std::int64_t tape_index);

/// Enters a module for the lifetime of the object: every op recorded meanwhile carries `path`.
class ModulePathScope {
 public:
  explicit ModulePathScope(std::string path);
  ~ModulePathScope();
  ModulePathScope(const ModulePathScope&) = delete;
  ModulePathScope& operator=(const ModulePathScope&) = delete;

 private:
  std::string previous_;
};

/// How an error begins: "conv2d [encoder.0.conv1]", just the op outside modules. Format it where it was made.
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
