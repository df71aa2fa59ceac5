#include "binade/core/memory_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace binade {
namespace {

/// A block to be placed. It is in use from event `begin` to event `end` of the trace; its size is rounded up to the
/// alignment.
struct Block {
  std::size_t bytes = 0;
  std::int64_t begin = 0, end = 0;

  std::int64_t length() const { return end - begin; }
};

/// A block with its place in the arena.
struct Placed {
  std::size_t offset, end_offset;
  std::int64_t begin, end;
};

/// Value of Placed::end for blocks that are in use during the whole time that a list covers.
constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

/// Placed blocks sorted by offset. They are stored in several short vectors, so that an insertion moves the elements of
/// one vector only.
class PlacedList {
 public:
  void insert(const Placed& p) {
    if (runs_.empty()) runs_.emplace_back();
    auto run = std::upper_bound(runs_.begin(), runs_.end(), p.offset, [](std::size_t offset, const auto& r) {
      return !r.empty() && offset < r.front().offset;
    });
    if (run != runs_.begin()) --run;
    const auto next = std::upper_bound(run->begin(), run->end(), p.offset,
                                       [](std::size_t offset, const Placed& q) { return offset < q.offset; });
    if (p.end == kForever && next != run->begin()) {  // merge adjacent blocks that are in use during the whole time
      Placed& before = *std::prev(next);
      if (before.end == kForever && before.end_offset == p.offset) {
        before.end_offset = p.end_offset;
        return;
      }
    }
    run->insert(next, p);
    constexpr std::size_t kLong = 512;
    if (run->size() < kLong) return;
    std::vector<Placed> tail(run->begin() + kLong / 2, run->end());
    run->resize(kLong / 2);
    runs_.insert(run + 1, std::move(tail));
  }

  /// Calls f(placed) for the blocks in order of offset, until f returns false.
  template <class F>
  void each(F&& f) const {
    for (const std::vector<Placed>& run : runs_)
      for (const Placed& p : run)
        if (!f(p)) return;
  }

 private:
  std::vector<std::vector<Placed>> runs_;
};

/// The placed blocks. Level 0 has one list for the whole time of the trace, level 1 a list for each half, level 2 one
/// for each quarter, and so on, so that a new block is compared only with blocks near it in time.
class Layout {
 public:
  explicit Layout(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) span_ = std::max(span_, block.end);
    constexpr std::size_t kWorthwhile = 512;  // number of blocks above which a list is divided
    while (levels_ < 9 && blocks.size() >> levels_ > kWorthwhile) ++levels_;
    lists_.resize((std::size_t{1} << levels_) - 1);
  }

  void insert(const Placed& p) {
    for (int level = 0; level < levels_; ++level) {
      const std::int64_t first = cell(p.begin, level), last = cell(p.end - 1, level);
      for (std::int64_t i = first; i <= last; ++i) {
        const bool throughout = first < i && i < last;
        list_of(i, level).insert(throughout ? Placed{p.offset, p.end_offset, -kForever, kForever} : p);
      }
    }
  }

  /// Returns a list that contains all placed blocks that are in use at the same time as `block`, and possibly others.
  const PlacedList& near(const Block& block) {
    int level = levels_ - 1;
    while (cell(block.begin, level) != cell(block.end - 1, level)) --level;
    return list_of(cell(block.begin, level), level);
  }

 private:
  std::int64_t cell(std::int64_t event, int level) const { return (event << level) / span_; }
  PlacedList& list_of(std::int64_t i, int level) {
    return lists_[(std::size_t{1} << level) - 1 + static_cast<std::size_t>(i)];
  }

  std::int64_t span_ = 1;
  int levels_ = 1;
  std::vector<PlacedList> lists_;
};

using Order = std::vector<std::uint32_t>;

/// The offset of each block, and the size of the arena that they need.
struct Packing {
  std::vector<std::size_t> offsets;
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
};

enum class Fit { kFirst, kBest };

/// Returns the offset of a gap for `block` between the placed blocks that are in use at the same time: the lowest gap
/// that is large enough (kFirst) or the smallest one (kBest).
std::size_t gap_for(const Block& block, const PlacedList& placed, Fit fit) {
  constexpr std::size_t kNoGap = std::numeric_limits<std::size_t>::max();
  std::size_t top = 0;  // largest end offset of the blocks visited so far
  std::size_t at = 0, tightest = kNoGap;
  placed.each([&](const Placed& p) {
    if (p.begin >= block.end || p.end <= block.begin) return true;
    if (p.offset > top && p.offset - top >= block.bytes && p.offset - top < tightest) {
      at = top;
      tightest = p.offset - top;
      if (fit == Fit::kFirst) return false;
    }
    top = std::max(top, p.end_offset);
    return true;
  });
  return tightest == kNoGap ? top : at;
}

/// Places the blocks in the given order. The first `stacked` blocks of the order are all in use at one moment and are
/// placed one after the other without gaps.
Packing pack(const std::vector<Block>& blocks, const Order& order, Fit fit, std::size_t stacked = 0) {
  Packing packing{std::vector<std::size_t>(blocks.size()), 0};
  Layout layout(blocks);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Block& block = blocks[order[k]];
    const std::size_t at = k < stacked ? packing.bytes : gap_for(block, layout.near(block), fit);
    packing.offsets[order[k]] = at;
    packing.bytes = std::max(packing.bytes, at + block.bytes);
    layout.insert({at, at + block.bytes, block.begin, block.end});
  }
  return packing;
}

