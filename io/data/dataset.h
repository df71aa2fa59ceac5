#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/random.h"
#include "binade/core/tensor.h"
#include "binade/io/data/sampler.h"

namespace binade::io {

/// The position in a run at which a sample is read. Random choices must be functions of it, so that a resumed run, a
/// replay and any number of workers and ranks read the same sample.
struct SampleContext {
  std::uint64_t seed = 0;  ///< LoaderOptions::seed
  std::uint64_t slot = 0;  ///< position among all samples of all epochs
  std::int64_t epoch = 0;  ///< epoch of the slot, from 0
  /// Distinguishes the data sets and transforms that draw random numbers for one sample; part() sets it.
  std::uint32_t index = 0;
  /// Stop is requested when the sample is no longer needed. A get() that takes seconds should check it and throw.
  std::stop_token obsolete{};

  /// Returns the random numbers of this position: purpose kAugment, step = slot.
  RandomStream random() const { return {.seed = seed, .purpose = RngPurpose::kAugment, .step = slot, .index = index}; }
  /// Returns the context for step k of reading a sample (a data set or transform), with separate random numbers.
  SampleContext part(std::uint32_t k) const;
};

namespace detail {

template <class D>
concept HasSize = requires(const D& data) {
  { data.size() } -> std::convertible_to<std::int64_t>;
};
template <class D>
concept GetsInContext = requires(const D& data, std::int64_t i, const SampleContext& context) {
  data.get(i, context);
};
template <class D>
concept Gets = requires(const D& data, std::int64_t i) {
  data.get(i);
};

/// Returns the class name of a type, without namespaces and template arguments.
std::string class_name(const std::type_info& type);

}  // namespace detail

/// A data set with random access: `std::int64_t size() const` and `Sample get(std::int64_t index) const` or `Sample
/// get(std::int64_t index, const SampleContext& context) const`. Several threads call get() at once. Optional
/// members:
///
///     std::string name() const;                                          // for error messages
///     std::string content() const;                                       // a hash of the data; a resume compares it
///     std::vector<std::int64_t> same_content(std::int64_t index) const;  // samples that are quarantined together
///     std::shared_ptr<const Sampler> sampler() const;                    // the order, if the options name no other
template <class D>
concept Dataset = detail::HasSize<D> &&(detail::GetsInContext<D> || detail::Gets<D>);

/// Returns sample `index` of a data set. `index` must be in range.
template <Dataset D>
auto get_sample(const D& data, std::int64_t index, const SampleContext& context) {
  if constexpr (detail::GetsInContext<D>)
    return data.get(index, context);
  else
    return data.get(index);
}

/// The type of the samples of a data set.
template <Dataset D>
using SampleOf = decltype(get_sample(std::declval<const D&>(), 0, SampleContext{}));

/// Returns the name of a data set for messages: its name() or, without one, the name of its class.
template <class D>
std::string name_of_dataset(const D& data) {
  if constexpr (requires {
                  { data.name() } -> std::convertible_to<std::string>;
                })
    return data.name();
  else
    return detail::class_name(typeid(D));
}

/// Returns the hash of a data set's content, or an empty text if it has none.
template <class D>
std::string content_of_dataset(const D& data) {
  if constexpr (requires {
                  { data.content() } -> std::convertible_to<std::string>;
                })
    return data.content();
  else
    return {};
}

/// Returns the samples of a data set that are quarantined together with sample `index`: by default that sample alone.
template <class D>
std::vector<std::int64_t> same_content_of_dataset(const D& data, std::int64_t index) {
  if constexpr (requires { data.same_content(index); })
    return data.same_content(index);
  else
    return {index};
}

/// Returns the sampler() of a data set, or nullptr if it has none.
template <class D>
std::shared_ptr<const Sampler> sampler_of_dataset(const D& data) {
  if constexpr (requires {
                  { data.sampler() } -> std::convertible_to<std::shared_ptr<const Sampler>>;
                })
    return data.sampler();
  else
    return nullptr;
}

namespace detail {

/// Throws ArgumentError if the data set `part` has a sampler, which the data set `whole` would ignore.
template <class D>
void check_has_no_sampler(const D& part, std::string_view whole) {
  check<ArgumentError>(sampler_of_dataset(part) == nullptr,
                       "{}: {} has a sampler of its own, which would have no effect here; apply {} to the data sets "
                       "in it, and mix the results",
                       whole, name_of_dataset(part), whole);
}

/// Rethrows the current exception, nested (std::rethrow_if_nested), with place() before its text. std::bad_alloc
/// becomes OutOfMemoryError, any other exception that is not Binade's becomes DataError.
[[noreturn]] void rethrow_at(const std::function<std::string()>& place);

template <class F>
auto at_place(const std::function<std::string()>& place, F&& f) {
  try {
    return f();
  } catch (...) {
    rethrow_at(place);
  }
}

/// Returns sample `index`. The text of an exception names the data set and the sample.
template <class D>
auto get_part(const D& data, std::int64_t index, const SampleContext& context) {
  return at_place([&] { return fmt::format("{}, sample {}", name_of_dataset(data), index); },
                  [&] { return get_sample(data, index, context); });
}

void check_index(const std::string& name, std::int64_t index, std::int64_t size);
/// Returns the SHA-256 in hex over texts and their lengths.
std::string content_of_texts(const std::vector<std::string>& texts);
std::string content_of_tensors(std::span<const Tensor> tensors);
/// Returns the content hash of a data set that was derived from another one. `content`: the hash of the other one; if
/// it is empty, so is the result. `change`: a text that says what was changed.
std::string content_with(const std::string& content, const std::string& change);

}  // namespace detail

/// Holds any data set whose samples convert to Sample (type erasure). Copies share the data set.
template <class Sample>
class AnyDataset {
 public:
  template <Dataset D>
  requires(!std::same_as<D, AnyDataset> && std::convertible_to<SampleOf<D>, Sample>)
      AnyDataset(D data)  // NOLINT(google-explicit-constructor): a data set can be passed where any is wanted
      : size_(data.size()),
        name_(name_of_dataset(data)),
        content_(content_of_dataset(data)),
        sampler_(sampler_of_dataset(data)) {
    const auto owned = std::make_shared<const D>(std::move(data));
    get_ = [owned](std::int64_t i, const SampleContext& context) -> Sample { return get_sample(*owned, i, context); };
    same_content_ = [owned](std::int64_t i) { return same_content_of_dataset(*owned, i); };
  }
  /// The number of samples.
  std::int64_t size() const { return size_; }
  /// Returns sample `index`.
  Sample get(std::int64_t index, const SampleContext& context) const { return get_(index, context); }
  /// The name in messages.
  std::string name() const { return name_; }
  /// A hash of the content, which a resumed run compares.
  std::string content() const { return content_; }
  std::vector<std::int64_t> same_content(std::int64_t index) const { return same_content_(index); }
  /// The sampler of the data set, or nullptr if it has none.
  std::shared_ptr<const Sampler> sampler() const { return sampler_; }

