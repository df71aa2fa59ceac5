#include "binade/core/memory_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace binade {
namespace {

/// A block that has a place in the arena. It lives in [begin, end); its bytes are rounded up to the alignment.
struct Piece {
  std::size_t bytes = 0;
  std::int64_t begin = 0, end = 0;

  std::int64_t length() const { return end - begin; }
};

struct Placed {
  std::size_t offset, end_offset;
  std::int64_t begin, end;
};

/// The end of what lives throughout.
constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();

/// Placed pieces by offset, cut into short runs: an insertion moves no more than one.
class PlacedList {
 public:
  void insert(const Placed& p) {
    if (runs_.empty()) runs_.emplace_back();
    auto run = std::upper_bound(runs_.begin(), runs_.end(), p.offset, [](std::size_t offset, const auto& r) {
      return !r.empty() && offset < r.front().offset;
    });
    if (run != runs_.begin()) --run;
    const auto behind = std::upper_bound(run->begin(), run->end(), p.offset,
                                         [](std::size_t offset, const Placed& q) { return offset < q.offset; });
    if (p.end == kEver && behind != run->begin()) {  // neighbors that live throughout become one
      Placed& before = *std::prev(behind);
      if (before.end == kEver && before.end_offset == p.offset) {
        before.end_offset = p.end_offset;
        return;
      }
    }
    run->insert(behind, p);
    constexpr std::size_t kLong = 512;
    if (run->size() < kLong) return;
    std::vector<Placed> tail(run->begin() + kLong / 2, run->end());
    run->resize(kLong / 2);
    runs_.insert(run + 1, std::move(tail));
  }

  /// Calls f(placed) by offset until it returns false.
  template <class F>
  void each(F&& f) const {
    for (const std::vector<Placed>& run : runs_)
      for (const Placed& p : run)
        if (!f(p)) return;
  }

 private:
  std::vector<std::vector<Placed>> runs_;
};

/// What has been placed, and the same again for halves, quarters ... of the time, so that a piece is compared with
/// those near it in time alone.
class Layout {
 public:
  explicit Layout(const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) span_ = std::max(span_, piece.end);
    constexpr std::size_t kWorthwhile = 512;  // pieces in a list
    while (levels_ < 9 && pieces.size() >> levels_ > kWorthwhile) ++levels_;
    lists_.resize((std::size_t{1} << levels_) - 1);
  }

  void insert(const Placed& p) {
    for (int level = 0; level < levels_; ++level) {
      const std::int64_t first = cell(p.begin, level), last = cell(p.end - 1, level);
      for (std::int64_t i = first; i <= last; ++i) {
        const bool throughout = first < i && i < last;
        list_of(i, level).insert(throughout ? Placed{p.offset, p.end_offset, -kEver, kEver} : p);
      }
    }
  }

  /// Holds all that live at the same time as `piece`, and some that do not.
  const PlacedList& near(const Piece& piece) {
    int level = levels_ - 1;
    while (cell(piece.begin, level) != cell(piece.end - 1, level)) --level;
    return list_of(cell(piece.begin, level), level);
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

struct Packing {
  std::vector<std::size_t> offsets;
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
};

enum class Fit { kFirst, kBest };

/// Where `piece` goes: into the lowest (or the tightest) gap between what lives at the same time.
std::size_t gap_for(const Piece& piece, const PlacedList& placed, Fit fit) {
  constexpr std::size_t kNoGap = std::numeric_limits<std::size_t>::max();
  std::size_t top = 0;  // of what has been passed
  std::size_t at = 0, tightest = kNoGap;
  placed.each([&](const Placed& p) {
    if (p.begin >= piece.end || p.end <= piece.begin) return true;
    if (p.offset > top && p.offset - top >= piece.bytes && p.offset - top < tightest) {
      at = top;
      tightest = p.offset - top;
      if (fit == Fit::kFirst) return false;
    }
    top = std::max(top, p.end_offset);
    return true;
  });
  return tightest == kNoGap ? top : at;
}

/// Places the pieces one by one. The first `together` of the order live at one moment.
Packing pack(const std::vector<Piece>& pieces, const Order& order, Fit fit, std::size_t together = 0) {
  Packing packing{std::vector<std::size_t>(pieces.size()), 0};
  Layout layout(pieces);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Piece& piece = pieces[order[k]];
    const std::size_t at = k < together ? packing.bytes : gap_for(piece, layout.near(piece), fit);
    packing.offsets[order[k]] = at;
    packing.bytes = std::max(packing.bytes, at + piece.bytes);
    layout.insert({at, at + piece.bytes, piece.begin, piece.end});
  }
  return packing;
}

/// The bytes that live after each event; events are numbered from 0.
struct Load {
  std::size_t most = 0;
  std::int64_t at = 0;  // the first event after which the most lives
};

Load load_of(const std::vector<Piece>& pieces) {
  std::vector<std::pair<std::int64_t, std::ptrdiff_t>> changes;
  changes.reserve(2 * pieces.size());
  for (const Piece& piece : pieces) {
    changes.emplace_back(piece.begin, static_cast<std::ptrdiff_t>(piece.bytes));
    changes.emplace_back(piece.end, -static_cast<std::ptrdiff_t>(piece.bytes));
  }
  std::sort(changes.begin(), changes.end());  // at one event what is given back comes first
  Load load;
  std::ptrdiff_t now = 0;
  for (const auto& [event, change] : changes) {
    now += change;
    if (now > static_cast<std::ptrdiff_t>(load.most)) load = {static_cast<std::size_t>(now), event};
  }
  return load;
}

/// The pieces by `key`, smallest first; equal ones by number, so that the same trace gives the same plan.
template <class Key>
Order by(const std::vector<Piece>& pieces, Key&& key) {
  Order order(pieces.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key(pieces[a]) < key(pieces[b]); });
  return order;
}

