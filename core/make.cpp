#include "binade/core/make.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "binade/core/kernels/random.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/special_math.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

/// Returns the random stream of the next random tensor.
RandomStream next_stream() {
  ++step_context().next.tape_index;
  return random_stream(RngPurpose::kTensor, step_context().next.call_index++);
}

bool finite(double x) { return x - x == 0; }

/// Returns value(0) … value(count - 1), computed as T, as a tensor of `dtype` on `device`.
template <class T, class F>
Tensor tensor_of(std::int64_t count, DType dtype, Device device, F&& value) {
  Tensor t = Tensor::empty(Shape{count}, kDTypeOf<T>);
  T* to = t.mutable_data<T>();
  for (std::int64_t i = 0; i < count; ++i) to[i] = value(i);
  return t.to(dtype).to(device);
}

/// Returns begin, begin + step, …, computed on the device, because a captured step cannot copy from the host. REQUIRES:
/// `begin` and `step` are exact as double.
Tensor arange_on_device(std::int64_t begin, std::int64_t step, std::int64_t count, Device device) {
  Tensor steps = Tensor::full(Shape{count}, static_cast<double>(step), DType::i64, device);
  steps.narrow(0, 1).fill(static_cast<double>(begin));
  Tensor y = Tensor::empty(steps.shape(), DType::i64, device);
  kernels(device).cumulate({.count = count, .x = input(steps), .y = output(y)});
  return y;
}

Tensor random_tensor(std::string_view function, RandomArgs args, const Shape& shape, DType dtype, Device device) {
  if (args.distribution != Distribution::kBelow)
    check<DTypeError>(is_floating(dtype), "{}: wanted a floating dtype, got {}", function, name_of(dtype));
  Tensor y = Tensor::empty(shape, dtype, device);
  args.stream = next_stream();
  args.out = output(y);
  args.count = y.numel();
  if (args.count > 0) kernels(device).random(args);
  return y;
}

/// Makes a capture fail by reading from the device, because a graph would repeat the numbers that the host drew once.
void refuse_capture(Device device) {
  if (device.type != DeviceType::kCpu) static_cast<void>(Tensor::scalar(0, DType::f32, device).item());
}

/// Returns words 2i and 2i + 1 of the stream as a number in [0, 1), a multiple of 2^-53.
double uniform53(const RandomStream& stream, std::uint64_t i) {
  const std::uint64_t word = std::uint64_t{stream.word(2 * i)} << 32 | stream.word(2 * i + 1);
  return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace

Tensor arange_of(double begin, double end, double step, DType dtype, Device device) {
  check<ArgumentError>(finite(begin) && finite(end) && finite(step) && step != 0,
                       "arange: wanted finite bounds and a step other than 0, got {} to {} by {}", begin, end, step);
  const double count = std::max(0.0, std::ceil((end - begin) / step));
  check<ShapeError>(count < 0x1p62, "arange: {} to {} by {} has too many elements", begin, end, step);
  static_cast<void>(Shape{static_cast<std::int64_t>(count)});
  return tensor_of<double>(static_cast<std::int64_t>(count), dtype, device,
                           [&](std::int64_t i) { return begin + static_cast<double>(i) * step; });
}

Tensor arange_of(std::int64_t begin, std::int64_t end, std::int64_t step, DType dtype, Device device) {
  check<ArgumentError>(step != 0, "arange: wanted a step other than 0, got {} to {} by 0", begin, end);
  // Unsigned, because the distance between two i64 numbers may be too large for an i64.
  const bool empty = step > 0 ? begin >= end : begin <= end;
  const auto first = static_cast<std::uint64_t>(begin), last = static_cast<std::uint64_t>(end);
  const std::uint64_t distance = step > 0 ? last - first : first - last;
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
  const std::uint64_t count = empty ? 0 : (distance - 1) / stride + 1;
  check<ShapeError>(count <= std::uint64_t{1} << 62, "arange: {} to {} by {} has too many elements", begin, end, step);
  const auto exact = [](std::int64_t number) {
    return number >= -(std::int64_t{1} << 53) && number <= std::int64_t{1} << 53;
  };
  if (device != Device::cpu() && count > 0 && exact(begin) && exact(step))
    return arange_on_device(begin, step, static_cast<std::int64_t>(count), device).to(dtype);
  return tensor_of<std::int64_t>(static_cast<std::int64_t>(count), dtype, device, [&](std::int64_t i) {
    return static_cast<std::int64_t>(first + static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step));
  });
}