 private:
  std::int64_t size_;
  std::string name_, content_;
  std::shared_ptr<const Sampler> sampler_;
  std::function<Sample(std::int64_t, const SampleContext&)> get_;
  std::function<std::vector<std::int64_t>(std::int64_t)> same_content_;
};

/// Tensors with one row per sample: sample i is a tuple of row i of each, or that row itself if there is one tensor.
template <std::same_as<Tensor>... T>
requires(sizeof...(T) >= 1) class TensorDataset {
 public:
  /// Copies tensors of other devices to the CPU. Throws ShapeError unless all have the same number of rows.
  explicit TensorDataset(T... tensors) : tensors_{tensors.on_host()...} {
    for (const Tensor& one : tensors_)
      check<ShapeError>(one.rank() >= 1 && one.dim(0) == size(),
                        "TensorDataset: wanted tensors with the same number of rows, got {} and {}",
                        tensors_[0].shape(), one.shape());
    content_ = detail::content_of_tensors(tensors_);
  }
  /// The number of samples.
  std::int64_t size() const { return tensors_[0].rank() == 0 ? 0 : tensors_[0].dim(0); }
  /// Returns sample `index`.
  auto get(std::int64_t index) const {
    detail::check_index("TensorDataset", index, size());
    if constexpr (sizeof...(T) == 1)
      return tensors_[0][index];
    else
      return [&]<std::size_t... I>(std::index_sequence<I...>) { return std::tuple{tensors_[I][index]...}; }
    (std::index_sequence_for<T...>{});
  }
  /// The name in messages.
  std::string name() const { return "TensorDataset"; }
  /// A hash of the content, which a resumed run compares.
  std::string content() const { return content_; }

 private:
  std::array<Tensor, sizeof...(T)> tensors_;
  std::string content_;
};

/// Some samples of a data set, in a given order.
template <Dataset D>
class Subset {
 public:
  /// Throws ArgumentError for an index outside of the data set, and for a data set that has a sampler.
  Subset(D data, std::vector<std::int64_t> indices) : data_(std::move(data)), indices_(std::move(indices)) {
    detail::check_has_no_sampler(data_, "Subset");
    for (const std::int64_t i : indices_) detail::check_index(name_of_dataset(data_), i, data_.size());
  }
  /// The number of samples.
  std::int64_t size() const { return std::ssize(indices_); }
  /// Returns sample `index`.
  SampleOf<D> get(std::int64_t index, const SampleContext& context) const {
    detail::check_index(name(), index, size());
    return detail::get_part(data_, indices_[static_cast<std::size_t>(index)], context);
  }
  /// The name in messages.
  std::string name() const { return "Subset of " + name_of_dataset(data_); }
  /// A hash of the content, which a resumed run compares.
  std::string content() const {
    return detail::content_with(content_of_dataset(data_), "subset " + describe(indices_));
  }
  const std::vector<std::int64_t>& indices() const { return indices_; }
  /// The samples of the subset that are quarantined together with sample `index`.
  std::vector<std::int64_t> same_content(std::int64_t index) const {
    const std::vector<std::int64_t> in_data = same_content_of_dataset(data_, indices_[static_cast<std::size_t>(index)]);
    std::vector<std::int64_t> alike;
    for (std::int64_t i = 0; i < size(); ++i)
      if (std::ranges::find(in_data, indices_[static_cast<std::size_t>(i)]) != in_data.end()) alike.push_back(i);
    return alike;
  }