/// The largest number of bytes in use at once, and the first event after which that number is in use.
struct Load {
  std::size_t most = 0;
  std::int64_t at = 0;
};

Load load_of(const std::vector<Block>& blocks) {
  std::vector<std::pair<std::int64_t, std::ptrdiff_t>> changes;
  changes.reserve(2 * blocks.size());
  for (const Block& block : blocks) {
    changes.emplace_back(block.begin, static_cast<std::ptrdiff_t>(block.bytes));
    changes.emplace_back(block.end, -static_cast<std::ptrdiff_t>(block.bytes));
  }
  std::sort(changes.begin(), changes.end());  // of changes at the same event, releases come first
  Load load;
  std::ptrdiff_t now = 0;
  for (const auto& [event, change] : changes) {
    now += change;
    if (now > static_cast<std::ptrdiff_t>(load.most)) load = {static_cast<std::size_t>(now), event};
  }
  return load;
}

/// Sorts the blocks by `key`, smallest first and equal ones by index, so that the same trace gives the same plan.
template <class Key>
Order sorted_by(const std::vector<Block>& blocks, Key&& key) {
  Order order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key(blocks[a]) < key(blocks[b]); });
  return order;
}

/// Packs the blocks in several orders and keeps the packing with the smallest arena.
class Search {
 public:
  Search(const std::vector<Block>& blocks, std::size_t bound) : blocks_(blocks), bound_(bound) {}

  bool done() const { return best_.bytes == bound_; }
  void try_order(const Order& order, Fit fit, std::size_t stacked = 0) {
    Packing packing = pack(blocks_, order, fit, stacked);
    if (packing.bytes >= best_.bytes) return;
    best_ = std::move(packing);
    order_ = order;
    fit_ = fit;
  }
  /// Starts with the best order. `rounds` times, it moves the block that ends highest in the arena to an earlier
  /// position in the order and packs the blocks again.
  void improve(int rounds) {
    Order order = order_;
    const Fit fit = fit_;
    Packing now = best_;
    for (int round = 0; round < rounds && !done(); ++round) {
      const auto top = std::find_if(order.begin(), order.end(),
                                    [&](std::uint32_t i) { return now.offsets[i] + blocks_[i].bytes == now.bytes; });
      const auto to = order.begin() + (top - order.begin()) / 2;
      std::rotate(to, top, top + 1);
      now = pack(blocks_, order, fit);
      if (now.bytes < best_.bytes) best_ = now;
    }
  }
  Packing& best() { return best_; }

 private:
  const std::vector<Block>& blocks_;
  std::size_t bound_;
  Packing best_;
  Order order_;
  Fit fit_ = Fit::kFirst;
};

/// Above these numbers of blocks, fewer orders are tried, because packing one order takes quadratic time in the worst
/// case.
constexpr std::size_t kManyTries = 1000, kSomeTries = 8000;

Packing search(const std::vector<Block>& blocks, const Load& load) {
  const auto bytes = [](const Block& p) { return -static_cast<double>(p.bytes); };
  const auto area = [](const Block& p) { return -static_cast<double>(p.bytes) * static_cast<double>(p.length()); };
  const auto length = [](const Block& p) { return -p.length(); };
  // In this order, the blocks in use at the moment with the most bytes come first; they are stacked without gaps.
  const auto at_fullest = [&](const Block& p) { return p.begin <= load.at && p.end > load.at; };
  const Order fullest = sorted_by(blocks, [&](const Block& p) {
    return at_fullest(p) ? std::pair(0, -p.length()) : std::pair(1, -static_cast<std::int64_t>(p.bytes));
  });
  const auto stacked = static_cast<std::size_t>(std::count_if(blocks.begin(), blocks.end(), at_fullest));
  Search search(blocks, load.most);
  for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
    search.try_order(fullest, fit, stacked);
    if (blocks.size() > kSomeTries || search.done()) return std::move(search.best());
  }
  const Order orders[] = {sorted_by(blocks, bytes), sorted_by(blocks, area), sorted_by(blocks, length),
                          sorted_by(blocks, [](const Block& p) { return p.begin; }),
                          sorted_by(blocks, [](const Block& p) { return -p.end; })};
  for (const Order& order : orders) {
    for (const Fit fit : {Fit::kFirst, Fit::kBest})
      if (!search.done()) search.try_order(order, fit);
  }
  search.improve(blocks.size() <= kManyTries ? 100 : 4);
  return std::move(search.best());
}

}  // namespace

MemoryPlan plan_memory(const MemoryTrace& trace, std::size_t alignment) {
  std::vector<Block> blocks;
  std::vector<std::size_t> block_of;
  for (std::size_t i = 0; i < trace.blocks.size(); ++i) {
    const auto& [bytes, allocated, released] = trace.blocks[i];
    if (released == MemoryTrace::kKept) continue;
    blocks.push_back({(bytes + alignment - 1) / alignment * alignment, allocated, released});
    block_of.push_back(i);
  }
  MemoryPlan plan{.offsets = std::vector<std::size_t>(trace.blocks.size(), MemoryPlan::kNone)};
  if (blocks.empty()) return plan;
  const Load load = load_of(blocks);
  const Packing packing = search(blocks, load);
  plan.bytes = packing.bytes;
  plan.bound = load.most;
  for (std::size_t k = 0; k < blocks.size(); ++k) plan.offsets[block_of[k]] = packing.offsets[k];
  return plan;
}

}  // namespace binade
