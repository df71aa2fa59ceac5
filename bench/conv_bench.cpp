// Prints the GFLOP/s (with padding) of 3x3 convolutions (forward and both gradients) and of attention, and their share
// of the multiply-add peak. Usage: conv_bench [THREADS [REPEATS]]; BINADE_ISA selects the kernel level.
#include <fmt/core.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "bench/ceiling.h"

namespace binade::bench {
namespace {

void line(const std::string& what, double flop, double took, double peak) {
  fmt::print("{:40} {:8.3f} ms {:7.1f} GFLOP/s {:4.0f} % of peak\n", what, took * 1e3, flop / took * 1e-9,
             100e-9 * flop / took / peak);
}

template <class T>
void convolution(std::int64_t size, std::int64_t channels, std::int64_t filters, int repeats, double peak) {
  ConvShape s{.images = 4,
              .height = size,
              .width = size,
              .channels = channels,
              .out_height = size,
              .out_width = size,
              .filters = filters,
              .filter_height = 3,
              .filter_width = 3,
              .padding = {1, 1}};
  std::vector<T> x = normal_values<T>(4 * size * size * channels), y = normal_values<T>(4 * size * size * filters),
                 w = normal_values<T>(filters * 9 * channels);
  std::vector<float> gw(w.size());
  ConvArgs args{.shape = s,
                .in = kDTypeOf<T>,
                .out = kDTypeOf<T>,
                .source = x.data(),
                .source_pitch = channels,
                .filter = w.data(),
                .result = y.data(),
                .result_pitch = filters};
  const double flop = 2.0 * 4 * static_cast<double>(size * size * channels * filters) * 9;
  const std::string name = fmt::format("conv N4 C{} {}x{} K{} {} ", channels, size, size, filters,
                                       name_of(kDTypeOf<T>));
  line(name + "forward", flop, best_seconds(repeats, [&] { cpu::level().conv.conv(args); }), peak);
  std::swap(args.shape.channels, args.shape.filters);
  args.source = y.data();
  args.source_pitch = filters;
  args.result = x.data();
  args.result_pitch = channels;
  line(name + "data gradient", flop, best_seconds(repeats, [&] { cpu::level().conv.conv(args); }), peak);
  const ConvWeightArgs weights{.shape = s,
                               .in = kDTypeOf<T>,
                               .x = x.data(),
                               .x_pitch = channels,
                               .gy = y.data(),
                               .gy_pitch = filters,
                               .gw = gw.data()};
  line(name + "weight gradient", flop, best_seconds(repeats, [&] { cpu::level().conv.weight_gradient(weights); }),
       peak);
}

template <class T>
void attention(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t depth, bool causal,
               int repeats, double peak) {
  const std::int64_t width = heads * depth;
  std::vector<T> q = normal_values<T>(batch * tokens * width), k = q, v = q, y = q, gy = q, gq = q, gk = q, gv = q;
  std::vector<float> lse(static_cast<std::size_t>(batch * heads * tokens));
  AttentionArgs args{.batch = batch,
                     .queries = tokens,
                     .keys = tokens,
                     .heads = heads,
                     .key_heads = heads,
                     .depth = depth,
                     .scale = 1 / std::sqrt(static_cast<float>(depth)),
                     .causal = causal,
                     .dtype = kDTypeOf<T>,
                     .q = {q.data(), width, depth},
                     .k = {k.data(), width, depth},
                     .v = {v.data(), width, depth},
                     .rng = {}};
  const double product = 2.0 * static_cast<double>(batch * tokens * width) *
                         (causal ? static_cast<double>(tokens + 1) / 2 : static_cast<double>(tokens));
  const std::string name = fmt::format("attention B{} T{} H{} D{}{} {} ", batch, tokens, heads, depth,
                                       causal ? " causal" : "", name_of(kDTypeOf<T>));
  line(name + "forward", 2 * product,
       best_seconds(repeats,
                    [&] {
                      cpu::level().attention.forward(
                          {.args = args, .y = y.data(), .y_token = width, .y_head = depth, .lse = lse.data()});
                    }),
       peak);
  line(name + "backward", 5 * product,
       best_seconds(repeats,
                    [&] {
                      cpu::level().attention.backward({.args = args,
                                                       .y = {y.data(), width, depth},
                                                       .gy = {gy.data(), width, depth},
                                                       .lse = lse.data(),
                                                       .gq = {gq.data(), width, depth},
                                                       .gk = {gk.data(), width, depth},
                                                       .gv = {gv.data(), width, depth}});
                    }),
       peak);
}

}  // namespace
}  // namespace binade::bench

int main(int argc, char** argv) {
  using namespace binade;
  const bench::ProductBench b(argc, argv, 5);
  for (const auto& [size, channels, filters] :
       {std::array{128, 32, 32}, std::array{32, 128, 128}, std::array{16, 256, 256}, std::array{8, 512, 512},
        std::array{128, 16, 16}, std::array{128, 1, 32}}) {
    bench::convolution<float>(size, channels, filters, b.repeats, b.peak);
    bench::convolution<bfloat16>(size, channels, filters, b.repeats, b.bf16_peak);
  }
  for (bool causal : {false, true}) {
    bench::attention<float>(8, 256, 6, 64, causal, b.repeats, b.peak);
    bench::attention<bfloat16>(8, 256, 6, 64, causal, b.repeats, b.bf16_peak);
  }
  bench::attention<float>(16, 64, 4, 32, true, b.repeats, b.peak);
}
