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

/// The name of the program that wrote a capsule: config.json has it.
std::string program_of(const std::string& capsule) {
  const StateDict state = io::load_checkpoint(capsule).state;
  check<CheckpointError>(state.contains("capsule/config"),
                         "replay: {} is no capsule; an incident's folder holds one, capsule.h5", capsule);
  const std::string& settings = state.text("capsule/config");  // empty: the program was one without settings
  const auto config = settings.empty() ? nlohmann::json() : io::parse_json<nlohmann::json>(settings, capsule);
  const bool named = config.is_object() && config.contains("program") && config["program"].is_string();
  check<ArgumentError>(named, "replay: {} does not say which program wrote it; name one with --program", capsule);
  return config["program"].get<std::string>();
}

}  // namespace

int replay(const std::string& capsule, const std::string& program) {
  std::string path = program.empty() ? amp::known_program_path(program_of(capsule)) : program, word = "replay",
              file = capsule;
  const std::array<char*, 4> arguments{path.data(), word.data(), file.data(), nullptr};
  execv(path.c_str(), arguments.data());
  throw ArgumentError(fmt::format("replay: cannot run {}: {}", path, std::strerror(errno)));
}

}  // namespace binade::doctor
