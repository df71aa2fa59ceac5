#include "binade/doctor/selected_checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "binade/core/error.h"

namespace binade::doctor {

namespace {

namespace fs = std::filesystem;

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 8); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", values[i]);
  return fmt::format("[{}{}]", text, values.size() > 8 ? fmt::format(", … {} in all", values.size()) : "");
}

}  // namespace

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::string checkpoints_folder(const std::string& run) {
  const std::string inside = run + "/checkpoints";
  std::error_code error;
  if (fs::symlink_status(inside, error).type() != fs::file_type::not_found) return inside;
  const std::string itself = fs::canonical(run, error).string();  // a run folder may be given as a symbolic link
  return error ? run : itself;
}

std::vector<std::string> checkpoint_files(const std::string& path) {
  if (!is_folder(path)) return {path};
  const std::string folder = checkpoints_folder(path);
  const io::FileHandle handle = io::open_checkpoints(folder);
  std::vector<std::string> files;
  for (const std::string& name : io::newest_first(io::FileOps::real(), handle.get(), folder))
    files.insert(files.begin(), folder + "/" + name);
  check<NoCheckpointError>(!files.empty(), "{}: it holds no checkpoint", folder);
  return files;
}

SelectedCheckpoint load(const std::string& path, const std::string& which, io::CheckpointChoice usual) {
  const std::optional<io::CheckpointChoice> choice = which.empty() ? usual : io::checkpoint_choice(which);
  check<ArgumentError>(choice.has_value(), "--checkpoint: wanted best, newest or a step, got '{}'", which);
  if (!is_folder(path)) {
    check<ArgumentError>(which.empty(), "--checkpoint: wanted a run folder with it, got the file {}", path);
    return {io::load_checkpoint(path), path};
  }
  const std::string folder = checkpoints_folder(path);
  io::FoundCheckpoint found = io::find_checkpoint(folder, *choice);
  return {{std::move(found.state), std::move(found.info)}, fmt::format("{}/{}: {}", folder, found.file, found.why)};
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, '?');
  return text;
}

std::string type_text(const StateDict::Value& value) {
  if (const auto* t = std::get_if<Tensor>(&value))
    return fmt::format("{} {}", name_of(t->dtype()), t->shape().to_string());
  constexpr const char* kKinds[] = {"tensor", "integer", "number", "text", "integers", "numbers"};
  return kKinds[value.index()];
}

std::string value_text(const StateDict::Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* integers = std::get_if<StateDict::Integers>(&value)) return list_text(*integers);
  if (const auto* numbers = std::get_if<StateDict::Numbers>(&value)) return list_text(*numbers);
  if (const auto* text = std::get_if<std::string>(&value)) {
    return fmt::format("\"{}{}\"", one_line(text->substr(0, 60)), text->size() > 60 ? "…" : "");
  }
  return type_text(value);
}

}  // namespace binade::doctor
