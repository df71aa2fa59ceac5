#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "amp/doctor/commands.h"
#include "core/error.h"
#include "io/checkpoint_file.h"

namespace binade::doctor {
namespace {

namespace fs = std::filesystem;

/// The name of the program that wrote a capsule: config.json has it.
std::string program_of(const std::string& capsule) {
  const StateDict state = io::load_checkpoint(capsule).state;
  check<CheckpointError>(state.contains("capsule/config"),
                         "replay: {} is no capsule; an incident's folder holds one, capsule.h5", capsule);
  const auto config = nlohmann::json::parse(state.text("capsule/config"), nullptr, false);
  const bool named = config.is_object() && config.contains("program") && config["program"].is_string();
  const std::string name = named ? fs::path(config["program"].get<std::string>()).filename().string() : "";
  check<ArgumentError>(!name.empty(), "replay: {} does not say which program wrote it; name one with --program",
                       capsule);
  return name;
}

/// Beside this program, or where a build leaves the examples.
std::string find_program(const std::string& name) {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* folder : {"", "../examples/transformer", "../examples/unet"})
    if (const fs::path candidate = here / folder / name; fs::exists(candidate, error))
      return fs::weakly_canonical(candidate, error).string();
  throw ArgumentError(fmt::format("replay: there is no {} beside binade-doctor; name it with --program PATH", name));
}

}  // namespace

int replay(const std::string& capsule, const std::string& program) {
  std::string path = program.empty() ? find_program(program_of(capsule)) : program, word = "replay", file = capsule;
  const std::array<char*, 4> arguments{path.data(), word.data(), file.data(), nullptr};
  execv(path.c_str(), arguments.data());
  throw ArgumentError(fmt::format("replay: cannot run {}: {}", path, std::strerror(errno)));
}

}  // namespace binade::doctor
