#pragma once

#include "examples/common/model_file.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// Settings of `eval`: the model and the data to evaluate it on.
struct EvalSettings {
  ModelChoice model{};
  TrainSettings data{};  ///< only the paths of the data and the batch size are used
};

void add_eval_settings(Settings& table, EvalSettings& s);

/// Applies the flags. --data, --val-data and --val-fraction default to the values that the run was trained with or,
/// without --run, to the program's defaults. `stored` is the table of `trained`, the program's training settings.
void resolve_eval_settings(Settings& table, EvalSettings& s, Settings& stored, const TrainSettings& trained);

}  // namespace binade::examples