 private:
  D data_;
  std::vector<std::int64_t> indices_;
};

/// The samples of several data sets, one data set after the other.
template <class Sample>
class ConcatDataset {
 public:
  /// Throws ArgumentError for no data set, and for a data set that has a sampler.
  explicit ConcatDataset(std::vector<AnyDataset<Sample>> parts) : parts_(std::move(parts)) {
    check<ArgumentError>(!parts_.empty(), "ConcatDataset: wanted at least one data set, got none");
    for (const auto& part : parts_) {
      detail::check_has_no_sampler(part, "ConcatDataset");
      ends_.push_back(size() + part.size());
    }
  }
  /// The number of samples.
  std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  /// Returns sample `index`.
  Sample get(std::int64_t index, const SampleContext& context) const {
    detail::check_index(name(), index, size());
    const std::size_t part = part_of(index);
    return detail::get_part(parts_[part], index - first_of(part), context);
  }
  /// The name in messages.
  std::string name() const { return "ConcatDataset"; }
  /// A hash of the content, which a resumed run compares.
  std::string content() const {
    std::vector<std::string> contents;
    for (const auto& part : parts_) {
      if (part.content().empty()) return {};
      contents.push_back(part.content());
    }
    return detail::content_of_texts(contents);
  }
  const std::vector<AnyDataset<Sample>>& parts() const { return parts_; }
  /// The samples that are quarantined together with sample `index`. All are of the same part.
  std::vector<std::int64_t> same_content(std::int64_t index) const {
    const std::size_t part = part_of(index);
    std::vector<std::int64_t> alike = parts_[part].same_content(index - first_of(part));
    for (std::int64_t& i : alike) i += first_of(part);
    return alike;
  }

