#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/core/state_counts.h"
#include "binade/io/data/make_loader.h"

namespace binade::io {

/// A data set that is read from its beginning to its end, such as an archive or the output of a program:
///
///     std::optional<Sample> next();            // the next sample of this pass; std::nullopt at the end
///     void restart(std::int64_t pass);         // goes to the beginning of a pass, numbered from 0
///
/// One thread at a time calls them. A pass must give the same samples every time. A resume must return to the saved
/// position. By default it reads and discards the samples before; either of these optional members makes it fast:
///
///     StateDict state() const; void load_state(const StateDict&);  // the position within a pass, and the pass
///     std::int64_t skip(std::int64_t count);   // passes over up to `count` samples, returns how many there were
///
/// With skip(), a rank passes over the samples of other ranks without reading them.
template <class S>
concept StreamDataset = requires(S& stream, std::int64_t pass) {
  stream.restart(pass);
  { stream.next().has_value() } -> std::convertible_to<bool>;
  *stream.next();
};

/// The type of the samples of a stream.
template <StreamDataset S>
using StreamedOf = std::remove_cvref_t<decltype(*std::declval<S&>().next())>;

namespace detail {

template <class S>
concept StreamHasState = requires(S& stream, const StateDict& state) {
  { stream.state() } -> std::convertible_to<StateDict>;
  stream.load_state(state);
};
template <class S>
concept StreamSkips = requires(S& stream) {
  { stream.skip(std::int64_t{}) } -> std::convertible_to<std::int64_t>;
};

/// Stops the compilation, with the reason, if a type is not a stream.
template <class S>
struct StreamType {
  static constexpr bool kFits = StreamDataset<S>;
  static_assert(
      kFits,
      "stream: it must have `std::optional<Sample> next()` and `void restart(std::int64_t pass)` (io/data/stream.h)");
};

/// A stream and its position. Slots number the samples of all passes.
template <class S>
class StreamReader {
 public:
  using Sample = StreamedOf<S>;
  /// A position in the stream, as a checkpoint stores it.
  struct Place {
    std::uint64_t slot = 0;
    std::int64_t pass = 0;
    std::int64_t position = 0;  ///< samples of the pass before this place
    StateDict stream{};         ///< state() of the stream there, if it has one
  };

  explicit StreamReader(S stream) : stream_(std::move(stream)) {}

  /// Returns the samples of slots [begin, end). The stream may be at any position before the call.
  std::vector<Sample> read(std::uint64_t begin, std::uint64_t end, const std::stop_token& obsolete) {
    const std::lock_guard lock(mutex_);
    go_to(begin, obsolete);
    std::vector<Sample> samples;
    while (at_.slot < end) samples.push_back(*advance(true, obsolete));
    remember_place();
    return samples;
  }
  /// Forgets the places before a slot.
  void forget_before(std::uint64_t slot) {
    const std::lock_guard lock(mutex_);
    const auto after = places_.upper_bound(slot);
    if (after != places_.begin()) places_.erase(places_.begin(), std::prev(after));
  }
  /// Returns the place of a slot.
  Place place_of(std::uint64_t slot) {
    const std::lock_guard lock(mutex_);
    if (slot == 0) return {};
    if (!places_.contains(slot)) {
      go_to(slot, {});
      remember_place();
    }
    return places_.at(slot);
  }
  /// Stores a place, so that the next read() from there moves to it directly.
  void set_place(Place place) {
    const std::lock_guard lock(mutex_);
    places_.clear();
    moved_ = true;
    places_[place.slot] = std::move(place);
  }

 private:
  void remember_place() {
    if constexpr (StreamHasState<S>) at_.stream = stream_.state();
    places_[at_.slot] = at_;
  }

