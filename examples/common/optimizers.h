#pragma once

#include <memory>
#include <string>
#include <vector>

#include "binade.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// Returns the values of --optimizer.
std::vector<std::string> optimizer_names();
/// Makes the optimizer that --optimizer names, with the options that flags set.
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainSettings& s, nn::Module& model);
/// True if the optimizer averages weights instead of following a schedule, and applies the warm-up itself.
inline bool is_schedule_free(const TrainSettings& s) { return s.optimizer == "schedule-free"; }

}  // namespace binade::examples
