#include "tests/crash/power_loss.h"

#include <algorithm>

namespace binade::crash {

namespace {

constexpr std::size_t kSector = 512;
constexpr std::byte kGarbage{0xa5};

}  // namespace

PowerCut::PowerCut(const MemoryDisk& disk, std::size_t instant) : least_(disk.start()) {
  for (std::size_t i = least_.size(); i < disk.live().size(); ++i) least_.push_back({.folder = disk.live()[i].folder});
  const std::span<const DiskEvent> log = std::span(disk.log()).first(instant);
  std::vector<std::size_t> synced(least_.size(), 0);  // for each node: events before this index are permanent
  for (std::size_t i = 0; i < log.size(); ++i)
    if (log[i].kind == DiskEvent::Kind::kSync) synced[static_cast<std::size_t>(log[i].node)] = i;
  std::map<int, LooseFile> loose;
  for (std::size_t i = 0; i < log.size(); ++i) {
    const DiskEvent& event = log[i];
    if (event.kind == DiskEvent::Kind::kSync) continue;
    if (i < synced[static_cast<std::size_t>(event.node)]) {
      replay(event, least_);
      continue;
    }
    if (event.kind == DiskEvent::Kind::kEntries) {
      loose_entries_.push_back(&event);
      continue;
    }
    LooseFile& file = loose.try_emplace(event.node, LooseFile{event.node, {}, {}}).first->second;
    if (file.sizes.empty()) file.sizes.push_back(least_[static_cast<std::size_t>(event.node)].bytes.size());
    const std::uint64_t end = event.offset + event.bytes.size();
    file.sizes.push_back(event.kind == DiskEvent::Kind::kSize ? event.offset : std::max(file.sizes.back(), end));
    for (std::uint64_t at = event.offset; at < end;) {
      const std::uint64_t next = std::min(end, (at / kSector + 1) * kSector);
      file.pieces.push_back({at, std::span(event.bytes).subspan(at - event.offset, next - at)});
      at = next;
    }
  }
  for (auto& [node, file] : loose) loose_files_.push_back(std::move(file));
}

/// Applies variant number `variant` of the unsynced writes to a file. The variants are, in this order: all pieces,
/// none, a prefix, all but one, a single one, then random subsets. The size is the last one, an earlier one, or one in
/// between. Gaps contain zeros or garbage.
void PowerCut::fill(const LooseFile& file, std::size_t variant, Node& node) {
  const std::size_t n = file.pieces.size();
  Draws draws(variant * 7919 + static_cast<std::size_t>(file.node));
  std::uint64_t size = file.sizes.back();
  std::vector<bool> there(n, variant == 0);
  if (variant == 1) {
    size = file.sizes.front();
  } else if (variant >= 2 && variant < 2 + n) {
    for (std::size_t i = 0; i < variant - 2; ++i) there[i] = true;
    if (draws.one_in(2)) size = std::min(size, (variant - 2) * kSector);
  } else if (variant >= 2 + n && variant < 2 + 3 * n) {
    const std::size_t one = (variant - 2) % n;
    const bool but = variant < 2 + 2 * n;
    there.assign(n, but);
    there[one] = !but;
  } else if (variant > 1) {
    for (std::size_t i = 0; i < n; ++i) there[i] = draws.one_in(2);
    size = draws.one_in(3) ? draws.below(size + 1) : file.sizes[draws.below(file.sizes.size())];
  }
  node.bytes.resize(std::min<std::size_t>(node.bytes.size(), size));
  node.bytes.resize(size, draws.one_in(2) ? kGarbage : std::byte{0});
  for (std::size_t i = 0; i < n; ++i) {
    const Piece& piece = file.pieces[i];
    if (!there[i] || piece.offset >= size) continue;
    const std::size_t bytes = std::min<std::size_t>(piece.bytes.size(), size - piece.offset);
    std::copy_n(piece.bytes.begin(), bytes, node.bytes.begin() + static_cast<std::ptrdiff_t>(piece.offset));
  }
}

DiskImage PowerCut::build(const Choice& choice) const {
  DiskImage image = least_;
  for (std::size_t i = 0; i < loose_entries_.size(); ++i)
    if ((choice.entries >> i & 1) != 0) replay(*loose_entries_[i], image);
  for (std::size_t i = 0; i < loose_files_.size(); ++i)
    fill(loose_files_[i], choice.data[i], image[static_cast<std::size_t>(loose_files_[i].node)]);
  return image;
}

void PowerCut::each(std::size_t most, Draws& draws, const std::function<void(const DiskImage&)>& visit) const {
  const std::size_t entries = std::min<std::size_t>(loose_entries_.size(), 63);
  double states = static_cast<double>(std::uint64_t{1} << entries);
  const double combinations = states;
  for (const LooseFile& file : loose_files_) states *= static_cast<double>(variants(file));
  Choice choice;
  choice.data.resize(loose_files_.size());
  const bool all = states <= static_cast<double>(most);
  const std::size_t count = all ? static_cast<std::size_t>(states) : most;
  for (std::size_t i = 0; i < count; ++i) {
    const bool in_order = all || (combinations <= static_cast<double>(most / 2) && i < 2 * combinations);
    std::size_t rest = i >> entries;
    choice.entries = in_order ? i & ((std::uint64_t{1} << entries) - 1) : draws.bits();
    for (std::size_t f = 0; f < choice.data.size(); ++f) {
      const std::size_t n = variants(loose_files_[f]);
      choice.data[f] = in_order ? rest % n : draws.below(n);
      if (all) rest /= n;
    }
    visit(build(choice));
  }
}

}  // namespace binade::crash
