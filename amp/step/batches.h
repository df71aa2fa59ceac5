#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace binade::amp {

/// The micro-batches of one step.
template <class Batch>
struct MicroBatches {
  std::vector<Batch> parts{};
};

namespace detail {

/// What Trainer::batches returns: batches of `accumulate` micro-batches for as long as `goes_on` says so.
template <class Loader>
class BatchRange {
 public:
  using Batch = std::remove_cvref_t<decltype(std::declval<Loader&>().next())>;
  struct End {};
  class Iterator {
   public:
    explicit Iterator(BatchRange& range) : range_(range) {}
    const MicroBatches<Batch>& operator*() {
      if (!read_) {
        range_.current_.parts.clear();
        for (std::int64_t i = 0; i < range_.accumulate_; ++i) range_.current_.parts.push_back(range_.loader_.next());
        read_ = true;
      }
      return range_.current_;
    }
    Iterator& operator++() {
      read_ = false;
      return *this;
    }
    bool operator!=(End) const { return range_.goes_on_(); }

   private:
    BatchRange& range_;
    bool read_ = false;
  };

  BatchRange(Loader& loader, std::int64_t accumulate, std::function<bool()> goes_on)
      : loader_(loader), accumulate_(accumulate), goes_on_(std::move(goes_on)) {}
  Iterator begin() { return Iterator(*this); }
  End end() { return {}; }

 private:
  Loader& loader_;
  std::int64_t accumulate_;
  std::function<bool()> goes_on_;
  MicroBatches<Batch> current_;
};

}  // namespace detail

}  // namespace binade::amp