  /// Moves to a slot: forward from the current position, or from the last known place before the slot.
  void go_to(std::uint64_t slot, const std::stop_token& obsolete) {
    if (!moved_ && at_.slot == slot) return;
    auto known = places_.upper_bound(slot);
    const bool has_known = known != places_.begin();
    if (moved_ || at_.slot > slot || (has_known && std::prev(known)->first > at_.slot)) {
      at_ = has_known ? std::prev(known)->second : Place{};
      moved_ = true;  // until the stream is there
      bool there = false;
      if constexpr (StreamHasState<S>)
        if (!at_.stream.empty()) stream_.load_state(at_.stream), there = true;
      if (!there) {
        stream_.restart(at_.pass);
        const std::int64_t wanted = at_.position;
        const std::uint64_t wanted_slot = at_.slot;
        at_.slot -= static_cast<std::uint64_t>(wanted);
        at_.position = 0;
        while (at_.position < wanted) {
          const std::int64_t pass = at_.pass;
          advance(false, obsolete, static_cast<std::uint64_t>(wanted - at_.position));
          check<DataError>(at_.pass == pass, "stream: wanted {} samples in pass {}, as before, got fewer", wanted,
                           pass);
        }
        at_.slot = wanted_slot;
      }
      moved_ = false;
    }
    while (at_.slot < slot) advance(false, obsolete, slot - at_.slot);
  }

  /// Reads the next sample or, if not `wanted`, skips up to `count` samples. At the end of a pass, begins the next.
  std::optional<Sample> advance(bool wanted, const std::stop_token& obsolete, std::uint64_t count = 1) {
    check<DataError>(!obsolete.stop_requested(), "loader: nobody takes this batch any more");
    try {
      return advance_stream(wanted, count);
    } catch (...) {
      moved_ = true;  // the stream may be past the sample for which it threw
      throw;
    }
  }
  std::optional<Sample> advance_stream(bool wanted, std::uint64_t count) {
    for (int passes = 0; passes < 2; ++passes) {
      if (at_.slot == 0 && !started_) stream_.restart(0);
      started_ = true;
      if constexpr (StreamSkips<S>) {
        if (!wanted) {
          const auto passed = static_cast<std::uint64_t>(stream_.skip(static_cast<std::int64_t>(count)));
          at_.slot += passed;
          at_.position += static_cast<std::int64_t>(passed);
          if (passed == count) return std::nullopt;
          count -= passed;
          next_pass();
          if (passed > 0) return std::nullopt;  // the caller continues in the next pass
          continue;
        }
      }
      std::optional<Sample> sample = at_place(
          [&] { return fmt::format("{}, slot {}", name_of_dataset(stream_), at_.slot); },
          [&]() -> std::optional<Sample> { return stream_.next(); });
      if (sample) {
        ++at_.slot;
        ++at_.position;
        return sample;
      }
      next_pass();
    }
    throw DataError(fmt::format("{}: the stream has no sample in pass {}", name_of_dataset(stream_), at_.pass - 1));
  }
  void next_pass() {
    ++at_.pass;
    at_.position = 0;
    stream_.restart(at_.pass);
  }

  std::mutex mutex_;
  S stream_;
  Place at_;                               // position of stream_
  bool started_ = false;                   // true after the first restart()
  bool moved_ = false;                     // true if stream_ may be elsewhere than at_
  std::map<std::uint64_t, Place> places_;  // ends of batches by slot
};

/// The number of samples that a Loader assumes for a stream: more than any stream has.
inline constexpr std::int64_t kEndlessSlots = std::int64_t{1} << 39;

}  // namespace detail

/// The loader of a stream. It is a Loader whose position includes that of the stream. The samples have no numbers, so
/// none can be quarantined: a step can leave out bad samples, but they come again in the next pass.
template <class S, class Batch>
class StreamLoader : public Loader<Batch> {
 public:
  using Reader = detail::StreamReader<S>;
  using Make = std::function<Batch(const BatchOrigin&, const LoaderWork&)>;
  StreamLoader(LoaderOptions options, std::shared_ptr<Reader> reader, Make make)
      : Loader<Batch>(std::move(options), std::move(make),
                      [reader](const BatchOrigin& origin, const std::stop_token& obsolete) -> std::shared_ptr<void> {
                        using Samples = std::vector<typename Reader::Sample>;
                        return std::make_shared<Samples>(reader->read(origin.begin, origin.end, obsolete));
                      }),
        reader_(std::move(reader)) {}

  /// Returns the number of the pass at the consumed cursor, from 0.
  std::int64_t pass() const { return reader_->place_of(this->consumed()).pass; }
  void quarantine(std::int64_t) = delete;
  /// Marks a batch and all before it as consumed.
  void commit(const BatchOrigin& origin) {
    LoaderBase::commit(origin);
    reader_->forget_before(this->consumed());
  }

