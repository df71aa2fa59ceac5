#include "binade/run/known_programs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "binade/core/code_file.h"
#include "binade/core/error.h"

namespace binade::amp {
namespace {

namespace fs = std::filesystem;

std::string names_text() {
  std::vector<std::string_view> names;
  for (const KnownProgram& p : kKnownPrograms) names.push_back(p.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string known_program_path(std::string_view name) {
  const auto* program = std::ranges::find(kKnownPrograms, name, &KnownProgram::name);
  check<ArgumentError>(
      program != kKnownPrograms.end(),
      "the program '{}' is not run because a file names it; wanted one of {}. If you trust it, name it "
      "with --program PATH",
      name, names_text());
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  check<ArgumentError>(!error && here.is_absolute(),
                       "{}: cannot find the folder of this program; name it with --program PATH", name);
  for (const fs::path& folder : {here, here / program->build_folder}) {
    const fs::path path = folder / program->name;
    if (!fs::exists(path, error)) continue;
    const std::string why = why_not_executable(path.string());
    check<ArgumentError>(why.empty(), "{} is not run: {}", path.string(), why);
    return fs::canonical(path, error).string();
  }
  throw ArgumentError(
      fmt::format("there is no {} beside this program in {}; name it with --program PATH", name, here.string()));
}

}  // namespace binade::amp