/// Keeps the best packing that has been tried.
class Search {
 public:
  Search(const std::vector<Piece>& pieces, std::size_t bound) : pieces_(pieces), bound_(bound) {}

  bool done() const { return best_.bytes == bound_; }
  void try_order(const Order& order, Fit fit, std::size_t together = 0) {
    Packing packing = pack(pieces_, order, fit, together);
    if (packing.bytes >= best_.bytes) return;
    best_ = std::move(packing);
    order_ = order;
    fit_ = fit;
  }
  /// Places what sticks out highest earlier, again and again.
  void improve(int rounds) {
    Order order = order_;
    const Fit fit = fit_;
    Packing now = best_;
    for (int round = 0; round < rounds && !done(); ++round) {
      const auto top = std::find_if(order.begin(), order.end(),
                                    [&](std::uint32_t i) { return now.offsets[i] + pieces_[i].bytes == now.bytes; });
      const auto to = order.begin() + (top - order.begin()) / 2;
      std::rotate(to, top, top + 1);
      now = pack(pieces_, order, fit);
      if (now.bytes < best_.bytes) best_ = now;
    }
  }
  Packing& best() { return best_; }

 private:
  const std::vector<Piece>& pieces_;
  std::size_t bound_;
  Packing best_;
  Order order_;
  Fit fit_ = Fit::kFirst;
};

/// Each try looks at every pair of pieces at worst.
constexpr std::size_t kManyTries = 1000, kSomeTries = 8000;

Packing search(const std::vector<Piece>& pieces, const Load& load) {
  const auto bytes = [](const Piece& p) { return -static_cast<double>(p.bytes); };
  const auto area = [](const Piece& p) { return -static_cast<double>(p.bytes) * static_cast<double>(p.length()); };
  const auto length = [](const Piece& p) { return -p.length(); };
  // What lives at the fullest moment is stacked without a gap, then the rest fits in where it can.
  const auto at_fullest = [&](const Piece& p) { return p.begin <= load.at && p.end > load.at; };
  const Order fullest = by(pieces, [&](const Piece& p) {
    return at_fullest(p) ? std::pair(0, -p.length()) : std::pair(1, -static_cast<std::int64_t>(p.bytes));
  });
  const auto together = static_cast<std::size_t>(std::count_if(pieces.begin(), pieces.end(), at_fullest));
  Search search(pieces, load.most);
  for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
    search.try_order(fullest, fit, together);
    if (pieces.size() > kSomeTries || search.done()) return std::move(search.best());
  }
  const Order orders[] = {by(pieces, bytes), by(pieces, area), by(pieces, length),
                          by(pieces, [](const Piece& p) { return p.begin; }),
                          by(pieces, [](const Piece& p) { return -p.end; })};
  for (const Order& order : orders) {
    for (const Fit fit : {Fit::kFirst, Fit::kBest})
      if (!search.done()) search.try_order(order, fit);
  }
  search.improve(pieces.size() <= kManyTries ? 100 : 4);
  return std::move(search.best());
}

}  // namespace

MemoryPlan plan_memory(const MemoryTrace& trace, std::size_t alignment) {
  std::vector<Piece> pieces;
  std::vector<std::size_t> block_of;
  for (std::size_t i = 0; i < trace.blocks.size(); ++i) {
    const MemoryTrace::Block& block = trace.blocks[i];
    if (block.given_back == MemoryTrace::kKept) continue;
    pieces.push_back({(block.bytes + alignment - 1) / alignment * alignment, block.taken, block.given_back});
    block_of.push_back(i);
  }
  MemoryPlan plan{.offsets = std::vector<std::size_t>(trace.blocks.size(), MemoryPlan::kNone)};
  if (pieces.empty()) return plan;
  const Load load = load_of(pieces);
  const Packing packing = search(pieces, load);
  plan.bytes = packing.bytes;
  plan.bound = load.most;
  for (std::size_t k = 0; k < pieces.size(); ++k) plan.offsets[block_of[k]] = packing.offsets[k];
  return plan;
}

}  // namespace binade
