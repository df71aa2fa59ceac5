#include <cmath>
#include <cstdio>
#include <map>

#include "amp/doctor/commands.h"
#include "amp/doctor/subject.h"
#include "amp/state_hash.h"
#include "core/error.h"
#include "io/checkpoint_store.h"
#include "io/file_ops.h"

namespace binade::doctor {

namespace {

constexpr int kScreen = 24;

/// What a group holds, added up.
struct Group {
  std::int64_t tensors = 0, elements = 0, values = 0;
  std::uint64_t bytes = 0;
};

void print_run(const std::string& path) {
  const std::string folder = checkpoints_folder(path);
  io::FileOps& ops = io::FileOps::real();
  const io::FileHandle handle = io::open_folder(ops, folder);
  std::vector<std::byte> text;
  io::ManifestReading reading;
  if (io::read_file(ops, handle.get(), io::kManifestName, io::kManifestLimit, text) == 0)
    reading = io::manifest_from({reinterpret_cast<const char*>(text.data()), text.size()});
  else
    reading.whole = false;
  std::printf("%s\n", folder.c_str());
  if (!reading.whole) std::printf("  MANIFEST is missing or damaged; the next run rebuilds it from the files\n");
  for (const io::ManifestEntry& e : reading.manifest.entries)
    std::printf("  step %-10lld %-9s %-10s %s%s\n", static_cast<long long>(e.step),
                std::string(name_of(e.status)).c_str(), bytes_text(e.bytes).c_str(), e.file.c_str(),
                e.score ? fmt::format("  score {:.6g}", *e.score).c_str() : "");
  if (reading.manifest.last_trouble > 0)
    std::printf("  last trouble at step %lld\n", static_cast<long long>(reading.manifest.last_trouble));
}

void print_checkpoint(const io::DecodedCheckpoint& checkpoint, bool all) {
  const auto& [state, info] = checkpoint;
  std::printf("  format %lld.%lld, written by %s, %s, whole\n", static_cast<long long>(info.major),
              static_cast<long long>(info.minor), info.writer.c_str(), bytes_text(info.bytes).c_str());
  const std::optional<std::string> sick = io::first_non_finite(state);
  std::printf("  %s\n", sick ? sick->c_str() : "every number is finite");
  if (!info.state_hash.empty())
    std::printf("  state hash %s%s\n", info.state_hash.c_str(),
                amp::state_hash(state) == info.state_hash ? "" : " (its contents give another)");
  std::map<std::string, Group> groups;
  for (const auto& [name, value] : state.values()) {
    Group& group = groups[name.substr(0, name.find('/'))];
    if (const auto* t = std::get_if<Tensor>(&value)) {
      ++group.tensors;
      group.elements += t->numel();
      group.bytes += t->bytes();
    } else {
      ++group.values;
    }
  }
  for (const auto& [name, group] : groups)
    std::printf("  %-10s %4lld tensors %12lld elements %9s, %lld other values\n", name.c_str(),
                static_cast<long long>(group.tensors), static_cast<long long>(group.elements),
                bytes_text(group.bytes).c_str(), static_cast<long long>(group.values));
  int left = all ? static_cast<int>(state.values().size()) : kScreen;
  const auto list = [&](bool tensors) {
    for (const auto& [name, value] : state.values()) {
      if (std::holds_alternative<Tensor>(value) != tensors) continue;
      if (left-- <= 0) continue;
      std::printf("  %-48s %s\n", name.c_str(), value_text(value).c_str());
    }
  };
  list(false);
  list(true);
  if (left < 0) std::printf("  … and %d more entries: --all\n", -left);
}

}  // namespace

int inspect(const std::string& path, const std::string& checkpoint, bool all) {
  if (is_folder(path)) print_run(path);
  const Subject subject = load(path, checkpoint);
  std::printf("%s\n", subject.what.c_str());
  print_checkpoint(subject.checkpoint, all);
  return 0;
}

}  // namespace binade::doctor
