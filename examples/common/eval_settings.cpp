#include "examples/common/eval_settings.h"

#include "binade/io/files/run_folder.h"

namespace binade::examples {

void add_eval_settings(Settings& t, EvalSettings& s) {
  add_model_settings(t, s.model);
  t.add("data", &s.data.data, "data that the run was trained on", {.value = "PATH"});
  t.add("val-data", &s.data.val_data, "separate held-out data", {.value = "PATH"});
  t.add("val-fraction", &s.data.val_fraction, "share held out of --data", {.low = 1e-9, .high = 0.9});
}

void resolve_eval_settings(Settings& table, EvalSettings& s, Settings& stored, const TrainSettings& trained) {
  table.apply_flags();
  if (!s.model.run.empty()) stored.apply_json(io::read_run_config(s.model.run), s.model.run + "/config.json");
  if (!table.given("val-fraction")) s.data.val_fraction = trained.val_fraction;
  if (!table.given("data")) {
    s.data.data = trained.data;
    if (!table.given("val-data")) s.data.val_data = trained.val_data;
  }
}

}  // namespace binade::examples
