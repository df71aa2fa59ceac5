#include <algorithm>
#include <type_traits>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/activations.h"
#include "binade/autograd/functions/fft.h"
#include "binade/autograd/functions/images.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/sampling.h"
#include "binade/core/make.h"
#include "binade/core/ops/sampling.h"
#include "tests/fuzz/calls.h"

namespace binade::fuzz {
namespace {

using A = Arguments&;
using Out = std::vector<Variable>;

Variable real_signal(A a) { return a.tensor({a.b, a.t, a.d}); }
Variable complex_signal(A a) { return a.tensor({a.b, a.t, a.d, 2}); }
Variable volumes(A a) { return a.tensor({a.n, a.t, a.h, a.w, a.c}); }
FftNorm norm(A a) { return static_cast<FftNorm>(a.draws().below(3)); }
std::int64_t length(A a) { return a.flag() ? 0 : a.number(5); }
std::vector<std::int64_t> numbers(A a, std::size_t most, std::int64_t good) {
  std::vector<std::int64_t> list;
  for (std::size_t n = a.draws().below(most + 1); n > 0; --n) list.push_back(a.number(good));
  return list;
}
std::vector<int> axes(A a, std::size_t most) {
  std::vector<int> list;
  for (std::size_t n = a.draws().below(most + 1); n > 0; --n) list.push_back(a.axis(3));
  return list;
}

StftOptions frames(A a) {
  return {.n_fft = a.number(4),
          .hop_length = a.flag() ? 0 : a.number(1),
          .win_length = a.flag() ? 0 : a.number(3),
          .center = a.flag(),
          .pad_mode = static_cast<PadMode>(a.draws().below(4)),
          .normalized = a.flag(),
          .onesided = a.flag()};
}
Variable window(A a, const StftOptions& o) {
  const std::int64_t size = o.win_length != 0 ? o.win_length : o.n_fft;
  return a.flag() || size < 0 || size > 1000 ? Variable() : a.tensor({size});
}

UpsampleMode mode(A a) { return static_cast<UpsampleMode>(a.draws().below(5)); }
InterpolateOptions resizing(A a, std::size_t dimensions) {
  InterpolateOptions o{.mode = mode(a), .align_corners = a.draws().one_in(3), .antialias = a.draws().one_in(3)};
  const std::size_t count = a.flag() ? 1 : dimensions;
  for (std::size_t i = 0; i < count; ++i) {
    if (a.draws().one_in(2))
      o.size.push_back(std::min<std::int64_t>(a.number(3), dimensions == 3 ? 64 : a.number(3)));
    else
      o.scale_factor.push_back(a.real(1.5));
  }
  if (!a.draws().one_in(20)) o.scale_factor.resize(o.size.empty() ? o.scale_factor.size() : 0);
  return o;
}

GridSampleOptions grid_options(A a) {
  return {.mode = static_cast<GridSampleMode>(a.draws().below(3)),
          .padding = static_cast<GridSamplePadding>(a.draws().below(3)),
          .align_corners = a.flag()};
}

PoolOptions pool(A a) { return {.kernel = a.extent(2), .stride = a.extent(a.flag() ? 0 : 2), .padding = a.extent(0)}; }
Pool1dOptions pool1d(A a) {
  const PoolOptions o = pool(a);
  return {.kernel = o.kernel.x, .stride = o.stride.x, .padding = o.padding.x};
}
Pool3dOptions pool3d(A a) {
  return {.kernel = a.extent3(2), .stride = a.extent3(a.flag() ? 0 : 2), .padding = a.extent3(0)};
}
Out pack(const MaxPoolResult& r) { return {r.values, r.indices}; }
/// False for options that give a result with thousands of positions along several axes, which takes too long.
template <class Options>
bool is_small(const Options& o) {
  const auto few = [](std::int64_t v) { return v >= -64 && v <= 64; };
  if constexpr (std::is_same_v<Options, Pool3dOptions>)
    return few(o.kernel.z) && few(o.kernel.y) && few(o.kernel.x) && few(o.stride.z) && few(o.stride.y) &&
           few(o.stride.x);
  else
    return few(o.kernel.y) && few(o.kernel.x) && few(o.stride.y) && few(o.stride.x);
}

/// Arguments of weighted sums of table rows. Some indices are out of range.
struct Taps {
  Variable table, points, weight, index;
  explicit Taps(A a)
      : table(a.tensor({a.b, a.k, a.d})),
        points(a.tensor({a.b, a.t, a.d})),
        weight(a.tensor({a.b, a.t, a.r})),
        index(a.flag() ? a.indices({a.b, a.t, a.r}, a.k)
                       : Variable(randint(-2, 9, Shape{a.b, a.t, a.r}, a.draws().one_in(9) ? a.dtype() : DType::i64))) {
  }
};

}  // namespace

const std::vector<Call>& signal_calls() {
  static const std::vector<Call> all{
      {"fft", [](A a) -> Out { return {fft(complex_signal(a), length(a), a.axis(3), norm(a))}; }},
      {"ifft", [](A a) -> Out { return {ifft(complex_signal(a), length(a), a.axis(3), norm(a))}; }},
      {"rfft", [](A a) -> Out { return {rfft(real_signal(a), length(a), a.axis(3), norm(a))}; }},
      {"irfft", [](A a) -> Out { return {irfft(complex_signal(a), length(a), a.axis(3), norm(a))}; }},
      {"hfft", [](A a) -> Out { return {hfft(complex_signal(a), length(a), a.axis(3), norm(a))}; }},
      {"ihfft", [](A a) -> Out { return {ihfft(real_signal(a), length(a), a.axis(3), norm(a))}; }},
      {"fftn", [](A a) -> Out { return {fftn(complex_signal(a), numbers(a, 2, 3), axes(a, 2), norm(a))}; }},
      {"ifftn", [](A a) -> Out { return {ifftn(complex_signal(a), numbers(a, 2, 3), axes(a, 2), norm(a))}; }},
      {"rfftn", [](A a) -> Out { return {rfftn(real_signal(a), numbers(a, 2, 3), axes(a, 2), norm(a))}; }},
      {"irfftn", [](A a) -> Out { return {irfftn(complex_signal(a), numbers(a, 2, 3), axes(a, 2), norm(a))}; }},
      {"fft2", [](A a) -> Out { return {fft2(complex_signal(a), a.flag() ? 0 : a.extent(4), norm(a))}; }},
      {"ifft2", [](A a) -> Out { return {ifft2(complex_signal(a), a.flag() ? 0 : a.extent(4), norm(a))}; }},
      {"rfft2", [](A a) -> Out { return {rfft2(real_signal(a), a.flag() ? 0 : a.extent(4), norm(a))}; }},
      {"irfft2", [](A a) -> Out { return {irfft2(complex_signal(a), a.flag() ? 0 : a.extent(4), norm(a))}; }},
      {"fftshift", [](A a) -> Out { return {fftshift(real_signal(a), axes(a, 3))}; }},
      {"ifftshift", [](A a) -> Out { return {ifftshift(real_signal(a), axes(a, 3))}; }},
      {"complex", [](A a) -> Out { return {complex(real_signal(a), real_signal(a))}; }},
      {"polar", [](A a) -> Out { return {polar(real_signal(a), real_signal(a))}; }},
      {"real", [](A a) -> Out { return {real(complex_signal(a))}; }},
      {"imag", [](A a) -> Out { return {imag(complex_signal(a))}; }},
      {"conj", [](A a) -> Out { return {conj(complex_signal(a))}; }},
      {"complex_mul", [](A a) -> Out { return {complex_mul(complex_signal(a), complex_signal(a))}; }},
      {"complex_abs", [](A a) -> Out { return {complex_abs(complex_signal(a))}; }},
      {"complex_angle", [](A a) -> Out { return {complex_angle(complex_signal(a))}; }},
      {"stft",
       [](A a) -> Out {
         const StftOptions o = frames(a);
         const Variable x = a.flag() ? a.tensor({a.b, 4 * a.d}) : a.tensor({4 * a.d});
         return {stft(x, o, window(a, o))};
       }},
      {"istft",
       [](A a) -> Out {
         const StftOptions o = frames(a);
         const std::int64_t rows = o.onesided ? 3 : 4;
         const Variable z = a.flag() ? a.tensor({a.b, rows, a.t, 2}) : a.tensor({rows, a.t, 2});
         return {istft(z, o, window(a, o), a.flag() ? 0 : a.number(3))};
       }},
      {"windows of a signal",
       [](A a) -> Out {
         const std::int64_t n = a.number(7);
         switch (a.draws().below(7)) {
           case 0: return {hann_window(n, a.flag(), a.dtype())};
           case 1: return {hamming_window(n, a.flag(), a.real(0.54), a.real(0.46), a.dtype())};
           case 2: return {blackman_window(n, a.flag(), a.dtype())};
           case 3: return {bartlett_window(n, a.flag(), a.dtype())};
           case 4: return {kaiser_window(n, a.flag(), a.real(12), a.dtype())};
           case 5: return {fftfreq(n, a.real(1), a.dtype())};
           default: return {rfftfreq(n, a.real(1), a.dtype())};
         }
       }},
      {"interpolate",
       [](A a) -> Out {
         const std::size_t dimensions = 1 + a.draws().below(3);
         const Variable x = dimensions == 1 ? a.tensor({a.b, a.t, a.d}) : dimensions == 2 ? a.images() : volumes(a);
         return {interpolate(x, resizing(a, dimensions))};
       }},
      {"upsample_bicubic",
       [](A a) -> Out {
         return {interpolate(a.images(), {.size = {a.number(a.h + 1), a.number(a.w + 2)},
                                          .mode = UpsampleMode::kBicubic,
                                          .align_corners = a.flag(),
                                          .antialias = a.flag()})};
       }},
      {"grid_sample",
       [](A a) -> Out {
         if (a.flag()) return {grid_sample(a.images(), a.tensor({a.n, a.r, a.s, 2}), grid_options(a))};
         return {grid_sample(volumes(a), a.tensor({a.n, 2, a.r, a.s, 3}), grid_options(a))};
       }},
      {"affine_grid",
       [](A a) -> Out {
         const bool flat = a.flag();
         const auto extent = [&] { return std::min<std::int64_t>(a.number(3), 200); };
         return {affine_grid(flat ? a.tensor({a.n, 2, 3}) : a.tensor({a.n, 3, 4}),
                             flat ? std::vector{extent(), extent()} : std::vector{extent(), extent(), extent()},
                             a.flag())};
       }},
      {"weighted_gather",
       [](A a) -> Out {
         const Taps t(a);
         return {apply_one<ops::WeightedGather>({}, {t.table, t.weight, t.index})};
       }},
      {"weighted_scatter",
       [](A a) -> Out {
         const Taps t(a);
         const std::int64_t rows = a.number(a.k);
         return {apply_one<ops::WeightedScatter>({.rows = rows > 1000 ? 9 : rows}, {t.points, t.weight, t.index})};
       }},
      {"weighted_dot",
       [](A a) -> Out {
         const Taps t(a);
         return {apply_one<ops::WeightedDot>({}, {t.table, t.points, t.index})};
       }},
      {"max_pool2d_indices", [](A a) -> Out { return pack(max_pool2d_with_indices(a.images(), pool(a))); }},
      {"max_pool1d_with_indices",
       [](A a) -> Out {
         return pack(max_pool1d_with_indices(a.tensor({a.b, a.t, a.d}), pool1d(a)));
       }},
      {"max_pool2d_with_indices", [](A a) -> Out { return pack(max_pool2d_with_indices(a.images(), pool(a))); }},
      {"max_pool3d_with_indices", [](A a) -> Out { return pack(max_pool3d_with_indices(volumes(a), pool3d(a))); }},
      {"max_unpool1d",
       [](A a) -> Out {
         const Variable x = a.tensor({a.b, a.t, a.d}), index = a.indices({a.b, a.t, a.d}, 2 * a.t);
         const Pool1dOptions o = pool1d(a);
         return {max_unpool1d(x, index, o, a.flag() ? 0 : a.number(2 * a.t))};
       }},
      {"max_unpool2d",
       [](A a) -> Out {
         const Variable x = a.images(), index = a.indices({a.n, a.h, a.w, a.c}, 4 * a.h * a.w);
         const PoolOptions o = pool(a);
         return {max_unpool2d(x, index, is_small(o) ? o : PoolOptions{}, a.flag() ? 0 : a.extent(2 * a.h))};
       }},
      {"max_unpool3d",
       [](A a) -> Out {
         const Variable x = volumes(a), index = a.indices({a.n, a.t, a.h, a.w, a.c}, 8 * a.t * a.h * a.w);
         const Pool3dOptions o = pool3d(a);
         return {max_unpool3d(x, index, is_small(o) ? o : Pool3dOptions{})};
       }},
      {"lp_pool1d",
       [](A a) -> Out {
         return {lp_pool1d(a.tensor({a.b, a.t, a.d}), a.real(2), pool1d(a))};
       }},
      {"lp_pool2d", [](A a) -> Out { return {lp_pool2d(a.images(), a.real(2), pool(a))}; }},
      {"lp_pool3d", [](A a) -> Out { return {lp_pool3d(volumes(a), a.real(2), pool3d(a))}; }},
      {"rrelu", [](A a) -> Out { return {rrelu(a.any(), a.real(0.125), a.real(0.5), a.flag())}; }},
      {"gumbel_softmax",
       [](A a) -> Out {
         return {gumbel_softmax(a.tensor({a.b, a.t, a.d}), a.real(1), a.flag(), a.axis(3))};
       }},
  };
  return all;
}

}  // namespace binade::fuzz
