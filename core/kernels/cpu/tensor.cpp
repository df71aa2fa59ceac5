#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "binade/core/copy_chunks.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/elementwise_loops.h"
#include "binade/core/one_rounding.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 15;

/// Converts between any two dtypes with one rounding. Integers are not converted to float in between, as that rounds.
template <class To, class From>
To convert(From x) {
  const auto wide = [&] {
    if constexpr (std::is_integral_v<From>)
      return x;
    else
      return load(x);
  }();
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (std::is_same_v<To, bool>)
    return wide != 0;
  else if constexpr (requires { To::from_float(0.0f); })
    return store_once<To>(to_double(wide));
  else if constexpr (std::is_integral_v<To>)
    return to_integer<To>(wide);
  else
    return static_cast<To>(wide);
}

/// Types that the vector kernels convert between.
template <class T>
inline constexpr bool kConverted = std::is_same_v<T, float> || std::is_same_v<T, float16> ||
                                   std::is_same_v<T, bfloat16>;

template <class To, class From>
void convert_rows(To* to, std::int64_t to_pitch, const From* from, std::int64_t from_pitch, std::int64_t rows,
                  std::int64_t cols) {
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(cols, 1));
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      To* y = to + r * to_pitch;
      const From* x = from + r * from_pitch;
      if constexpr (std::is_same_v<To, From>) {
        std::memcpy(y, x, static_cast<std::size_t>(cols) * sizeof(To));
      } else if constexpr (kConverted<To> && kConverted<From>) {
        level().elementwise->convert({x, kDTypeOf<From>}, {y, kDTypeOf<To>}, cols);
      } else {
        for (std::int64_t c = 0; c < cols; ++c) y[c] = convert<To>(x[c]);
      }
    }
  });
}

template <class C>
void add_mask(const InputRows& mask, C* to, std::int64_t rows, std::int64_t cols) {
  constexpr C kHidden = -std::numeric_limits<C>::infinity();
  dispatch_any(mask.dtype, "attention", [&]<class T>(TypeTag<T>) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;  // any nonzero byte is true
        const Stored value = static_cast<const Stored*>(mask.data)[r * mask.pitch + c];
        if constexpr (is_floating(kDTypeOf<T>))
          to[r * cols + c] = static_cast<C>(load(value));
        else
          to[r * cols + c] = value != 0 ? C{0} : kHidden;
      }
  });
}

}  // namespace

/// Converts a contiguous tensor as one row, in parts of kGrain elements.
void run_convert(const ConvertArgs& a) {
  const OutputRows& to = a.to;
  const InputRows& from = a.from;
  const std::int64_t rows = a.rows, cols = a.cols;
  dispatch_any(to.dtype, "copy_from", [&]<class To>(TypeTag<To>) {
    dispatch_any(from.dtype, "copy_from", [&]<class From>(TypeTag<From>) {
      To* y = static_cast<To*>(to.data);
      const From* x = static_cast<const From*>(from.data);
      if (rows > 1) return convert_rows(y, to.pitch, x, from.pitch, rows, cols);
      parallel_for(cols, kGrain, [&](std::int64_t begin, std::int64_t end) {
        convert_rows(y + begin, 0, x + begin, 0, 1, end - begin);
      });
    });
  });
}

void run_fill(const FillArgs& a) {
  const OutputRows& to = a.to;
  dispatch_any(to.dtype, "fill", [&]<class T>(TypeTag<T>) {
    const T x = convert<T>(a.value);
    T* y = static_cast<T*>(to.data);
    for (std::int64_t r = 0; r < a.rows; ++r) std::fill_n(y + r * to.pitch, a.cols, x);
  });
}

void run_accumulate(const AccumulateArgs& a) {
  const OutputRows& into = a.into;
  const InputRows& from = a.from;
  const std::int64_t rows = a.rows, cols = a.cols;
  dispatch_float(into.dtype, "accumulate", [&]<class To>(TypeTag<To>) {
    dispatch_float(from.dtype, "accumulate", [&]<class From>(TypeTag<From>) {
      To* y = static_cast<To*>(into.data);
      const From* x = static_cast<const From*>(from.data);
      const auto add = [](To* to, const From* source, std::int64_t n) {
        if constexpr (!std::is_same_v<To, double> && !std::is_same_v<From, double>)
          return level().elementwise->accumulate({source, kDTypeOf<From>}, {to, kDTypeOf<To>}, n);
        for (std::int64_t i = 0; i < n; ++i)
          to[i] = store_once<To>(static_cast<double>(load(to[i])) + static_cast<double>(load(source[i])));
      };
      if (rows == 1)
        parallel_for(cols, kGrain,
                     [&](std::int64_t begin, std::int64_t end) { add(y + begin, x + begin, end - begin); });
      else
        for (std::int64_t r = 0; r < rows; ++r) add(y + r * into.pitch, x + r * from.pitch, cols);
    });
  });
}

void run_observe(const ObserveArgs& a) {
  const In all{a.values, a.dtype};
  parallel_for(a.count, kGrain,
               [&](std::int64_t begin, std::int64_t end) { level().elementwise->observe(all.at(begin), end - begin); });
}

void run_copy_all(const CopyAllArgs& a) {
  constexpr std::size_t kTaskChunk = std::size_t{1} << 20;
  const std::vector<MemoryCopy> chunks = in_chunks(a.copies, kTaskChunk);
  parallel_blocks(static_cast<std::int64_t>(chunks.size()), [&](std::int64_t i) {
    const MemoryCopy& c = chunks[static_cast<std::size_t>(i)];
    std::memcpy(c.to, c.from, c.bytes);
  });
}

void run_additive_mask(const AdditiveMaskArgs& a) {
  if (a.to.dtype == DType::f64)
    add_mask(a.mask, static_cast<double*>(a.to.data), a.rows, a.cols);
  else
    add_mask(a.mask, static_cast<float*>(a.to.data), a.rows, a.cols);
}

}  // namespace binade::cpu
