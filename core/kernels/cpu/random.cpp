#include "binade/core/kernels/random.h"

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/widened.h"
#include "binade/core/one_rounding.h"
#include "binade/core/parallel.h"

namespace binade::cpu {

void run_random(const RandomArgs& a) {
  parallel_for(a.count, 1 << 12, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (a.distribution == Distribution::kBelow) {
        const std::int64_t whole = random_numbers::element_below(a, a.stream, i);
        if (!is_floating(a.out.dtype)) {
          store_whole(&whole, a.out.at(i), 1);
          continue;
        }
      }
      double p = a.a;
      if (a.p.data != nullptr) widen_any(a.p.at(i), 1, &p, 1);
      const double value = a.distribution == Distribution::kBelow
                               ? static_cast<double>(random_numbers::element_below(a, a.stream, i))
                               : random_numbers::element(a, a.stream, i, p);
      dispatch_any(a.out.dtype, "random", [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_integral_v<T>)
          static_cast<T*>(a.out.data)[i] = to_integer<T>(value);
        else
          static_cast<T*>(a.out.data)[i] = store_once<T>(value);
      });
    }
  });
}

}  // namespace binade::cpu
