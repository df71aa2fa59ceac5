#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "binade/core/error.h"
#include "binade/core/random.h"
#include "binade/core/scope.h"

namespace binade {

/// The numbers of an op within a step. If a model does not change, its ops have the same numbers in every step.
struct OpNumbers {
  std::int64_t tape_index = 0;  ///< position on the tape
  /// Like tape_index, but casts that a precision policy inserts are not counted. Random numbers depend on it, so that
  /// they are the same under every policy
  std::int64_t call_index = 0;

  static OpNumbers at(std::int64_t both) { return {both, both}; }
};

/// Returns the larger of each number: no op before `a` and no op before `b` has it.
inline OpNumbers later(const OpNumbers& a, const OpNumbers& b) {
  return {std::max(a.tape_index, b.tape_index), std::max(a.call_index, b.call_index)};
}

/// The step, micro-batch, op and module that this thread executes. Error texts, random numbers, nodes of the tape and
/// telemetry read it. The Trainer and the modules set it.
struct StepContext {
  /// Seed of the random streams; std::nullopt: the seed of the Runtime that the thread uses, or 0 without a Runtime.
  std::optional<std::uint64_t> seed{};
  std::uint64_t step = 0;
  std::uint32_t micro_batch = 0;
  OpNumbers next{};
  bool recomputing = false;   ///< true while a segment is recomputed for backward; statistics must not change then
  std::string module_path{};  ///< "blocks.2.attention"; empty at the root
  /// Number of this pass of forward and backward, counted over all Trainers; 0 outside of a pass. An aborted pass and
  /// the retry of its step have different numbers. Random numbers do not depend on it
  std::uint64_t attempt = 0;
};

/// Returns this thread's context.
StepContext& step_context();
/// Returns the seed of this thread's random streams.
std::uint64_t current_seed();

/// Returns the random stream of the op call with number `call_index` (OpNumbers), for the seed, step and micro-batch of
/// this thread's context.
RandomStream random_stream(RngPurpose purpose, std::int64_t call_index);

/// Sets the module path of this thread's context for the lifetime of the object.
class ModulePathScope : ScopedValue<std::string> {
 public:
  explicit ModulePathScope(std::string path) : ScopedValue(step_context().module_path, std::move(path)) {}
};

/// The beginning of an error text: "conv2d [encoder.0.conv1]", or only the op's name outside modules. The module path
/// is read from this thread's context at the time of formatting, so format a Where in the function that creates it.
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