  /// The state of Loader, and the place in the stream.
  StateDict state() const {
    StateDict state = LoaderBase::state();
    const typename Reader::Place place = reader_->place_of(this->consumed());
    state.put("stream/pass", place.pass);
    state.put("stream/position", place.position);
    state.merge("stream/state", place.stream);
    return state;
  }
  /// Continues from `state`. Throws as Loader::load_state().
  void load_state(const StateDict& state) {
    typename Reader::Place place{.pass = read_count(state, "stream/pass"),
                                 .position = read_count(state, "stream/position"),
                                 .stream = state.section("stream/state")};
    LoaderBase::load_state(state);
    place.slot = this->consumed();
    check<CheckpointError>(static_cast<std::uint64_t>(place.position) <= place.slot,
                           "data: the checkpoint's place in the stream is sample {} of a pass, but only {} were read",
                           place.position, place.slot);
    reader_->set_place(std::move(place));
  }

 private:
  std::shared_ptr<Reader> reader_;
};

namespace detail {

template <class S, class F>
auto make_loader_of_stream(S stream, LoaderOptions options, F f) {
  using Sample = StreamedOf<S>;
  using Batch = typename BatchOf<decltype(call_collate(f, std::vector<Sample>{}, BatchOrigin{}))>::type;
  check<ArgumentError>(!options.sampler && !options.batch_sampler,
                       "stream: its order is that in which it is read; wanted no sampler");
  options.samples = kEndlessSlots;
  options.order = SampleOrder::kSequential;
  options.last = LastBatch::kByOrder;
  if (options.content.empty()) options.content = content_of_dataset(stream);
  const std::string name = name_of_dataset(stream);
  return StreamLoader<S, Batch>(
      std::move(options), std::make_shared<StreamReader<S>>(std::move(stream)),
      [name, f = std::move(f)](const BatchOrigin& origin, const LoaderWork& work) -> Batch {
        return at_place([&] { return fmt::format("{}, batch of slots {} to {}", name, origin.begin, origin.end - 1); },
                        [&] {
                          return make_batch<Batch>(
                              f, std::vector<Sample>(*std::static_pointer_cast<std::vector<Sample>>(work.input)),
                              origin);
                        });
      });
}

}  // namespace detail

/// Makes a loader of a stream. One worker at a time reads, but all workers collate in parallel, so slow work on samples
/// belongs in `collate`. A batch may have samples of two passes. `order`, `last` and samplers of the options are not
/// used. Otherwise as make_loader().
template <class S, class F = DefaultCollate>
auto make_stream_loader(S stream, LoaderOptions options, F collate = {}) {
  if constexpr (detail::StreamType<S>::kFits) {
    if constexpr (detail::CollateType<F, StreamedOf<S>>::kFits)
      return detail::make_loader_of_stream(std::move(stream), std::move(options), std::move(collate));
  }
}

/// Reads one pass of a stream from its beginning, in batches, and calls `f` with each. The last batch may be smaller.
/// It is meant for evaluation; for training, use make_stream_loader().
template <StreamDataset S, class F, class Collate = DefaultCollate>
void for_each_batch(S& stream, std::int64_t batch, F&& f, Collate collate = {}) {
  check<ArgumentError>(batch >= 1, "for_each_batch: wanted a batch of at least 1, got {}", batch);
  using Samples = std::vector<StreamedOf<S>>;
  using Batch = typename detail::BatchOf<decltype(detail::call_collate(collate, Samples{}, BatchOrigin{}))>::type;
  stream.restart(0);
  Samples samples;
  BatchOrigin origin;
  const auto finish = [&] {
    if (samples.empty()) return;
    Batch made = detail::make_batch<Batch>(collate, std::exchange(samples, {}), origin);
    made.origin = origin;
    f(std::as_const(made));
    origin = {.begin = origin.end, .end = origin.end};
  };
  while (auto sample = stream.next()) {
    samples.push_back(std::move(*sample));
    origin.samples.push_back(static_cast<std::int64_t>(origin.end));
    origin.slots.push_back(origin.end++);
    if (std::ssize(samples) == batch) finish();
  }
  finish();
}

}  // namespace binade::io
