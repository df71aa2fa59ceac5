#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "binade/amp/step/batch_type.h"
#include "binade/amp/step/participants.h"
#include "binade/autograd/variable.h"
#include "binade/core/error.h"
#include "binade/core/runtime.h"
#include "binade/core/state_dict.h"
#include "binade/io/data/batch_order.h"

namespace binade::amp {

/// The micro-batches of one step.
template <class Batch>
struct MicroBatches {
  std::vector<Batch> batches{};
  /// Over several ranks, `batches` may be a part of the step's micro-batches, those from number `first` on. `origins`
  /// then has one entry for each micro-batch of the whole step; otherwise it is empty.
  int first = 0;
  std::vector<io::BatchOrigin> origins{};
};

/// Micro-batches [begin, end) of a step.
struct MicroBatchRange {
  int begin = 0, end = 0;
  int size() const { return end - begin; }
  bool contains(int i) const { return begin <= i && i < end; }
};

namespace detail {

/// True if the loader can leave out batches that other ranks compute, as io::Loader can.
template <class Loader>
concept CanSkip = requires(Loader& loader, typename Loader::Share share) {
  loader.share(share);
  { loader.skip() } -> std::same_as<io::BatchOrigin>;
  static_cast<const io::BatchOrigin&>(loader.next().origin);
};

/// The range that Trainer::batches() returns: the data of steps with `accumulate` micro-batches each, while `goes_on()`
/// is true. If the loader can skip() micro-batches, a rank gets only those that it computes.
template <class Loader>
class BatchRange {
 public:
  using Batch = std::remove_cvref_t<decltype(std::declval<Loader&>().next())>;
  struct End {};
  class Iterator {
   public:
    explicit Iterator(BatchRange& range) : range_(range) {}
    const MicroBatches<Batch>& operator*() {
      if (!read_) range_.read();
      read_ = true;
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

  /// `share()` returns the micro-batches of the next step that this rank computes.
  BatchRange(Loader& loader, std::int64_t accumulate, std::function<bool()> goes_on,
             std::function<MicroBatchRange()> share)
      : loader_(loader), accumulate_(accumulate), goes_on_(std::move(goes_on)), share_(std::move(share)) {}
  Iterator begin() { return Iterator(*this); }
  End end() { return {}; }

 private:
  void read() {
    current_ = {};
    const auto count = static_cast<int>(accumulate_);
    const MicroBatchRange share = share_();
    if constexpr (CanSkip<Loader>) {
      if (share.size() < count) {
        loader_.share({.period = count, .first = share.begin, .end = share.end});
        current_.first = share.begin;
        for (int i = 0; i < count; ++i) {
          if (!share.contains(i)) {
            current_.origins.push_back(loader_.skip());
            continue;
          }
          current_.batches.push_back(loader_.next());
          current_.origins.push_back(current_.batches.back().origin);
        }
        return;
      }
    }
    for (int i = 0; i < count; ++i) current_.batches.push_back(loader_.next());
  }

  Loader& loader_;
  std::int64_t accumulate_;
  std::function<bool()> goes_on_;
  std::function<MicroBatchRange()> share_;
  MicroBatches<Batch> current_;
};

}  // namespace detail

/// Copies of the micro-batches of a step, type-erased.
struct KeptBatches {
  std::shared_ptr<const void> batches{};
  int first = 0;                                                  ///< as in MicroBatches
  std::shared_ptr<const std::vector<io::BatchOrigin>> origins{};  ///< the same
  const std::type_info* type = nullptr;                           ///< type of one micro-batch
};

/// The closure and the micro-batches of one step, type-erased. Both must outlive the feed, unless it is a copy().
struct StepFeed {
  /// The optimizers of each phase of the step; an empty list stands for all optimizers of the trainer.
  std::vector<std::vector<optim::Optimizer*>> phases;
  /// Computes the loss of a micro-batch in one phase, without some of its samples.
  std::function<Variable(int phase, int micro_batch, std::span<const std::int64_t> without)> loss;
  std::vector<const io::BatchOrigin*> origins;  ///< origin of each micro-batch; null if its type has none
  int first = 0;                                ///< first micro-batch that this rank holds; other ranks hold others
  int count = 0;                                ///< number of micro-batches that this rank holds
  bool holds(int micro_batch) const { return first <= micro_batch && micro_batch < first + count; }
  bool holds_every_micro_batch() const { return count == static_cast<int>(origins.size()); }
  bool can_leave_out_samples = false;                  ///< true if the batch type has without(rows) and an origin
  std::function<StateDict(int micro_batch)> contents;  ///< state() of a micro-batch; empty if the type has no state()
  /// Computes the loss of a micro-batch with these contents; empty if the type has no from_state()
  /// and to(), or if the step has phases.
  std::function<Variable(int micro_batch, const StateDict& contents)> loss_of;
  std::string closure;  ///< identifies the closure, if there is loss_of
  /// Returns a feed that owns copies; empty if batches or closure cannot be copied.
  std::function<StepFeed()> copy;
  std::function<KeptBatches()> keep;  ///< copies the micro-batches; empty if their type cannot be copied
  /// Returns a feed with this closure and the micro-batches that an earlier feed kept; std::nullopt if their types
  /// differ. The closure must outlive the new feed. Empty if `keep` is empty.
  std::function<std::optional<StepFeed>(const KeptBatches& kept)> with;
  std::shared_ptr<const void> owned;          ///< the copies, if copy() or with() made this feed
  std::shared_ptr<const void> owned_origins;  ///< the same
};

namespace detail {

template <class Batch>
concept CanLoseSamples = requires(const Batch& b, std::span<const std::int64_t> rows) {
  b.without(rows);
  static_cast<const io::BatchOrigin&>(b.origin);
};

/// Returns the batch on the runtime's device. Needed because a batch from a repro bundle is on the host.
template <class Batch>
decltype(auto) on_device(const Batch& batch) {
  if constexpr (requires {
                  { batch.to(Device{}) } -> std::same_as<Batch>;
                })
    return batch.to(Runtime::current_device());
  else
    return (batch);
}

template <class Batch, class Closure>
Variable loss_without(const Batch& batch, std::span<const std::int64_t> without, Closure&& closure) {
  if constexpr (CanLoseSamples<Batch>)
    if (!without.empty()) return closure(on_device(batch.without(without)));
  return closure(on_device(batch));
}

/// The copies that StepFeed::copy() makes.
template <class Batch, class Closure>
struct Copies {
  Copies(std::vector<Batch> from, const Closure& f) : batches(std::move(from)), closure(f) {}
  std::vector<Batch> batches;
  Closure closure;
};

/// Returns a text that identifies the closure: the name of its type or, for a function pointer, its address.
template <class Closure>
std::string name_of(const Closure& closure) {
  if constexpr (requires { closure.target_type(); })
    return closure.target_type().name();
  else if constexpr (std::is_pointer_v<std::decay_t<Closure>>)
    return fmt::format("{}", reinterpret_cast<std::uintptr_t>(closure));
  else
    return typeid(Closure).name();
}

/// Says which of a step's micro-batches a rank holds: MicroBatches::first and MicroBatches::origins. By default it
/// holds all.
struct HeldPart {
  int first = 0;
  std::span<const io::BatchOrigin> origins{};
};

template <class Batch, class Closure>
StepFeed make_feed(std::span<const Batch> batches, Closure& closure, const HeldPart& part);

template <class Batch>
const io::BatchOrigin* origin_of(const Batch& batch) {
  if constexpr (requires { static_cast<const io::BatchOrigin&>(batch.origin); })
    return &batch.origin;
  else
    return nullptr;
}

}  // namespace detail

/// Makes the feed of a step. Does not compile, with an explanation, if the types do not fit (amp/step/batch_type.h).
template <class Batch, class Closure>
StepFeed feed_of(std::span<const Batch> batches, Closure& closure, const detail::HeldPart& part = {}) {
  if constexpr (detail::kFitsStep<Batch, std::remove_cvref_t<Closure>>)
    return detail::make_feed(batches, closure, part);
  else
    return {};
}
template <class Batch, class Closure>
StepFeed feed_of(const MicroBatches<Batch>& batches, Closure& closure) {
  return feed_of(std::span<const Batch>(batches.batches), closure, {batches.first, batches.origins});
}

template <class Batch, class Closure>
StepFeed detail::make_feed(std::span<const Batch> batches, Closure& closure, const HeldPart& part) {
  StepFeed feed;
  const int first = part.first;
  feed.first = first;
  feed.count = static_cast<int>(batches.size());
  constexpr bool kHasPhases = detail::kHasPhases<std::remove_cvref_t<Closure>>;
  if constexpr (kHasPhases)
    feed.phases = closure.optimizers();
  else
    feed.phases.resize(1);
  feed.loss = [batches, first, &closure](int phase, int i, std::span<const std::int64_t> without) {
    const auto loss_of = [&](const auto& batch) -> Variable {
      if constexpr (kHasPhases)
        return closure.loss(phase, batch);
      else
        return closure(batch);
    };
    return detail::loss_without(batches[static_cast<std::size_t>(i - first)], without, loss_of);
  };
  for (const io::BatchOrigin& origin : part.origins) feed.origins.push_back(&origin);
  if (part.origins.empty())
    for (const Batch& batch : batches) feed.origins.push_back(detail::origin_of(batch));
  feed.can_leave_out_samples = detail::CanLoseSamples<Batch>;
  if constexpr (requires(const Batch& b) {
                  { b.state() } -> std::convertible_to<StateDict>;
                })
    feed.contents = [batches, first](int i) { return batches[static_cast<std::size_t>(i - first)].state(); };
  if constexpr (!kHasPhases && requires(const StateDict& s) {
                  { Batch::from_state(s).to(Device{}) } -> std::same_as<Batch>;
                }) {
    feed.loss_of = [&closure](int, const StateDict& contents) -> Variable {
      return closure(detail::on_device(Batch::from_state(contents)));
    };
    feed.closure = detail::name_of(closure);
  }
  if constexpr (std::copy_constructible<Batch>) {
    feed.keep = [batches, part] {
      return KeptBatches{.batches = std::make_shared<const std::vector<Batch>>(batches.begin(), batches.end()),
                         .first = part.first,
                         .origins = std::make_shared<const std::vector<io::BatchOrigin>>(part.origins.begin(),
                                                                                         part.origins.end()),
                         .type = &typeid(Batch)};
    };
    feed.with = [&closure](const KeptBatches& kept) -> std::optional<StepFeed> {
      if (*kept.type != typeid(Batch)) return std::nullopt;
      StepFeed other = feed_of(std::span(*static_cast<const std::vector<Batch>*>(kept.batches.get())), closure,
                               {kept.first, *kept.origins});
      other.owned = kept.batches;
      other.owned_origins = kept.origins;
      return other;
    };
  }
  if constexpr (std::copy_constructible<Batch> && std::copy_constructible<std::decay_t<Closure>>)
    if (part.origins.empty())
      feed.copy = [batches, &closure] {
        const auto copies = std::make_shared<detail::Copies<Batch, std::decay_t<Closure>>>(
            std::vector<Batch>(batches.begin(), batches.end()), closure);
        StepFeed owning = feed_of(std::span<const Batch>(copies->batches), copies->closure);
        owning.owned = copies;
        return owning;
      };
  return feed;
}

}  // namespace binade::amp
