// Prints the GFLOP/s of matrix products with the shapes of a transformer, and their share of the multiply-add peak.
// Usage: gemm_bench [THREADS [REPEATS]]; BINADE_ISA selects the kernel level.
#include <fmt/core.h>

#include "bench/ceiling.h"

namespace binade::bench {
namespace {

struct Shape {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
};
const Shape kShapes[] = {{1024, 1024, 1024, false, false}, {2048, 1536, 384, false, false},
                         {2048, 1536, 384, false, true},   {1536, 384, 2048, true, false},
                         {2048, 3072, 768, false, true},   {3072, 768, 2048, true, false},
                         {768, 512, 128, false, true},     {512, 128, 1024, true, false},
                         {256, 256, 64, false, true}};

template <class T>
void measure(const Shape& s, int repeats, double peak) {
  std::vector<T> a = normal_values<T>(s.m * s.k), b = normal_values<T>(s.k * s.n), c = normal_values<T>(s.m * s.n);
  GemmArgs args{
      .m = s.m, .n = s.n, .k = s.k, .in = kDTypeOf<T>, .out = kDTypeOf<T>, .a = a.data(), .b = b.data(), .c = c.data()};
  args.a_row = s.transpose_a ? 1 : s.k;
  args.a_col = s.transpose_a ? s.m : 1;
  args.b_row = s.transpose_b ? 1 : s.n;
  args.b_col = s.transpose_b ? s.k : 1;
  args.c_row = s.n;
  const double took = best_seconds(repeats, [&] { cpu::level().gemm.gemm(args); });
  const double gflops = 2e-9 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) / took;
  fmt::print("{:5} {:5} {:5} {}{} {:5} {:7.1f} GFLOP/s {:4.0f} % of peak\n", s.m, s.n, s.k, s.transpose_a ? 'T' : 'N',
             s.transpose_b ? 'T' : 'N', name_of(kDTypeOf<T>), gflops, 100 * gflops / peak);
}

}  // namespace
}  // namespace binade::bench

int main(int argc, char** argv) {
  using namespace binade;
  const bench::ProductBench b(argc, argv, 10);
  for (const bench::Shape& s : bench::kShapes) {
    bench::measure<float>(s, b.repeats, b.peak);
    bench::measure<bfloat16>(s, b.repeats, b.bf16_peak);
    bench::measure<float16>(s, b.repeats, b.peak);
  }
}
