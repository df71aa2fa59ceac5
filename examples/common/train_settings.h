#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/common/settings.h"

namespace binade::examples {

/// Largest number of captured steps in flight on a GPU: one runs while the next one waits.
inline constexpr std::int64_t kStepsAhead = 2;

/// Settings of `train`; each member holds the value of the flag of the same name, except `loads_checkpoint` and
/// `changes` (`overrides` is --override). Each program sets its own defaults before parsing.
struct TrainSettings {
  std::string data{}, val_data{};
  double val_fraction = 0.1;
  std::string run{};
  std::string resume{};           ///< empty: begin a run; "must": resume it; "auto": resume it if it exists
  bool loads_checkpoint = false;  ///< set by resolve_settings(): true if the run resumes from a checkpoint
  bool supervise = false;
  std::int64_t ranks = 1, min_ranks = 0;
  double rank_deadline = 0;            // seconds; 0: the communicator's own
  std::vector<std::string> changes{};  ///< settings of a resumed run that the command line changed
  std::string init_from{}, config{};
  std::int64_t steps = 0, batch = 0, accumulate = 1, leaves = 0, seed = 1, threads = 0;
  bool deterministic = true, record = true;
  std::string plans = "timed";

  std::string precision{};  ///< if empty, choose_policy() sets it
  std::vector<std::string> overrides{};
  std::string on_nan = "ladder";
  std::vector<std::string> inject{};
  std::string loss_scale = "auto";   ///< "auto": the policy decides; any other value applies in every precision
  std::string init_scale = "65536";  ///< a number or "auto"

  std::string optimizer = "adamw", schedule = "cosine", clip_mode = "norm";
  double lr = 1e-3, min_lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, momentum = 0.9, weight_decay = 0, clip = 0,
         ema = 0;
  std::int64_t warmup = 0, schedule_steps = 0;

  std::string device = "auto";
  std::int64_t checkpoint_every = 0, keep = 5, eval_every = 0, log_every = 10, verify_every = 0;
  double checkpoint_minutes = 10;
  std::string save_failure = "continue";
  bool state_hash = false;
  bool forecast_memory = true;
};

/// Adds all settings of `train` to the table.
void add_train_settings(Settings& table, TrainSettings& s);

/// Sets --schedule-steps from --steps, and checks rules between settings and formats: --min-lr <= --lr, --loss-scale,
/// --override GLOB=P. Throws ArgumentError.
void complete_train_settings(TrainSettings& s);

}  // namespace binade::examples
