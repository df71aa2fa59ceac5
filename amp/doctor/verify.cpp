#include <cstdio>

#include "amp/doctor/commands.h"
#include "amp/doctor/subject.h"
#include "amp/state_hash.h"
#include "core/error.h"
#include "io/checkpoint_store.h"

namespace binade::doctor {

int verify(const std::string& path) {
  int broken = 0;
  std::string last;
  for (const std::string& file : checkpoint_files(path)) {
    try {
      const io::DecodedCheckpoint checkpoint = io::load_checkpoint(file);
      check<NoCheckpointError>(checkpoint.info.state_hash.empty() ||
                                   amp::state_hash(checkpoint.state) == checkpoint.info.state_hash,
                               "checkpoint {}: its contents do not give the state hash that is written in it", file);
      const std::optional<std::string> sick = io::first_non_finite(checkpoint.state);
      check<NoCheckpointError>(!sick, "checkpoint {}: {}", file, sick.value_or(""));
      std::printf("whole    %s  %s  %s\n", file.c_str(), bytes_text(checkpoint.info.bytes).c_str(),
                  checkpoint.info.state_hash.c_str());
    } catch (const NoCheckpointError& e) {
      std::printf("damaged  %s\n", file.c_str());
      last = e.what();
      ++broken;
    }
  }
  check<NoCheckpointError>(broken == 0, "{}", last);
  return 0;
}

int hash(const std::string& path, const std::string& checkpoint) {
  const Subject subject = load(path, checkpoint);
  if (is_folder(path)) std::fprintf(stderr, "%s\n", subject.what.c_str());
  std::printf("%s\n", amp::state_hash(subject.checkpoint.state).c_str());
  return 0;
}

}  // namespace binade::doctor
