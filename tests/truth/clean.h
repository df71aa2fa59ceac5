#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/truth/session.h"

namespace binade::truth {

/// A healthy training and the alarms that it raised: incidents, guard actions and warnings, one line each.
struct CleanRecord {
  std::string model{}, precision{}, kind{};
  std::uint64_t seed = 0;
  std::int64_t steps = 0;
  std::vector<std::string> alarms{};
};

/// Kinds of healthy trainings: "plain", "schedule" (warm-up and cosine), "curriculum" (the inputs grow at once),
/// "lengths" (batches of very different size), "sgd", "clipped".
const std::vector<std::string>& clean_kinds();

CleanRecord run_clean(const ModelEntry& model, const std::string& precision, const std::string& kind,
                      std::uint64_t seed, std::int64_t steps);

}  // namespace binade::truth
