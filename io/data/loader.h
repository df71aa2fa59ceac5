#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include "binade/core/runtime.h"
#include "binade/core/state_dict.h"
#include "binade/io/data/batch_order.h"

namespace binade::io {

/// Further arguments of the function that makes a batch, in addition to the batch's origin.
struct LoaderWork {
  std::shared_ptr<void> input{};  ///< result of LoaderBase::Read for this batch; null without such a function
  /// Stop is requested when the batch is no longer needed: the loader is destroyed, or moves to another position. A
  /// function that takes seconds should check it and throw, because the destructor waits for the threads.
  std::stop_token obsolete{};
};

/// Implementation of Loader<Batch>: the order, the worker threads, the cursors.
///
/// There are three cursors, each of which is a slot: made (by workers) >= read (returned by next()) >= consumed
/// (committed). Only `consumed` is state, so batches that were made or read but not committed come again after a resume
/// or a rewind. The number of workers does not affect the order: each worker makes the next batch that no other worker
/// has taken, and next() returns the batches in order, whichever is ready first.
class LoaderBase {
 public:
  /// Makes the batch that an origin describes. Several workers call it at once.
  using Make = std::function<std::shared_ptr<void>(const BatchOrigin&, const LoaderWork&)>;
  /// Reads the input of Make from a source that must be read in order. It is called for one batch at a time, in the
  /// order of the batches, except that batches of other ranks are left out, and that after a rewind, a seek or an
  /// exception an earlier batch may follow.
  using Read = std::function<std::shared_ptr<void>(const BatchOrigin&, const std::stop_token& obsolete)>;

  LoaderBase(LoaderOptions options, Make make, Read read = {});
  ~LoaderBase();
  LoaderBase(LoaderBase&&) noexcept;
  LoaderBase& operator=(LoaderBase&&) noexcept;

  /// Marks a batch and all before it as consumed. A later commit thus includes batches that were skipped.
  void commit(const BatchOrigin& origin);
  /// Returns to the consumed cursor: next() repeats the batches that were read but not committed.
  void rewind();
  /// Sets the consumed and the read cursor (0 starts over; a later slot skips batches after a rollback).
  void seek(std::uint64_t slot);
  /// Excludes a sample from all batches that are read from now on. The quarantine is part of the state.
  void quarantine(std::int64_t sample);

  /// The batches that this rank makes: in every group of `period` consecutive batches, those with the numbers `first`
  /// to `end` - 1. share(), rewind(), seek() and load_state() begin a new group.
  struct Share {
    int period = 1, first = 0, end = 1;
    bool operator==(const Share&) const = default;
  };
  /// Sets the share, so that the workers do not make batches that skip() passes over. By default they make all batches.
  /// Does not change which batches next() and skip() return.
  void share(const Share& share);
  /// Passes over the next batch, without making it, and returns its origin: another rank computes it.
  BatchOrigin skip();

  std::uint64_t consumed() const;
  std::int64_t epoch() const;  ///< epoch of the consumed cursor, from 0
  /// Returns the number of batches in the epoch of the consumed cursor (only a batch sampler can make epochs differ). A
  /// batch with samples of two epochs is counted.
  std::int64_t batches_per_epoch() const;
  const LoaderOptions& options() const;

  /// Returns {epoch, position, seed, samples, order, content, quarantine}: the section "data/" of a checkpoint.
  StateDict state() const;
  /// Continues from `state`. Throws DataError if it belongs to other data (content hash, number of samples), and
  /// CheckpointError if seed or order differ or a number is out of range.
  void load_state(const StateDict& state);

 protected:
  std::shared_ptr<void> next_batch();  ///< see Loader::next()

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Loads batches of a data set in a fixed order; one or more threads prefetch them. make_loader() makes the loader of a
/// data set (io/data/make_loader.h). A loader can also call any function that makes the batch of given samples. With
/// prefetch > 0 the function runs in the worker threads, with workers > 1 in several at once:
///
///     Loader<MyBatch> loader({.batch = 8, .samples = count}, [&](const BatchOrigin& origin) { return … });
///     MyBatch batch = loader.next();
///     …
///     loader.commit(batch.origin);
///
/// `Batch` must have a member `origin`, which the loader sets.
template <class Batch>
class Loader : public LoaderBase {
 public:
  Loader(LoaderOptions options, std::function<Batch(const BatchOrigin&)> make)
      : Loader(std::move(options),
               [make = std::move(make)](const BatchOrigin& origin, const LoaderWork&) { return make(origin); }) {}
  /// The same for a function that uses LoaderWork, with an optional source that must be read in order.
  Loader(LoaderOptions options, std::function<Batch(const BatchOrigin&, const LoaderWork&)> make, Read read = {})
      : LoaderBase(
            std::move(options),
            [make = std::move(make)](const BatchOrigin& origin, const LoaderWork& work) -> std::shared_ptr<void> {
              auto batch = std::make_shared<Batch>(make(origin, work));
              batch->origin = origin;
              return batch;
            },
            std::move(read)) {}

  /// Returns the next batch, on the runtime's device if `Batch` has a function `to(Device)`. If `make` threw for this
  /// batch, rethrows its exception; the next call makes the same batch again. Throws ArgumentError while another thread
  /// is inside of next(), rewind(), seek() or load_state(): two threads would get the same batch.
  Batch next() {
    Batch batch = std::move(*std::static_pointer_cast<Batch>(next_batch()));
    if constexpr (requires { batch.to(Device{}); })
      return batch.to(Runtime::current_device());
    else
      return batch;
  }
};

}  // namespace binade::io
