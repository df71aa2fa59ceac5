#include "binade/cuda/quarantine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "binade/core/gpus.h"
#include "binade/cuda/gpu.h"

namespace binade {
namespace cuda {
namespace {

constexpr std::string_view kHead =
    "# Plans of GPU libraries whose results were wrong on this machine: Binade's own kernels compute these keys.\n"
    "# Remove a line to use the library again.\n";
constexpr std::string_view kWord = "quarantined ";

thread_local bool t_only_own = false;

bool is_key(std::string_view line) {
  return !line.empty() && line[0] != '#' && std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; });
}

/// Appends `text` in one write, so that lines of several processes do not mix.
std::string append(const std::string& file, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  const int to = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const bool written = to >= 0 && write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const std::string why = written ? std::string() : fmt::format("{}: {}", file, std::strerror(errno));
  if (to >= 0) close(to);
  return why;
}

}  // namespace

Quarantine::Quarantine(const Api& api, std::string file, std::string title)
    : api_(api), file_(std::move(file)), title_(std::move(title)) {
  std::ifstream lines(file_);
  for (std::string line; std::getline(lines, line);)
    if (is_key(line)) keys_.insert(line);
  if (!keys_.empty()) tell_module();
}

std::string Quarantine::add(const std::vector<std::string>& keys) {
  std::string text = file_.empty() || std::filesystem::exists(file_) ? std::string() : std::string(kHead);
  for (const std::string& key : keys)
    if (keys_.insert(key).second) text += key + "\n";
  tell_module();
  return file_.empty() ? "there is no folder for it" : append(file_, text);
}

void Quarantine::suspend(std::vector<std::string> keys) {
  suspended_ = std::move(keys);
  tell_module();
}

std::string Quarantine::text() const {
  if (keys_.empty()) return {};
  std::string text = title_ + "\n";
  for (const std::string& key : keys_) text += fmt::format("{}{}\n", kWord, key);
  return text;
}

int Quarantine::use(std::string_view plans) {
  std::istringstream lines{std::string(plans)};
  bool is_ours = false;
  int taken = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kWord)) {
      is_ours = line == title_;
    } else if (is_ours && is_key(line)) {
      keys_.insert(line.substr(kWord.size()));
      ++taken;
    }
  }
  if (taken > 0) tell_module();
  return taken;
}

void Quarantine::tell_module() const {
  std::string text;
  for (const std::string& key : keys_) text += key + "\n";
  for (const std::string& key : suspended_) text += key + "\n";
  check(api_.refuse_keys(text.c_str()), "quarantined plans");
}

bool only_own_kernels() { return t_only_own; }

}  // namespace cuda

namespace gpus {

OwnKernels::OwnKernels() noexcept : previous_(std::exchange(cuda::t_only_own, true)) {}
OwnKernels::~OwnKernels() { cuda::t_only_own = previous_; }

std::vector<std::string> OwnKernels::take_keys() {
  std::vector<std::string> keys;
  if (cuda::facts() == nullptr) return keys;
  const char* text = "";
  cuda::check(cuda::api().recorded_keys(&text), "keys of plans");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) keys.push_back(line);
  return keys;
}

std::string library_of_plan(std::string_view key) {
  const bool is_product = key.starts_with("gemm ") || key.starts_with("product ");
  const std::string_view name = is_product ? "cublaslt" : "cudnn";
  for (const auto& [library, version] : versions())
    if (library == name) return fmt::format("{} {}", library, version.empty() ? "of unknown version" : version);
  return std::string(name);
}

std::string line_of_plan(std::string_view key) {
  std::istringstream lines(plans());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key) && (line.size() == key.size() || line[key.size()] == ' ')) return line;
  return std::string(key);
}

}  // namespace gpus
}  // namespace binade