Tensor linspace(double begin, double end, std::int64_t count, DType dtype, Device device) {
  check<ArgumentError>(finite(begin) && finite(end), "linspace: wanted finite bounds, got {} and {}", begin, end);
  check<ArgumentError>(count >= 0, "linspace: wanted 0 or more numbers, got {}", count);
  const double step = count > 1 ? (end - begin) / static_cast<double>(count - 1) : 0;
  return tensor_of<double>(count, dtype, device,
                           [&](std::int64_t i) {  // from the nearer end, so that both ends are exact
                             return i < (count + 1) / 2 ? begin + static_cast<double>(i) * step
                                                        : end - static_cast<double>(count - 1 - i) * step;
                           });
}

Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype, Device device) {
  const Shape shape{rows, columns < 0 ? rows : columns};
  // If the same elements are read in rows of n + 1 instead of n, the diagonal becomes the first column. It is filled on
  // the device, because a captured step cannot copy from the host.
  const std::int64_t n = shape.cols(), diagonal = std::min(rows, n);
  if (shape.numel() == 0) return Tensor::empty(shape, dtype, device);
  Tensor wider = Tensor::zeros(Shape{rows, n + 1}, dtype, device);
  wider.narrow(0, diagonal).channel_slice(0, 1).fill(1);
  return wider.reshape(Shape{rows * (n + 1)}).narrow(0, rows * n).reshape(shape);
}

Tensor logspace(double begin, double end, std::int64_t count, double base, DType dtype, Device device) {
  check<ArgumentError>(finite(base), "logspace: wanted a finite base, got {}", base);
  const Tensor exponents = linspace(begin, end, count, DType::f64);
  const double* from = exponents.data<double>();
  return tensor_of<double>(count, dtype, device, [&](std::int64_t i) { return std::pow(base, from[i]); });
}

Tensor ones(const Shape& shape, DType dtype, Device device) { return Tensor::full(shape, 1, dtype, device); }

namespace {

/// Returns the number of elements of a matrix that are on or below diagonal k.
std::int64_t elements_below(std::int64_t rows, std::int64_t columns, std::int64_t k) {
  const std::int64_t left = rows - std::max<std::int64_t>(0, -k), first = std::max<std::int64_t>(0, k) + 1;
  if (left <= 0 || columns <= 0) return 0;
  const std::int64_t growing = std::clamp<std::int64_t>(columns - first, 0, left);  // rows shorter than a full row
  return growing * first + growing * (growing - 1) / 2 + (left - growing) * columns;
}

/// Returns the positions of `count` elements of a matrix as a (2, count) tensor: row numbers, then column numbers. From
/// row `first` on, row i contributes columns begin(i) to end(i) - 1.
template <class Begin, class End>
Tensor indices_of(std::int64_t count, std::int64_t first, Device device, Begin&& begin, End&& end) {
  Tensor indices = Tensor::empty(Shape{2, count}, DType::i64);
  std::int64_t* to = indices.mutable_data<std::int64_t>();
  std::int64_t n = 0;
  for (std::int64_t i = first; n < count; ++i)
    for (std::int64_t j = begin(i); j < end(i); ++j, ++n) {
      to[n] = i;
      to[count + n] = j;
    }
  return indices.to(device);
}

/// Returns k limited to [-rows - 1, columns + 1], which loses nothing: diagonals beyond the matrix are empty.
std::int64_t checked_diagonal(const char* function, std::int64_t rows, std::int64_t columns, std::int64_t k) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  check<ArgumentError>(rows >= 0 && columns >= 0 && rows <= kMost && columns <= kMost,
                       "{}: wanted 0 to 2^30 rows and columns, got {} and {}", function, rows, columns);
  return std::clamp(k, -rows - 1, columns + 1);
}

}  // namespace

Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t k, Device device) {
  const std::int64_t at = checked_diagonal("tril_indices", rows, columns, k);
  return indices_of(
      elements_below(rows, columns, at), std::max<std::int64_t>(0, -at), device,
      [](std::int64_t) { return std::int64_t{0}; }, [&](std::int64_t i) { return std::min(i + at + 1, columns); });
}

Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t k, Device device) {
  const std::int64_t at = checked_diagonal("triu_indices", rows, columns, k);
  return indices_of(
      rows * columns - elements_below(rows, columns, at - 1), 0, device,
      [&](std::int64_t i) { return std::max<std::int64_t>(0, i + at); }, [&](std::int64_t) { return columns; });
}

