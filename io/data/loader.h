#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "binade/core/runtime.h"
#include "binade/core/state_dict.h"
#include "binade/io/data/batch_order.h"

namespace binade::io {

/// The machinery under Loader<Batch>: the order, the worker thread, the cursors.
///
/// Three positions, all slots: made (by the worker) >= read (handed out by next) >= consumed (committed). Only
/// `consumed` is state: whatever was made or read and not committed comes again after a resume or a rewind. The worker
/// never changes the order: it makes the batches that next() would have made.
class LoaderBase {
 public:
  using Make = std::function<std::shared_ptr<void>(const BatchOrigin&)>;

  LoaderBase(LoaderOptions options, Make make);
  ~LoaderBase();
  LoaderBase(LoaderBase&&) noexcept;
  LoaderBase& operator=(LoaderBase&&) noexcept;

  /// Marks a batch, and every batch before it, as consumed. A batch that is skipped is passed over by the next commit.
  void commit(const BatchOrigin& origin);
  /// Forgets what was read and not committed: next() gives the batch at the consumed cursor again.
  void rewind();
  /// Goes to a slot: consumed and read cursor both (0 begins anew; a later one skips batches after a rollback).
  void seek(std::uint64_t slot);
  /// Leaves a sample out of every batch read from now on. Part of the state.
  void quarantine(std::int64_t sample);

  std::uint64_t consumed() const;
  std::int64_t epoch() const;  ///< of the consumed cursor, from 0
  /// Batches of one epoch of kSequential (the last may be smaller); of the other orders, rounded up.
  std::int64_t batches_per_epoch() const;
  const LoaderOptions& options() const;

  /// {epoch, position, seed, samples, order, content, quarantine}; goes under "data/" of a checkpoint.
  StateDict state() const;
  /// Continues from `state`. Throws DataError when it belongs to other data (content hash, number of samples), and
  /// CheckpointError when seed, order or batch differ, or a number is out of range.
  void load_state(const StateDict& state);

 protected:
  std::shared_ptr<void> next_batch();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Batches of a data set in a fixed order, made ahead by one thread. A data set is any function that makes the batch of
/// given samples; with prefetch > 0 it runs in the worker and must not touch what the caller changes:
///
///     Loader<MyBatch> loader({.batch = 8, .samples = count}, [&](const BatchOrigin& origin) { return … });
///     MyBatch batch = loader.next();
///     …
///     loader.commit(batch.origin);
///
/// `Batch` has a member `origin`, which is filled here.
template <class Batch>
class Loader : public LoaderBase {
 public:
  Loader(LoaderOptions options, std::function<Batch(const BatchOrigin&)> make)
      : LoaderBase(std::move(options), [make = std::move(make)](const BatchOrigin& origin) -> std::shared_ptr<void> {
          auto batch = std::make_shared<Batch>(make(origin));
          batch->origin = origin;
          return batch;
        }) {}

  /// The next batch, on the runtime's device where it has `to(Device)`. What `make` throws is thrown here, in its turn
  /// of the order; the next call tries again.
  Batch next() {
    Batch batch = std::move(*std::static_pointer_cast<Batch>(next_batch()));
    if constexpr (requires { batch.to(Device{}); })
      return batch.to(Runtime::current_device());
    else
      return batch;
  }
};

}  // namespace binade::io
