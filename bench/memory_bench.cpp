// Prints the GB/s of memory-bound ops and of the optimizer, and their share of the machine's bandwidth, for working
// sets in the L2 cache, in the L3 cache, and in main memory. Ops and bandwidth are measured alternately. Counts the
// bytes that an op must read and write at least. gemm_bench and conv_bench measure compute-bound ops.
// Usage: memory_bench [--threads N] [--sizes l2,l3,memory] [--dtypes fp32,bf16] [--only TEXT] [--repeats N]; BINADE_ISA
// selects the kernel level.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/bandwidth.h"
#include "bench/ceiling.h"
#include "bench/memory_table.h"
#include "bench/op_call.h"
#include "binade.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/ops/batch_norm.h"
#include "binade/core/ops/cast.h"
#include "binade/core/ops/concat.h"
#include "binade/core/ops/cross_entropy.h"
#include "binade/core/ops/dropout.h"
#include "binade/core/ops/embedding.h"
#include "binade/core/ops/formulas.h"
#include "binade/core/ops/layer_norm.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/softmax.h"
#include "binade/optim/gradient_scan.h"
#include "binade/run/command_line.h"

namespace binade::bench {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kWidth = 768, kKeys = 1024, kClasses = 8192, kImageEdge = 32, kImageChannels = 32;

struct Settings {
  int threads = 0;
  std::vector<std::string> sizes{"l2", "l3", "memory"}, dtypes{"fp32", "bf16"};
  TableOptions table;
};

/// Returns the size of a cache in bytes, or `assumed` if the system does not know it.
std::int64_t cache_bytes(int name, std::int64_t assumed) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : assumed;
}

/// Returns the working sets: one as large as half of the threads' L2 caches, one that exceeds these but fits into the
/// L3 cache, and one of kMemory bytes, for main memory. kMemory is a constant, because an L3 cache that many virtual
/// machines share may be larger than the memory of one of them.
std::vector<WorkingSet> working_sets() {
  constexpr std::int64_t kAssumedL2 = kMiB, kAssumedL3 = 32 * kMiB, kUsualL3 = 24 * kMiB, kMemory = 512 * kMiB;
  const std::int64_t l2 = num_threads() * cache_bytes(_SC_LEVEL2_CACHE_SIZE, kAssumedL2);
  const std::int64_t l3 = cache_bytes(_SC_LEVEL3_CACHE_SIZE, kAssumedL3);
  return {{"l2", l2 / 2}, {"l3", std::min(std::max(kUsualL3, 4 * l2), l3 * 3 / 4)}, {"memory", kMemory}};
}

/// Memory traffic of an op in forward or in backward, in multiples of the size of its first input: the bytes of all
/// tensors (`set`), and the bytes read and written.
struct Traffic {
  double set, reads, writes;
};
constexpr std::uint32_t kAllInputs = ~0u;

/// Adds a row for an op in forward. make(n) returns a call whose first input is 1/n of the working set.
template <class Make>
void forward_row(Table& t, const std::string& name, const Traffic& traffic, const Make& make) {
  t.row(name + " forward", [&] {
    const auto call = make(traffic.set);
    const double x = bytes_of(call.in[0]);
    return Work{traffic.reads * x, traffic.writes * x, call.forward(kAllInputs)};
  });
}

Tensor shaped(const Shape& shape, DType dtype, std::uint32_t tag = 2) {
  return values(shape.rows(), shape.cols(), dtype, tag).reshape(shape);
}
Tensor like(const Tensor& x, std::uint32_t tag = 2) { return shaped(x.shape(), x.dtype(), tag); }
Tensors one_like(const Tensor& x) { return {like(x)}; }

/// Adds a row for an op in backward. gradients(x) returns the gradients of the op's results if its first input is x.
template <class Make, class GradientsOf = decltype(&one_like)>
void backward_row(Table& t, const std::string& name, const Traffic& traffic, const Make& make,
                  const GradientsOf& gradients = &one_like) {
  t.row(name + " backward", [&] {
    const auto call = make(traffic.set);
    const double x = bytes_of(call.in[0]);
    return Work{traffic.reads * x, traffic.writes * x, call.backward(kAllInputs, gradients(call.in[0]))};
  });
}

template <class Op>
void unary(Table& t, const std::string& name) {
  const auto make = [&](double set) { return Call<Op>{.in = {t.tensor(set, kWidth)}, .store = t.dtype()}; };
  forward_row(t, name, {2, 1, 1}, make);
  backward_row(t, name, {3, 2, 1}, make);
}

template <class Op>
void binary(Table& t, const std::string& name) {
  forward_row(t, name, {3, 2, 1}, [&](double set) {
    const Tensor x = t.tensor(set, kWidth);
    return Call<Op>{.in = {x, like(x)}, .store = t.dtype()};
  });
}