 private:
  std::size_t part_of(std::int64_t index) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
  }
  std::int64_t first_of(std::size_t part) const { return part == 0 ? 0 : ends_[part - 1]; }

  std::vector<AnyDataset<Sample>> parts_;
  std::vector<std::int64_t> ends_;  // index after each part
};

/// Returns the concatenation of data sets. All must have samples of one type.
template <Dataset First, Dataset... More>
auto concat_datasets(First first, More... more) {
  using Sample = SampleOf<First>;
  std::vector<AnyDataset<Sample>> parts;
  parts.emplace_back(std::move(first));
  (parts.emplace_back(std::move(more)), ...);
  return ConcatDataset<Sample>(std::move(parts));
}

/// Settings of a MixedDataset.
struct MixedOptions {
  std::int64_t epoch = 0;  ///< samples per epoch; 0: the sum of the sizes
  std::uint64_t seed = 0;  ///< seed of the order of data sets and samples
};

/// Data sets mixed by weights. The samples are numbered as in ConcatDataset. sampler() draws them by the weights
/// (MixtureSampler); make_loader() uses it unless the options name another sampler. passes() returns how often each set
/// is read.
template <class Sample>
class MixedDataset {
 public:
  /// A data set and its share of an epoch. The shares need not add up to 1.
  struct Part {
    AnyDataset<Sample> data;
    double weight = 1;
  };
  /// Throws ArgumentError as MixtureSampler does.
  explicit MixedDataset(const std::vector<Part>& parts, const MixedOptions& options = {})
      : all_([&] {
          std::vector<AnyDataset<Sample>> data;
          for (const Part& part : parts) data.push_back(part.data);
          return data;
        }()) {
    MixtureOptions mixture{.epoch = options.epoch, .seed = options.seed};
    for (const Part& part : parts) {
      mixture.sizes.push_back(part.data.size());
      mixture.weights.push_back(part.weight);
    }
    sampler_ = std::make_shared<const MixtureSampler>(std::move(mixture));
  }
  /// The number of samples.
  std::int64_t size() const { return all_.size(); }
  /// Returns sample `index`.
  Sample get(std::int64_t index, const SampleContext& context) const { return all_.get(index, context); }
  /// The name in messages.
  std::string name() const { return "MixedDataset"; }
  /// A hash of the content, which a resumed run compares.
  std::string content() const { return all_.content(); }
  std::vector<std::int64_t> same_content(std::int64_t index) const { return all_.same_content(index); }
  std::shared_ptr<const Sampler> sampler() const { return sampler_; }
  /// Returns how many times each set has been read after a number of epochs (0.5: half of it).
  std::vector<double> passes(std::int64_t epochs) const { return sampler_->passes(epochs); }

 private:
  ConcatDataset<Sample> all_;
  std::shared_ptr<const MixtureSampler> sampler_;
};

/// Returns disjoint random subsets of given sizes, drawn by the seed. Throws ArgumentError unless the sizes add up to
/// the size of the data set.
template <Dataset D>
std::vector<Subset<D>> random_split(const D& data, const std::vector<std::int64_t>& sizes, std::uint64_t seed);
/// Returns two disjoint random subsets; the second has held_out_count(size, fraction) samples.
template <Dataset D>
std::pair<Subset<D>, Subset<D>> random_split(const D& data, double held_out, std::uint64_t seed);

namespace detail {
std::vector<std::vector<std::int64_t>> split_indices(std::int64_t size, const std::vector<std::int64_t>& sizes,
                                                     std::uint64_t seed);
std::vector<std::int64_t> held_out_sizes(std::int64_t size, double fraction);
}  // namespace detail

template <Dataset D>
std::vector<Subset<D>> random_split(const D& data, const std::vector<std::int64_t>& sizes, std::uint64_t seed) {
  std::vector<Subset<D>> parts;
  for (std::vector<std::int64_t>& indices : detail::split_indices(data.size(), sizes, seed))
    parts.emplace_back(data, std::move(indices));
  return parts;
}

