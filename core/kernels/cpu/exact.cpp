#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/walk.h"
#include "binade/core/kernels/cpu/widened.h"
#include "binade/core/ops/formulas.h"

namespace binade::cpu {
namespace {

template <class Formula, class C>
void exact(const ExactArgs& args) {
  for_each_chunk(args.walk, [&](const Offsets& at, std::int64_t n) {
    C a[kWidened], b[kWidened];
    for (std::int64_t begin = 0; begin < n; begin += kWidened) {
      const std::int64_t count = std::min(kWidened, n - begin);
      const auto from = [&](std::size_t k) { return args.in[k].at(at[k] + begin * args.walk.steps[k]); };
      widen_any(from(0), args.walk.steps[0], a, count);
      widen_any(from(1), args.walk.steps[1], b, count);
      for (std::int64_t i = 0; i < count; ++i) a[i] = Formula::of(a[i], b[i]);
      store_whole(a, args.out.at(at[2] + begin), count);
    }
  });
}

}  // namespace

void run_exact(const ExactArgs& a) {
  ops::with_op(ops::ExactOps{}, a.op, [&]<class Formula>(ops::OpTag<Formula>) {
    if (a.whole) return exact<Formula, std::int64_t>(a);
    if constexpr (ops::exact::kOfReals<Formula>) exact<Formula, double>(a);
  });
}

}  // namespace binade::cpu
