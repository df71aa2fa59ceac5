#include "binade/run/incident_folders.h"

#include "binade/amp/state_hash.h"
#include "binade/io/checkpoint/file.h"

namespace binade::amp {
namespace {

constexpr std::size_t kLargestBundle = std::size_t{1} << 30;
constexpr int kMostBundles = 16;

std::size_t bytes_of_tensors(const StateDict& state) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : state.values())
    if (const Tensor* tensor = std::get_if<Tensor>(&value)) bytes += tensor->bytes();
  return bytes;
}

}  // namespace

const std::string& IncidentFolders::name_of(std::int64_t step, std::int64_t attempt) {
  std::string& folder = folders_[{step, attempt}];
  if (!folder.empty()) return folder;
  const std::string name = fmt::format("incidents/{:012}", step);
  folder = name;
  for (int repeat = 2; run_.holds(folder); ++repeat) folder = fmt::format("{}-{}", name, repeat);
  return folder;
}

std::string IncidentFolders::folder_of(std::int64_t step, std::int64_t attempt) {
  return run_.path_of(name_of(step, attempt));
}

std::string IncidentFolders::put(std::int64_t step, std::int64_t attempt, const std::string& file,
                                 std::span<const std::byte> bytes) {
  try {
    run_.replace(name_of(step, attempt) + "/" + file, bytes);
    return "";
  } catch (const StorageError& error) {
    return error.what();
  }
}

std::string IncidentFolders::write(std::int64_t step, std::int64_t attempt, const std::string& file,
                                   const std::string& text) {
  return put(step, attempt, file, io::bytes_of(text));
}

std::string IncidentFolders::write_repro_bundle(std::int64_t step, std::int64_t attempt, const StateDict& bundle) {
  if (bundles_ >= kMostBundles) return fmt::format("no repro bundle: this process has written {} already", bundles_);
  if (const std::size_t bytes = bytes_of_tensors(bundle); bytes > kLargestBundle)
    return fmt::format("no repro bundle: it would have {} MiB", bytes >> 20);
  ++bundles_;
  const io::CheckpointImage image = io::encode_checkpoint(bundle, state_hash(bundle));
  return put(step, attempt, "capsule.h5", image.bytes());
}

}  // namespace binade::amp