Tensor empty_like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }
Tensor zeros_like(const Tensor& x) { return Tensor::zeros(x.shape(), x.dtype(), x.device()); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }
Tensor full_like(const Tensor& x, double value) { return Tensor::full(x.shape(), value, x.dtype(), x.device()); }
Tensor rand_like(const Tensor& x) { return rand(x.shape(), x.dtype(), x.device()); }
Tensor randn_like(const Tensor& x) { return randn(x.shape(), x.dtype(), x.device()); }

Tensor rand(const Shape& shape, DType dtype, Device device) {
  return random_tensor("rand", {.distribution = Distribution::kUniform}, shape, dtype, device);
}

Tensor randn(const Shape& shape, DType dtype, Device device) {
  return random_tensor("randn", {.distribution = Distribution::kNormal}, shape, dtype, device);
}

Tensor normal(double mean, double deviation, const Shape& shape, DType dtype, Device device) {
  check<ArgumentError>(finite(mean) && finite(deviation) && deviation >= 0,
                       "normal: wanted a finite mean and a deviation of 0 or more, got {} and {}", mean, deviation);
  return random_tensor("normal", {.distribution = Distribution::kNormal, .a = mean, .b = deviation}, shape, dtype,
                       device);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype, Device device) {
  check<ArgumentError>(low < high, "randint: wanted low < high, got {} and {}", low, high);
  const double least = static_cast<double>(low), most = static_cast<double>(high) - 1;
  const auto holds = [&](double from, double to) { return from <= least && most <= to; };
  const bool fits = dtype == DType::i64       ? true
                    : dtype == DType::i32     ? holds(-0x1p31, 0x1p31 - 1)
                    : dtype == DType::u8      ? holds(0, 255)
                    : dtype == DType::boolean ? holds(0, 1)
                                              : holds(-range_of(dtype).largest, range_of(dtype).largest);
  check<ArgumentError>(fits, "randint: {} does not hold the numbers from {} to {}", name_of(dtype), low, high - 1);
  return random_tensor("randint",
                       {.distribution = Distribution::kBelow,
                        .low = low,
                        .range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low)},
                       shape, dtype, device);
}

Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high) {
  return randint(low, high, x.shape(), x.dtype(), x.device());
}

Tensor randperm(std::int64_t n, Device device) {
  check<ArgumentError>(n >= 0, "randperm: wanted 0 or more numbers, got {}", n);
  refuse_capture(device);
  Tensor order = arange(std::int64_t{0}, n);
  const RandomStream stream = next_stream();
  std::int64_t* to = order.mutable_data<std::int64_t>();
  for (std::int64_t i = n - 1; i > 0; --i) {
    const auto j = static_cast<std::int64_t>(uniform53(stream, static_cast<std::uint64_t>(i)) *
                                             static_cast<double>(i + 1));
    std::swap(to[i], to[j]);
  }
  return order.to(device);
}

Tensor bernoulli(const Tensor& p) {
  check<DTypeError>(is_floating(p.dtype()), "bernoulli: wanted floating probabilities, got {}", name_of(p.dtype()));
  const Tensor dense = p.contiguous_copy();
  return random_tensor("bernoulli", {.distribution = Distribution::kBernoulli, .p = input(dense)}, p.shape(), p.dtype(),
                       p.device());
}

namespace {

/// Draws numbers from Poisson distributions, with successive words of one stream.
class PoissonNumbers {
 public:
  explicit PoissonNumbers(const RandomStream& stream) : stream_(stream) {}
  double next(double rate) { return rate < 10 ? by_multiplication(rate) : by_rejection(rate); }

