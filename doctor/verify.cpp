#include "binade/amp/state_hash.h"
#include "binade/core/error.h"
#include "binade/doctor/commands.h"
#include "binade/doctor/selected_checkpoint.h"
#include "binade/io/checkpoint/find.h"
#include "binade/io/files/file_ops.h"
#include "binade/io/terminal/console.h"

namespace binade::doctor {

int verify(const std::string& path) {
  int broken = 0;
  std::string last;
  for (const std::string& file : checkpoint_files(path)) {
    try {
      const io::DecodedCheckpoint checkpoint = io::load_checkpoint(file);
      io::check_name_fits(io::split_path(file).second, checkpoint.info);
      check<NoCheckpointError>(checkpoint.info.state_hash.empty() ||
                                   amp::state_hash(checkpoint.state) == checkpoint.info.state_hash,
                               "checkpoint {}: its contents do not match its state hash", file);
      const std::optional<std::string> non_finite = io::first_non_finite(checkpoint.state);
      check<NoCheckpointError>(!non_finite, "checkpoint {}: {}", file, non_finite.value_or(""));
      io::print(
          fmt::format("whole    {}  {}  {}\n", file, bytes_text(checkpoint.info.bytes), checkpoint.info.state_hash));
    } catch (const NoCheckpointError& e) {
      io::print(fmt::format("damaged  {}\n", file));
      last = e.what();
      ++broken;
    }
  }
  check<NoCheckpointError>(broken == 0, "{}", last);
  return 0;
}

int hash(const std::string& path, const std::string& checkpoint) {
  const SelectedCheckpoint selected = load(path, checkpoint);
  if (is_folder(path)) io::say(selected.description);
  io::print(amp::state_hash(selected.checkpoint.state) + "\n");
  return 0;
}

}  // namespace binade::doctor
