#include <map>

#include "binade/amp/state_hash.h"
#include "binade/core/error.h"
#include "binade/doctor/commands.h"
#include "binade/doctor/selected_checkpoint.h"
#include "binade/io/checkpoint/find.h"
#include "binade/io/terminal/console.h"

namespace binade::doctor {

namespace {

constexpr int kScreenLines = 24;

/// Totals of one section of a checkpoint.
struct Group {
  std::int64_t tensors = 0, elements = 0, values = 0;
  std::uint64_t bytes = 0;
};

void print_run(const std::string& path) {
  const std::string folder = checkpoints_folder(path);
  const io::ManifestReading reading = io::read_manifest(io::open_checkpoints(folder));
  io::print(folder + "\n");
  if (!reading.whole) io::print("  MANIFEST is missing or damaged; the next run rebuilds it from the files\n");
  const std::vector<io::ManifestEntry>& entries = reading.manifest.entries;
  const std::vector<std::size_t> best = io::best_first(entries);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const io::ManifestEntry& e = entries[i];
    std::string score;
    if (e.score)
      score = fmt::format("  score {:.6g} ({}){}", e.score->value, direction_of(*e.score),
                          best[0] == i ? ", the best" : "");
    io::print(fmt::format("  step {:<10} {:<9} {:<10} {}{}\n", e.step, name_of(e.status), bytes_text(e.bytes),
                          one_line(e.file), score));
  }
  if (reading.manifest.last_trouble > 0)
    io::print(fmt::format("  last trouble at step {}\n", reading.manifest.last_trouble));
}

void print_checkpoint(const io::DecodedCheckpoint& checkpoint, bool all) {
  const auto& [state, info] = checkpoint;
  io::print(fmt::format("  format {}.{}, written by {}, {}, whole\n", info.major, info.minor, one_line(info.writer),
                        bytes_text(info.bytes)));
  io::print(fmt::format("  {}\n", one_line(io::first_non_finite(state).value_or("every number is finite"))));
  if (!info.state_hash.empty())
    io::print(fmt::format("  state hash {}{}\n", one_line(info.state_hash),
                          amp::state_hash(state) == info.state_hash ? "" : " (which its contents do not match)"));
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
    io::print(fmt::format("  {:<10} {:4} tensors {:12} elements {:>9}, {} other values\n", one_line(name),
                          group.tensors, group.elements, bytes_text(group.bytes), group.values));
  int left = all ? static_cast<int>(state.values().size()) : kScreenLines;
  const auto list = [&](bool tensors) {
    for (const auto& [name, value] : state.values()) {
      if (std::holds_alternative<Tensor>(value) != tensors) continue;
      if (left-- <= 0) continue;
      io::print(fmt::format("  {:<48} {}\n", one_line(name), value_text(value)));
    }
  };
  list(false);
  list(true);
  if (left < 0) io::print(fmt::format("  … and {} more entries; use --all\n", -left));
}

}  // namespace

int inspect(const std::string& path, const std::string& checkpoint, bool all) {
  if (is_folder(path)) print_run(path);
  const SelectedCheckpoint selected = load(path, checkpoint);
  io::print(selected.description + "\n");
  print_checkpoint(selected.checkpoint, all);
  return 0;
}

}  // namespace binade::doctor