 private:
  double uniform() { return uniform53(stream_, used_++); }
  double by_multiplication(double rate) {
    const double limit = std::exp(-rate);
    double k = -1;
    for (double product = 1; product > limit || k < 0; ++k) product *= uniform();
    return k;
  }
  // Algorithm PTRS of Hormann (1993).
  double by_rejection(double rate) {
    const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b, scale = 1.1239 + 1.1328 / (b - 3.4),
                 inner = 0.9277 - 3.6224 / (b - 2), log_rate = std::log(rate);
    for (;;) {
      const double u = uniform() - 0.5, v = uniform(), rest = 0.5 - std::fabs(u);
      const double k = std::floor((2 * a / rest + b) * u + rate + 0.43);
      if (rest >= 0.07 && v <= inner) return k;
      if (k < 0 || (rest < 0.013 && v > rest)) continue;
      if (std::log(v * scale / (a / (rest * rest) + b)) <= k * log_rate - rate - math::lgamma(k + 1)) return k;
    }
  }

  RandomStream stream_;
  std::uint64_t used_ = 0;
};

}  // namespace

Tensor poisson(const Tensor& rates) {
  check<DTypeError>(is_floating(rates.dtype()), "poisson: wanted floating rates, got {}", name_of(rates.dtype()));
  refuse_capture(rates.device());
  const std::vector<double> all = rates.to_vector<double>();
  PoissonNumbers numbers(next_stream());
  Tensor drawn_numbers = Tensor::empty(rates.shape(), DType::f64);
  double* to = drawn_numbers.mutable_data<double>();
  for (const double rate : all) {
    check<ArgumentError>(rate >= 0 && rate <= 0x1p53, "poisson: wanted rates from 0 to 2^53, got {}", rate);
    *to++ = numbers.next(rate);
  }
  return drawn_numbers.to(rates.dtype()).to(rates.device());
}

Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement) {
  check<ShapeError>(weights.defined() && (weights.rank() == 1 || weights.rank() == 2),
                    "multinomial: wanted weights (n) or (rows, n), got {}", weights.shape());
  check<ArgumentError>(count >= 0, "multinomial: wanted 0 or more draws, got {}", count);
  const std::int64_t rows = weights.rank() == 1 ? 1 : weights.dim(0), n = weights.dim(-1);
  const Shape shape = weights.rank() == 1 ? Shape{count} : Shape{rows, count};
  Tensor drawn_positions = Tensor::empty(shape, DType::i64);
  refuse_capture(weights.device());
  const std::vector<double> all = weights.to_vector<double>();
  const RandomStream stream = next_stream();
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> left(all.begin() + r * n, all.begin() + (r + 1) * n);
    std::int64_t positive = 0;
    for (const double w : left) {
      check<ArgumentError>(w >= 0 && finite(w), "multinomial: wanted finite weights of 0 or more, got {} in row {}", w,
                           r);
      positive += w > 0;
    }
    check<ArgumentError>(count == 0 || positive >= (replacement ? 1 : count),
                         "multinomial: row {} has {} positive weights for {} draws{}", r, positive, count,
                         replacement ? "" : " without replacement");
    std::vector<double> sums(left.size());
    std::inclusive_scan(left.begin(), left.end(), sums.begin());
    for (std::int64_t k = 0; k < count; ++k) {
      const double at = uniform53(stream, static_cast<std::uint64_t>(r * count + k)) * sums.back();
      auto found = static_cast<std::size_t>(std::ranges::upper_bound(sums, at) - sums.begin());
      // Because of rounding, `at` may equal the sum of all weights; and the last weights may be 0.
      if (found == left.size()) found = left.size() - 1;
      while (left[found] == 0) --found;
      drawn_positions.mutable_data<std::int64_t>()[r * count + k] = static_cast<std::int64_t>(found);
      if (replacement) continue;
      left[found] = 0;
      std::inclusive_scan(left.begin(), left.end(), sums.begin());
    }
  }
  return drawn_positions.to(weights.device());
}

}  // namespace binade