template <Dataset D>
std::pair<Subset<D>, Subset<D>> random_split(const D& data, double held_out, std::uint64_t seed) {
  std::vector<Subset<D>> parts = random_split(data, detail::held_out_sizes(data.size(), held_out), seed);
  return {std::move(parts[0]), std::move(parts[1])};
}

/// A data set whose samples pass through a function: `f(sample)` or `f(sample, context)`.
template <Dataset D, class F>
class TransformedDataset {
  static_assert(
      std::invocable<const F&, SampleOf<D>, const SampleContext&> || std::invocable<const F&, SampleOf<D>>,
      "transform: the function must take a sample of the data set, by value or const reference, and may take a "
      "`const io::SampleContext&` after it; it must be callable when it is const");

 public:
  TransformedDataset(D data, F f) : data_(std::move(data)), f_(std::move(f)) {}
  /// The number of samples.
  std::int64_t size() const { return data_.size(); }
  /// Returns sample `index`.
  auto get(std::int64_t index, const SampleContext& context) const {
    if constexpr (std::invocable<const F&, SampleOf<D>, const SampleContext&>)
      return f_(get_sample(data_, index, context.part(0)), context.part(1));
    else
      return f_(get_sample(data_, index, context));
  }
  /// The name in messages.
  std::string name() const { return name_of_dataset(data_); }
  /// A hash of the content, which a resumed run compares.
  std::string content() const { return content_of_dataset(data_); }
  std::vector<std::int64_t> same_content(std::int64_t index) const { return same_content_of_dataset(data_, index); }
  std::shared_ptr<const Sampler> sampler() const { return sampler_of_dataset(data_); }

 private:
  D data_;
  F f_;
};

/// Returns the data set with every sample passed through `f`. The function runs in the workers, several at once.
template <Dataset D, class F>
TransformedDataset<D, F> transform(D data, F f) {
  return {std::move(data), std::move(f)};
}

/// Keeps the samples of a data set in memory once they were read. Copies share the memory. A sample must not depend on
/// its context: put random transforms after the cache. The tensors that get() returns are those in memory: a transform
/// must not write into them, but into a clone().
template <Dataset D>
class CachedDataset {
 public:
  explicit CachedDataset(D data)
      : data_(std::move(data)), kept_(std::make_shared<Kept>(static_cast<std::size_t>(data_.size()))) {}
  /// The number of samples.
  std::int64_t size() const { return data_.size(); }
  /// Returns sample `index`.
  SampleOf<D> get(std::int64_t index, const SampleContext& context) const {
    detail::check_index(name(), index, size());
    const auto i = static_cast<std::size_t>(index);
    {
      const std::lock_guard lock(kept_->mutex);
      if (kept_->samples[i]) return *kept_->samples[i];
    }
    // Reads without the lock, so that other threads can continue. If two threads read one sample, the first is kept.
    SampleContext fixed;  // the same for all slots
    fixed.seed = context.seed;
    fixed.obsolete = context.obsolete;
    SampleOf<D> sample = get_sample(data_, index, fixed);
    const std::lock_guard lock(kept_->mutex);
    if (!kept_->samples[i]) kept_->samples[i] = std::move(sample);
    return *kept_->samples[i];
  }
  /// The name in messages.
  std::string name() const { return name_of_dataset(data_); }
  /// A hash of the content, which a resumed run compares.
  std::string content() const { return content_of_dataset(data_); }
  std::vector<std::int64_t> same_content(std::int64_t index) const { return same_content_of_dataset(data_, index); }
  std::shared_ptr<const Sampler> sampler() const { return sampler_of_dataset(data_); }

 private:
  struct Kept {
    explicit Kept(std::size_t size) : samples(size) {}
    std::mutex mutex;
    std::vector<std::optional<SampleOf<D>>> samples;
  };
  D data_;
  std::shared_ptr<Kept> kept_;
};

}  // namespace binade::io