/// Adds elementwise ops, without backward if backward equals forward (mul, dropout) or is trivial (add, concat).
void elementwise(Table& t) {
  unary<ops::Relu>(t, "relu");
  unary<ops::Gelu>(t, "gelu");
  unary<ops::GeluTanh>(t, "gelu_tanh");
  binary<ops::Add>(t, "add");
  binary<ops::Mul>(t, "mul");
  forward_row(t, "dropout", {2, 1, 1}, [&](double set) {
    return Call<ops::Dropout>{.in = {t.tensor(set, kWidth)}, .store = t.dtype(), .params = {.p = 0.1}};
  });
  forward_row(t, "concat", {4, 2, 2}, [&](double set) {
    const Tensor x = t.images(set, kImageEdge, kImageChannels);
    return Call<ops::Concat>{.in = {x, like(x)}, .store = t.dtype()};
  });
  forward_row(t, "sum", {1, 1, 0},
              [&](double set) { return Call<ops::Sum>{.in = {t.tensor(set, kWidth)}, .store = DType::f32}; });
}

void cast(Table& t, DType from, DType to) {
  const double ratio = static_cast<double>(size_of(to)) / static_cast<double>(size_of(from));
  forward_row(t, fmt::format("cast {} to {}", name_of(from), name_of(to)), {1 + ratio, 1, ratio}, [&](double set) {
    const double bytes = set * static_cast<double>(size_of(from));
    return Call<ops::Cast>{.in = {values(t.rows(bytes, kWidth), kWidth, from, 1)}, .params = {.to = to}};
  });
}

Tensor channels(std::int64_t count) { return values(1, count, DType::f32, 3).reshape({count}); }

void row_norms(Table& t) {
  const Tensor weight = channels(kWidth);
  const auto norm = [&](double set) {
    return Call<ops::LayerNorm>{.in = {t.tensor(set, kWidth), weight, weight}, .parameters = 0b110, .store = t.dtype()};
  };
  forward_row(t, "layer_norm", {2, 1, 1}, norm);
  backward_row(t, "layer_norm", {3, 2, 1}, norm);
  const auto add_norm = [&](double set) {
    const Tensor x = t.tensor(set, kWidth);
    return Call<ops::AddLayerNorm>{.in = {x, like(x), weight, weight}, .parameters = 0b1100, .store = t.dtype()};
  };
  forward_row(t, "add_layer_norm", {4, 2, 2}, add_norm);
  // Backward reads the gradients of both results, the sum and the normalized sum, and writes one gradient, which x and
  // the residual share.
  backward_row(t, "add_layer_norm", {4, 3, 1}, add_norm, [](const Tensor& x) { return Tensors{like(x, 3), like(x)}; });
}

/// Adds batch norm, which reads its inputs twice: first for the sums of each channel, then for the results.
void batch_norm(Table& t) {
  const Tensor weight = channels(kImageChannels), none;
  const auto norm = [&](double set) {
    return Call<ops::BatchNorm>{.in = {t.images(set, kImageEdge, kImageChannels), weight, weight, none, none, none},
                                .parameters = 0b110,
                                .store = t.dtype(),
                                .params = {.relu = true}};
  };
  forward_row(t, "batch_norm + relu", {2, 2, 1}, norm);
  backward_row(t, "batch_norm + relu", {3, 4, 1}, norm);
}

/// Adds max pooling, which stores the largest of each four pixels, and its position in one byte.
void max_pool(Table& t) {
  const double left = 0.25 + 0.25 / t.size();
  const auto pool = [&](double set) {
    return Call<ops::MaxPool2d>{.in = {t.images(set, kImageEdge, kImageChannels)}, .store = t.dtype()};
  };
  forward_row(t, "max_pool2d", {1 + left, 1, left}, pool);
  backward_row(t, "max_pool2d", {1 + left, left, 1}, pool, [](const Tensor& x) {
    return Tensors{shaped({x.dim(0), x.dim(1) / 2, x.dim(2) / 2, x.dim(3)}, x.dtype())};
  });
}

/// Adds softmax, which always stores f32, and cross_entropy, whose gradient a training step writes over the logits.
void softmax_and_loss(Table& t) {
  const double wide = 4 / t.size();
  const auto softmax = [&](double set) {
    return Call<ops::Softmax>{.in = {t.tensor(set, kKeys)}, .store = DType::f32};
  };
  forward_row(t, "softmax", {1 + wide, 1, wide}, softmax);
  backward_row(t, "softmax", {1 + 2 * wide, 2 * wide, 1}, softmax,
               [](const Tensor& x) { return Tensors{shaped(x.shape(), DType::f32)}; });
  const auto loss = [&](double set) {
    const Tensor x = t.tensor(set, kClasses);
    return Call<ops::CrossEntropy>{.in = {x, labels(x.dim(0), kClasses)}, .store = DType::f32};
  };
  forward_row(t, "cross_entropy", {1, 1, 0}, loss);
  backward_row(t, "cross_entropy", {2, 1, 1}, loss, [](const Tensor&) { return Tensors{Tensor::scalar(1)}; });
}

