#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "binade/core/error.h"
#include "binade/doctor/commands.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/text/json_reader.h"
#include "binade/run/known_programs.h"

namespace binade::doctor {
namespace {

/// Returns the name of the program that wrote a repro bundle, from its config.json.
std::string program_of(const std::string& bundle) {
  const StateDict state = io::load_checkpoint(bundle).state;
  check<CheckpointError>(state.contains("capsule/config"),
                         "replay: {} is not a repro bundle; an incident's folder holds one, capsule.h5", bundle);
  const std::string& settings = state.text("capsule/config");  // empty if the program has no settings
  const auto config = settings.empty() ? nlohmann::json() : io::parse_json<nlohmann::json>(settings, bundle);
  const bool named = config.is_object() && config.contains("program") && config["program"].is_string();
  check<ArgumentError>(named, "replay: {} does not say which program wrote it; name one with --program", bundle);
  return config["program"].get<std::string>();
}

}  // namespace

int replay(const std::string& bundle, const std::string& program) {
  std::string path = program.empty() ? amp::known_program_path(program_of(bundle)) : program, word = "replay",
              file = bundle;
  const std::array<char*, 4> arguments{path.data(), word.data(), file.data(), nullptr};
  execv(path.c_str(), arguments.data());
  throw ArgumentError(fmt::format("replay: cannot run {}: {}", path, std::strerror(errno)));
}

}  // namespace binade::doctor
