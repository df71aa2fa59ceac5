#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "binade/io/data/collate.h"
#include "binade/io/data/data_batch.h"
#include "binade/io/data/dataset.h"
#include "binade/io/data/loader.h"

namespace binade::io {

/// The collate function of make_loader() by default.
struct DefaultCollate {
  template <class Sample>
  auto operator()(std::vector<Sample> samples) const {
    return collate(std::move(samples));
  }
};

namespace detail {

/// Stops the compilation, with the reason, if a type is not a data set.
template <class D>
struct DatasetType {
  static constexpr bool kHasSize = HasSize<D>;
  static constexpr bool kGets = GetsInContext<D> || Gets<D>;
  static constexpr bool kFits = kHasSize && kGets;
  static_assert(kHasSize, "data set: it must have `std::int64_t size() const`, the number of its samples");
  static_assert(
      kGets,
      "data set: it must have `Sample get(std::int64_t index) const` or `Sample get(std::int64_t index, const "
      "io::SampleContext& context) const`; const, because several workers call it at once");
};

/// Stops the compilation, with the reason, if a function cannot collate samples.
template <class F, class Sample>
struct CollateType {
  static constexpr bool kWithOrigin = std::invocable<const F&, std::vector<Sample>, const BatchOrigin&>;
  static constexpr bool kFits = kWithOrigin || std::invocable<const F&, std::vector<Sample>>;
  static_assert(
      kFits,
      "make_loader: the collate function must take `std::vector<Sample>` with the samples of the data set, and "
      "may take a `const io::BatchOrigin&` after it; it must be callable when it is const");
};

template <class F, class Sample>
auto call_collate(const F& f, std::vector<Sample> samples, const BatchOrigin& origin) {
  if constexpr (CollateType<F, Sample>::kWithOrigin)
    return f(std::move(samples), origin);
  else
    return f(std::move(samples));
}

/// The batch type of a loader: `Data` itself if it has a member `origin`, otherwise DataBatch<Data>.
template <class Data>
struct BatchOf {
  using type = DataBatch<Data>;
};
template <class Data>
requires requires(Data& data) { static_cast<BatchOrigin&>(data.origin); }
struct BatchOf<Data> {
  using type = Data;
};

template <class Batch, class F, class Sample>
Batch make_batch(const F& f, std::vector<Sample> samples, const BatchOrigin& origin) {
  if constexpr (std::is_same_v<Batch, decltype(call_collate(f, std::move(samples), origin))>)
    return call_collate(f, std::move(samples), origin);
  else
    return Batch{call_collate(f, std::move(samples), origin), {}};
}

template <class D, class F>
auto make_dataset_loader(D data, LoaderOptions options, F f) {
  using Sample = SampleOf<D>;
  using Batch = typename BatchOf<decltype(call_collate(f, std::vector<Sample>{}, BatchOrigin{}))>::type;
  options.samples = data.size();
  if (options.content.empty()) options.content = content_of_dataset(data);
  if (!options.sampler && !options.batch_sampler) options.sampler = sampler_of_dataset(data);
  const auto shared = std::make_shared<const D>(std::move(data));
  if (!options.same_content)
    options.same_content = [shared](std::int64_t i) { return same_content_of_dataset(*shared, i); };
  const std::uint64_t seed = options.seed;
  // The epoch of each sample is computed from its slot, because a batch may have samples of two epochs.
  const auto epoch_slots = static_cast<std::uint64_t>(BatchOrder(options).options().epoch);
  return Loader<Batch>(
      std::move(options),
      [shared, seed, epoch_slots, f = std::move(f)](const BatchOrigin& origin, const LoaderWork& work) -> Batch {
        std::vector<Sample> samples;
        samples.reserve(origin.samples.size());
        for (std::size_t row = 0; row < origin.samples.size(); ++row) {
          check<DataError>(!work.obsolete.stop_requested(), "loader: nobody takes this batch any more");
          const SampleContext context{.seed = seed,
                                      .slot = origin.slots[row],
                                      .epoch = static_cast<std::int64_t>(origin.slots[row] / epoch_slots),
                                      .obsolete = work.obsolete};
          samples.push_back(at_place(
              [&] {
                return fmt::format("{}, sample {} (slot {}, epoch {})", name_of_dataset(*shared), origin.samples[row],
                                   context.slot, context.epoch);
              },
              [&] { return get_sample(*shared, origin.samples[row], context); }));
        }
        return at_place(
            [&] {
              return fmt::format("{}, batch of slots {} to {} (epoch {})", name_of_dataset(*shared), origin.begin,
                                 origin.end - 1, origin.epoch);
            },
            [&] { return make_batch<Batch>(f, std::move(samples), origin); });
      });
}

}  // namespace detail

/// Makes a loader of a data set, which it owns:
///
///     auto loader = io::make_loader(io::ImageFolder("pets"), {.batch = 32, .seed = 1, .workers = 4});
///
/// The members `samples` and `content` of the options are filled in. `collate` makes a batch of samples:
/// `Data(std::vector<Sample>)`, or with a `const BatchOrigin&` after it for random choices. The batches of the loader
/// are DataBatch<Data>, or what `collate` returns if that has a member `origin`.
///
/// next() rethrows the exceptions of the data set and of `collate`. Their text then begins with the data set, and with
/// the sample or batch, its slot or slots and its epoch.
template <class D, class F = DefaultCollate>
auto make_loader(D data, LoaderOptions options, F collate = {}) {
  if constexpr (detail::DatasetType<D>::kFits) {
    if constexpr (detail::CollateType<F, SampleOf<D>>::kFits)
      return detail::make_dataset_loader(std::move(data), std::move(options), std::move(collate));
  }
}

}  // namespace binade::io
