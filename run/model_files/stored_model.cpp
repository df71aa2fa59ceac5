#include "binade/run/model_files/stored_model.h"

#include <fmt/core.h>

#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "binade/io/checkpoint/file.h"

namespace binade {

ChosenCheckpoint choose_checkpoint(const std::string& path, const io::CheckpointChoice& choice, const io::Warn& say) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path, io::load_checkpoint(path).state};
  const std::string inside = path + "/checkpoints", folder = fs::is_directory(inside, error) ? inside : path;
  io::FoundCheckpoint found = io::find_checkpoint(
      folder, choice, say ? say : [](const std::string&) {});
  const std::string file = folder + "/" + found.file;
  if (say) say(fmt::format("{}: {}", file, found.why));
  return {file, std::move(found.state)};
}

std::optional<std::string_view> averaged_parameter(std::string_view entry) {
  constexpr std::string_view kSection = "optim/", kPart = "ema/average/";
  const std::size_t part = entry.find(kPart);
  if (!entry.starts_with(kSection) || part == std::string_view::npos) return std::nullopt;
  if (part != kSection.size() && entry[part - 1] != '/') return std::nullopt;
  return entry.substr(part + kPart.size());
}

}  // namespace binade
