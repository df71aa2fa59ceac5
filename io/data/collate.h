#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/tensor.h"
#include "binade/io/data/members.h"

namespace binade::io {

/// Stacks tensors of one shape along a new axis 0: (N, …). They must be on the CPU. Throws ShapeError, which names the
/// first tensor that differs, and DTypeError.
Tensor stack_rows(const std::vector<Tensor>& rows);

/// Sequences of different lengths, padded to the longest. collate() returns it for samples of type Sequence.
struct PaddedSequences {
  Tensor values{};   ///< (N, longest, …), in the dtype of the sequences
  Tensor mask{};     ///< (N, longest) bool: true where a sequence has an element
  Tensor lengths{};  ///< (N) i64
};

/// Pads tensors (length, …) that agree in all extents but the first. Throws ShapeError and DTypeError as stack_rows().
PaddedSequences pad_rows(const std::vector<Tensor>& rows, double padding = 0);

/// A member of a sample whose length differs from sample to sample: a tensor (length, …). Collated to PaddedSequences.
struct Sequence {
  Tensor values{};
  double padding = 0;  ///< padding value; a batch uses that of its first sample
};

namespace detail {

template <class T>
constexpr bool kIsNumber = std::is_arithmetic_v<T>;

/// The type to which collate() converts a member of type T. There is no `type` if collate() does not support T.
template <class T>
struct CollatedType {};
template <>
struct CollatedType<Tensor> {
  using type = Tensor;
};
template <>
struct CollatedType<Sequence> {
  using type = PaddedSequences;
};
template <>
struct CollatedType<std::string> {
  using type = std::vector<std::string>;
};
template <class T>
requires kIsNumber<T>
struct CollatedType<T> {
  using type = Tensor;
};

template <class T>
concept Collated = requires {
  typename CollatedType<T>::type;
};

template <Collated... T>
struct CollatedType<std::tuple<T...>> {
  using type = std::tuple<typename CollatedType<T>::type...>;
};
template <Collated A, Collated B>
struct CollatedType<std::pair<A, B>> {
  using type = std::pair<typename CollatedType<A>::type, typename CollatedType<B>::type>;
};

/// True if collate() converts every member of T to the type of the corresponding member of Batch.
template <class T, class Batch>
constexpr bool kMembersFit = [] {
  if constexpr (!kHasMembers<T> || !kHasMembers<Batch>) {
    return false;
  } else {
    return []<class... M, class... B>(std::type_identity<std::tuple<M&...>>, std::type_identity<std::tuple<B&...>>) {
      if constexpr (sizeof...(M) != sizeof...(B) || !(Collated<M> && ...))
        return false;
      else
        return (std::is_same_v<typename CollatedType<M>::type, B> && ...);
    }(std::type_identity<MembersOf<T>>{}, std::type_identity<MembersOf<Batch>>{});
  }
}();

template <class T>
requires(kHasMembers<T>&& requires { typename T::Batch; }) struct CollatedType<T> {
  static_assert(kMembersFit<T, typename T::Batch>,
                "collate: the member type `Batch` of a sample must have one member for each member of the sample, in "
                "the same order: Tensor for a Tensor or a number, io::PaddedSequences for an io::Sequence, "
                "std::vector<std::string> for a std::string");
  using type = typename T::Batch;
};
template <class T>
requires(kHasMembers<T> && !requires { typename T::Batch; } && kMembersFit<T, T>) struct CollatedType<T> {
  using type = T;
};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

/// Stops the compilation, with the reason, if samples of a type cannot be collated.
template <class T>
struct SampleType {
  static constexpr bool kNumbersNeedBatch = !kHasMembers<T> || Collated<T>;
  static_assert(
      kNumbersNeedBatch,
      "collate: a batch cannot be the same struct as this sample, for it has members that are no tensors; "
      "declare in it `struct Batch { Tensor x, y; };` with one member for each of its own (Tensor for a number), "
      "or give make_loader() a function that collates samples");
  static constexpr bool kKnown = kHasMembers<T> || Collated<T>;
  static_assert(kKnown,
                "collate: wanted samples of Tensor, number, std::string, io::Sequence, a tuple or a struct of these; "
                "give make_loader() a function that collates samples: `Batch(std::vector<Sample>)`");
};

}  // namespace detail

/// Makes a batch of samples. Tensors of one shape are stacked. Numbers become a tensor (N): float f32, double f64, bool
/// bool, std::uint8_t u8, 64-bit integers and std::uint32_t i64, other integers i32. Texts become a vector, Sequence
/// becomes PaddedSequences. Tuples become a tuple. A struct of tensors becomes the same struct; a struct with other
/// members becomes its member type `Batch`, which has one member for each of its members:
///
///     struct Image { Tensor pixels; std::int64_t label; struct Batch { Tensor pixels, labels; }; };
///
/// Throws ShapeError or DTypeError with the number of the first sample that does not fit.
template <class Sample>
auto collate(std::vector<Sample> samples);

namespace detail {

/// The C++ type in which a tensor stores numbers of type T.
template <class T>
using StoredNumber =
    std::conditional_t<std::is_floating_point_v<T>, std::conditional_t<std::is_same_v<T, float>, float, double>,
                       std::conditional_t<std::is_same_v<T, bool> || std::is_same_v<T, std::uint8_t>, T,
                                          std::conditional_t<sizeof(T) == 8 || std::is_same_v<T, std::uint32_t>,
                                                             std::int64_t, std::int32_t>>>;

template <class T>
auto collate_known(const std::vector<T>& samples) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return stack_rows(samples);
  } else if constexpr (std::is_same_v<T, Sequence>) {
    std::vector<Tensor> rows;
    for (const Sequence& one : samples) rows.push_back(one.values);
    return pad_rows(rows, samples.front().padding);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return samples;
  } else if constexpr (kIsNumber<T>) {
    using Stored = StoredNumber<T>;
    Tensor all = Tensor::empty({static_cast<std::int64_t>(samples.size())}, kDTypeOf<Stored>);
    std::ranges::transform(samples, all.mutable_data<Stored>(), [](T v) { return static_cast<Stored>(v); });
    return all;
  } else {
    typename CollatedType<T>::type batch;
    const auto member = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      using Member = std::remove_cvref_t<std::tuple_element_t<I, MembersOf<const T>>>;
      std::vector<Member> column;
      column.reserve(samples.size());
      for (const T& one : samples) column.push_back(std::get<I>(members_of(one)));
      std::get<I>(members_of(batch)) = collate_known(column);
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) { (member(std::integral_constant<std::size_t, I>{}), ...); }
    (std::make_index_sequence<std::tuple_size_v<MembersOf<const T>>>{});
    return batch;
  }
}

}  // namespace detail

template <class Sample>
auto collate(std::vector<Sample> samples) {
  if constexpr (detail::SampleType<Sample>::kNumbersNeedBatch && detail::SampleType<Sample>::kKnown) {
    check<ArgumentError>(!samples.empty(), "collate: wanted at least one sample, got none");
    return detail::collate_known(samples);
  } else {
    return Tensor();  // a static_assert has already failed
  }
}

}  // namespace binade::io
