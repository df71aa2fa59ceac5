#include "examples/common/replay_program.h"

#include "binade/amp/incident/report.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/terminal/console.h"

namespace binade::examples {

StateDict open_repro_bundle(const std::string& path, Settings& table) {
  StateDict bundle = io::load_checkpoint(path).state;
  check<CheckpointError>(bundle.contains("capsule/config"),
                         "replay: {} is not a repro bundle; an incident's folder holds one, capsule.h5", path);
  check<ArgumentError>(!bundle.text("capsule/config").empty(),
                       "replay: {} was written by a program without settings; Trainer::replay runs it again", path);
  table.apply_json(bundle.text("capsule/config"), path);
  return bundle;
}

int report_replay(const amp::ReproReplay& replay) {
  io::say(fmt::format("{}\n{}", replay.same_bits ? "the same bits came out" : "other bits came out",
                      amp::report_markdown(replay.incident)));
  io::print(io::JsonObject()
                .add("step", replay.incident.step)
                .add("same_bits", replay.same_bits)
                .add_raw("report", amp::report_json(replay.incident))
                .text() +
            "\n");
  return 0;
}

}  // namespace binade::examples
