#pragma once

#include "examples/common/model_file.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// What `eval` of both programs takes: which model, and which data to judge it by.
struct EvalSettings {
  ModelChoice model{};
  TrainSettings data{};  ///< its paths, its batch, its threads and its device
};

void add_eval_settings(Settings& table, EvalSettings& s);

/// Applies the flags. What they leave out of --data, --val-data and --val-fraction is what the run was trained with,
/// or, without --run, the program's default. `stored` is the table over `trained`, the program's training settings.
void settle_eval_settings(Settings& table, EvalSettings& s, Settings& stored, const TrainSettings& trained);

}  // namespace binade::examples