/// Adds an embedding with as many lookups as the table has rows. The table's gradient is f32 and written completely.
void embedding(Table& t) {
  const auto lookup = [&](double set) {
    const Tensor table = t.tensor(set, kWidth);
    return Call<ops::Embedding>{
        .in = {table, labels(table.dim(0), table.dim(0))}, .parameters = 0b1, .store = t.dtype()};
  };
  forward_row(t, "embedding", {2, 1, 1}, lookup);
  backward_row(t, "embedding", {1 + 4 / t.size(), 1, 4 / t.size()}, lookup);
}

/// Makes an optimizer with one parameter and its gradient.
template <class Optimizer, class Options>
std::shared_ptr<Optimizer> optimizer_of(std::int64_t rows, const Options& options) {
  Variable w(values(rows, kWidth, DType::f32, 1, 0.02), true);
  auto optimizer = std::make_shared<Optimizer>(std::vector<optim::NamedParameter>{{.name = "w", .variable = w}},
                                               options);
  backward(w * 1.0, values(rows, kWidth, DType::f32, 2, 1e-3));
  return optimizer;
}

/// Adds AdamW, whose kernel Adam shares. All values are f32, except for an optional 16-bit copy of the weights, of
/// `copy` bytes per weight (0: no copy).
void adamw(Table& t, const std::string& name, double copy) {
  t.row(name, [&] {
    const std::int64_t rows = t.rows(16 + copy, kWidth);
    const auto adam = optimizer_of<optim::AdamW>(rows, optim::AdamWOptions{.lr = 1e-4});
    if (copy > 0) adam->parameters().slices()[0].variable.state()->low_copy(t.dtype());
    const auto count = static_cast<double>(rows * kWidth);
    return Work{16 * count, (12 + copy) * count, [adam] { adam->step(); }, true};
  });
}

void sgd(Table& t) {
  t.row("sgd with momentum", [&] {
    const std::int64_t rows = t.rows(12, kWidth);
    const auto sgd = optimizer_of<optim::Sgd>(rows, optim::SgdOptions{.lr = 1e-4, .momentum = 0.9});
    const auto count = static_cast<double>(rows * kWidth);
    return Work{12 * count, 8 * count, [sgd] { sgd->step(); }, true};
  });
}

/// Adds the scan for a step's verdict: the norm of the gradients, and a check that they are finite.
void gradient_scan(Table& t) {
  t.row("gradient scan", [&] {
    const std::int64_t rows = t.rows(4, kWidth);
    const auto sgd = optimizer_of<optim::Sgd>(rows, optim::SgdOptions{});
    return Work{4.0 * static_cast<double>(rows * kWidth), 0, [sgd] { optim::scan_gradients(sgd->parameters()); }};
  });
}

void all_rows(Table& t) {
  const bool low = t.dtype() != DType::f32;
  elementwise(t);
  if (low) cast(t, DType::f32, t.dtype());
  if (low) cast(t, t.dtype(), DType::f32);
  row_norms(t);
  batch_norm(t);
  max_pool(t);
  softmax_and_loss(t);
  embedding(t);
  if (low) return adamw(t, "adamw with a low copy", t.size());
  adamw(t, "adamw", 0);
  sgd(t);
  gradient_scan(t);
}

int run(const Settings& s) {
  const Runtime runtime({.seed = 1, .threads = s.threads});
  fmt::print("level {}, {} threads\n", cpu::level().isa, num_threads());
  print_handover("before");
  int met = 0, rows = 0;
  for (const WorkingSet& set : working_sets()) {
    if (std::ranges::find(s.sizes, set.level) == s.sizes.end()) continue;
    fmt::print("{}: {:.1f} MiB\n", set.level, static_cast<double>(set.bytes) / kMiB);
    Bandwidth bandwidth(set.bytes);
    for (const std::string& dtype : s.dtypes) {
      Table table(s.table, set, dtype == "fp32" ? DType::f32 : DType::bf16, bandwidth);
      all_rows(table);
      met += table.met();
      rows += table.measured();
    }
  }
  print_handover("after");
  fmt::print("{} of {} rows meet their goal: 70 % of the bandwidth, optimizers 80 % of a triad\n", met, rows);
  return 0;
}

}  // namespace
}  // namespace binade::bench

int main(int argc, char** argv) {
  binade::bench::Settings s;
  CLI::App program("Times memory-bound ops and the optimizer against the memory bandwidth", "memory_bench");
  program.add_option("--threads", s.threads, "threads; 0: one per core")->check(CLI::Range(0, 1024));
  program.add_option("--sizes", s.sizes, "working sets: l2, l3, memory")
      ->delimiter(',')
      ->check(CLI::IsMember({"l2", "l3", "memory"}));
  program.add_option("--dtypes", s.dtypes, "fp32, bf16")->delimiter(',')->check(CLI::IsMember({"fp32", "bf16"}));
  program.add_option("--only", s.table.only, "rows with this text in their name");
  program.add_option("--repeats", s.table.repeats, "samples per median")->check(CLI::Range(1, 1000));
  return binade::amp::run_command_line(program, argc, argv, [&] { return binade::bench::run(s); });
}
