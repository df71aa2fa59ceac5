#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace binade::amp {

/// What an incident leads to, the cheapest first.
enum class RemedyAction : std::uint8_t {
  kNone,              ///< the step is run once more, as it was
  kLowerScale,        ///< at a loss scale that proved to fit
  kPromoteOp,         ///< with the ops to blame in f32, for a while
  kQuarantineSample,  ///< without the samples to blame, which never come again
  kSkipBatch,         ///< with the next batch, or without a micro-batch
  kRollback,          ///< from an earlier checkpoint
  kStop,              ///< not at all: a NumericError
};
std::string_view name_of(RemedyAction action);

struct Remedy {
  RemedyAction action = RemedyAction::kStop;
  std::string what{};           ///< the same in words
  std::string target{};         ///< the target of the remedy: "blocks.2.attention/matmul", "sample 17", "step 400"
  std::int64_t until_step = 0;  ///< when it ends by itself; 0: it does not
  std::int64_t steps_lost = 0;  ///< committed updates that are done again, or batches passed over
  double throughput_ratio = 0;  ///< speed of the step with it over that of the step before; 0: not measured
  double memory_ratio = 0;      ///< the same of the most tensor memory a step needs
  bool verified = false;        ///< a replay with it was finite
};

/// What incidents may lead to.
enum class OnNan : std::uint8_t {
  kLadder,  ///< the cheapest remedy that a replay shows to work
  kSkip,    ///< the next batch
  kStop,    ///< a NumericError
};

}  // namespace binade::amp
