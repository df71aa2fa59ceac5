#include "core/accumulate.h"

#include "core/kernels/dispatch.h"
#include "core/parallel.h"

namespace binade {

void accumulate(Tensor& into, const Tensor& from) {
  check<ShapeError>(into.shape() == from.shape(), "accumulate: wanted {}, got {}", into.shape(), from.shape());
  constexpr std::int64_t kGrain = 1 << 15;
  const std::int64_t cols = into.shape().cols();
  const bool flat = into.contiguous() && from.contiguous();
  const std::int64_t width = flat ? into.numel() : cols;
  dispatch_float(into.dtype(), "accumulate", [&]<class To>(TypeTag<To>) {
    dispatch_float(from.dtype(), "accumulate", [&]<class From>(TypeTag<From>) {
      To* y = into.mutable_data<To>();
      const From* x = from.data<From>();
      const auto add = [](To* to, const From* source, std::int64_t n) {
        if constexpr (!std::is_same_v<To, double> && !std::is_same_v<From, double>)
          return cpu::kernels().accumulate.run(kDTypeOf<From>, source, kDTypeOf<To>, to, n);
        for (std::int64_t i = 0; i < n; ++i) to[i] = store<To>(static_cast<Compute<To>>(load(to[i]) + load(source[i])));
      };
      if (flat)
        parallel_for(width, kGrain,
                     [&](std::int64_t begin, std::int64_t end) { add(y + begin, x + begin, end - begin); });
      else
        for (std::int64_t r = 0; r < into.shape().rows(); ++r) add(y + r * into.pitch(), x + r * from.pitch(), cols);
    });
  });
  into.bump_version();
}

}  // namespace binade
