#include "amp/incident/incident_folders.h"

#include <cerrno>
#include <filesystem>

#include "amp/state_hash.h"
#include "core/error.h"
#include "io/checkpoint_file.h"
#include "io/file_ops.h"

namespace binade::amp {
namespace {

constexpr std::size_t kLargestCapsule = std::size_t{1} << 30;
constexpr int kMostCapsules = 16;

std::size_t bytes_of_tensors(const StateDict& state) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : state.values())
    if (const Tensor* tensor = std::get_if<Tensor>(&value)) bytes += tensor->bytes();
  return bytes;
}

}  // namespace

std::string IncidentFolders::of(std::int64_t step, std::int64_t attempt) {
  std::string& folder = folders_[{step, attempt}];
  if (!folder.empty()) return folder;
  const std::string name = fmt::format("{}/{:012}", parent_, step);
  folder = name;
  for (int repeat = 2; std::filesystem::exists(folder); ++repeat) folder = fmt::format("{}-{}", name, repeat);
  return folder;
}

std::string IncidentFolders::put(const std::string& folder, const std::string& file,
                                 std::span<const std::byte> bytes) const {
  io::FileOps& ops = io::FileOps::real();
  for (const std::string& path : {parent_, folder})
    if (const int error = ops.create_folder(path); error != 0 && error != EEXIST)
      return fmt::format("cannot create {}: {}", path, io::error_text(error));
  int descriptor = -1;
  int error = ops.open_folder(folder, descriptor);
  const io::FileHandle handle(ops, descriptor);
  if (error == 0) error = io::write_file_atomically(ops, handle.get(), file, bytes);
  return error == 0 ? "" : fmt::format("cannot write {}/{}: {}", folder, file, io::error_text(error));
}

std::string IncidentFolders::write(std::int64_t step, std::int64_t attempt, const std::string& file,
                                   const std::string& text) {
  return put(of(step, attempt), file, io::bytes_of(text));
}

std::string IncidentFolders::write_capsule(std::int64_t step, std::int64_t attempt, const StateDict& capsule) {
  if (capsules_ >= kMostCapsules) return fmt::format("no capsule: this run wrote {} already", capsules_);
  if (const std::size_t bytes = bytes_of_tensors(capsule); bytes > kLargestCapsule)
    return fmt::format("no capsule: it would be {} MiB", bytes >> 20);
  ++capsules_;
  const io::CheckpointImage image = io::encode_checkpoint(capsule, state_hash(capsule));
  return put(of(step, attempt), "capsule.h5", image.bytes());
}

}  // namespace binade::amp
