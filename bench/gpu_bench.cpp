// Times copies, products and ops of GPT-2 and of the U-Net on a GPU. For each it prints one JSON object, for `run-gpu
// bench`, with the time, and with the bytes and operations that the work needs at least.
// Usage: gpu_bench [--part ceilings|products|ops] [--device cuda[:N]] [--tokens N] [--quick] [--dry]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/ceiling.h"
#include "bench/op_call.h"
#include "binade.h"
#include "binade/core/backend.h"
#include "binade/core/ops/attention.h"
#include "binade/core/ops/batch_norm.h"
#include "binade/core/ops/concat.h"
#include "binade/core/ops/conv2d.h"
#include "binade/core/ops/conv_transpose2d.h"
#include "binade/core/ops/cross_entropy.h"
#include "binade/core/ops/embedding.h"
#include "binade/core/ops/formulas.h"
#include "binade/core/ops/layer_norm.h"
#include "binade/core/ops/linear.h"
#include "binade/core/ops/matmul.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/io/records/json_lines.h"
#include "binade/run/command_line.h"

namespace binade::bench {
namespace {

struct Settings {
  std::string part, device = "cuda";
  std::int64_t tokens = 65536;  // tokens of GPT-2 per step: batch 64 of 1024
  bool quick = false, dry = false;
};

/// Work to time, with the minimum of bytes that it must move and of operations that it must compute.
struct Work {
  std::string part, what, dtype;
  double bytes = 0, flops = 0;
  std::function<void()> run;
};

/// Times `work` and prints its line; an Error becomes part of the line.
void measure(const Settings& s, const Work& work) {
  io::JsonObject line;
  line.add("part", work.part).add("what", work.what).add("dtype", work.dtype);
  try {
    Backend& device = backend_of(Runtime::current_device());
    const auto time = [&](int count) {
      device.synchronize({});
      const double start = seconds();
      for (int i = 0; i < count; ++i) work.run();
      device.synchronize({});
      return (seconds() - start) / count;
    };
    time(s.dry ? 1 : 3);
    const int count = s.dry ? 1 : std::clamp(static_cast<int>(0.02 / time(1)), 1, 500);
    std::vector<double> rounds;
    for (int i = 0; i < (s.dry ? 1 : s.quick ? 3 : 7); ++i) rounds.push_back(time(count));
    std::ranges::sort(rounds);
    const double median = rounds[rounds.size() / 2];
    line.add("us", median * 1e6).add("us_min", rounds.front() * 1e6).add("us_max", rounds.back() * 1e6);
    line.add("calls", count).add("bytes", work.bytes).add("flops", work.flops);
    line.add("tb_s", work.bytes / median * 1e-12).add("tflop_s", work.flops / median * 1e-12);
  } catch (const Error& error) {
    line.add("error", error.what());
  }
  std::printf("%s\n", line.text().c_str());
  std::fflush(stdout);
}

/// Runs `body`, which allocates tensors and measures ops on them; prints a line with the error if it throws.
void attempt(const Settings& s, const std::string& part, const std::string& what, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    std::printf("%s\n", io::JsonObject().add("part", part).add("what", what).add("error", error.what()).text().c_str());
    std::fflush(stdout);
  }
  if (!s.dry) backend_of(Runtime::current_device()).trim();
}

struct Precision {
  const char* name;
  DType dtype;
  bool tf32 = false;
};
const Precision kPrecisions[] = {
    {"bf16", DType::bf16}, {"fp16", DType::f16}, {"tf32", DType::f32, true}, {"fp32", DType::f32}};

void ceilings(const Settings& s) {
  const std::int64_t million = s.dry ? 1 << 10 : 1 << 20;
  attempt(s, "copy", "device to device", [&] {
    const Tensor from = values(512, million, DType::f32, 1);
    Tensor to = Tensor::empty(from.shape(), DType::f32, Runtime::current_device());
    Backend& device = backend_of(Runtime::current_device());
    const auto bytes = static_cast<std::size_t>(bytes_of(from));
    measure(s, {"copy", "device to device", "", 2 * bytes_of(from), 0,
                [&] { device.copy(to.mutable_raw(), from.raw(), bytes, CopyKind::kDeviceToDevice, {}); }});
  });
  const std::int64_t n = s.dry ? 16 : 8192;
  for (const Precision& p : kPrecisions) {
    if (p.dtype == DType::f32 && !p.tf32 && s.quick) continue;
    attempt(s, "gemm", "square", [&] {
      const Call<ops::Matmul> call{
          .in = {values(n, n, p.dtype, 1), values(n, n, p.dtype, 2)}, .store = p.dtype, .tf32 = p.tf32};
      measure(s, {"gemm", fmt::format("{0} x {0} x {0}", n), p.name, 3 * bytes_of(call.in[0]),
                  2.0 * std::pow(static_cast<double>(n), 3), call.forward()});
    });
  }
}

void products(const Settings& s) {
  struct Layer {
    const char* name;
    std::int64_t out, in;
    bool bias = true;
    Activation activation = Activation::kNone, before = Activation::kNone;
  };
  const Layer layers[] = {{"qkv", 2304, 768},
                          {"attention out", 768, 768},
                          {"up", 3072, 768, true, Activation::kGeluTanh},
                          {"down", 768, 3072, true, Activation::kNone, Activation::kGeluTanh},
                          {"head", 50304, 768, false}};
  for (const Precision& p : kPrecisions) {
    if (p.dtype == DType::f32 && s.quick) continue;
    for (const Layer& l : layers) {
      const std::int64_t rows = s.dry ? 8 : s.tokens, out = s.dry ? 16 : l.out, in = s.dry ? 8 : l.in;
      attempt(s, "product", l.name, [&] {
        const Call<ops::Linear> call{.in = {values(rows, in, p.dtype, 1), values(out, in, p.dtype, 2, 0.02), Tensor()},
                                     .parameters = 0b10,
                                     .store = p.dtype,
                                     .tf32 = p.tf32};
        const double x = bytes_of(call.in[0]), w = bytes_of(call.in[1]),
                     y = x / static_cast<double>(in * 1) * static_cast<double>(out);
        const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
        const std::string name(l.name);
        measure(s, {"product", name + " forward", p.name, x + w + y, flops, call.forward()});
        const Tensor gy = values(rows, out, p.dtype, 3);
        measure(s, {"product", name + " gradient of x", p.name, x + w + y, flops, call.backward(0b01, gy)});
        measure(s, {"product", name + " gradient of w", p.name, x + y + 4.0 * static_cast<double>(in * out), flops,
                    call.backward(0b10, gy)});
        // The product can multiply its result by the activation derivative of the previous layer. If the library's
        // product cannot, the previous layer's backward does it (not timed here).
        if (l.before != Activation::kNone)
          measure(s, {"product", name + " gradient of x, slope of gelu", p.name, 2 * x + w + y, flops,
                      call.backward(0b01, gy, {l.before, values(rows, in, p.dtype, 5)})});
        if (!l.bias) return;
        // The layer as the model calls it: with a bias in the products' dtype (OpInfo::low_on_gpu), and for the layer
        // `up` with a GELU that saves its input for backward.
        Call<ops::Linear> whole = call;
        whole.in[2] = values(1, out, p.dtype, 4).reshape({out});
        whole.parameters = 0b110;
        whole.params.activation = l.activation;
        const bool gelu = l.activation != Activation::kNone;
        const std::string with = gelu ? ", bias and gelu" : ", bias";
        const double kept = gelu ? y : 0;
        measure(s, {"product", name + " forward" + with, p.name, x + w + y + kept, flops, whole.forward(0b111)});
        measure(s, {"product", name + " all gradients" + with, p.name,
                    2 * x + w + y + kept + 4.0 * static_cast<double>(in * out), 2 * flops, whole.backward(0b111, gy)});
      });
    }
  }
}

/// Measures the ops of GPT-2 other than products, in bf16.
void transformer_ops(const Settings& s) {
  const std::int64_t rows = s.dry ? 8 : s.tokens, dim = s.dry ? 16 : 768, classes = s.dry ? 32 : 50304;
  const DType low = DType::bf16;
  attempt(s, "op", "layer_norm", [&] {
    const Tensor x = values(rows, dim, low, 1), gy = values(rows, dim, low, 2);
    const Tensor weight = values(1, dim, DType::f32, 3).reshape({dim});
    const Call<ops::LayerNorm> norm{.in = {x, weight, weight}, .parameters = 0b110};
    measure(s, {"op", "layer_norm forward", "bf16", 2 * bytes_of(x), 0, norm.forward(0b111)});
    measure(s, {"op", "layer_norm backward", "bf16", 3 * bytes_of(x), 0, norm.backward(0b111, gy)});
    const Call<ops::AddLayerNorm> add{.in = {x, gy, weight, weight}, .parameters = 0b1100};
    measure(s, {"op", "add_layer_norm forward", "bf16", 4 * bytes_of(x), 0, add.forward(0b1111)});
  });
  attempt(s, "op", "embedding", [&] {
    const std::int64_t length = s.dry ? 8 : 1024, batch = rows / length;
    const Tensor x = values(rows, dim, low, 1).reshape({batch, length, dim}), positions = values(length, dim, low, 2);
    const Call<ops::Add> add{.in = {x, positions}};
    measure(s, {"op", "tokens + positions", "bf16", 2 * bytes_of(x) + bytes_of(positions), 0, add.forward(0b11)});
    const Tensor table = values(classes, dim, low, 3), gy = values(rows, dim, low, 4);
    for (const bool text : {false, true}) {
      const Call<ops::Embedding> call{.in = {table, labels(rows, classes, text)}, .parameters = 0b1};
      const std::string name = text ? "embedding of text backward" : "embedding backward";
      measure(s, {"op", name, "bf16", bytes_of(gy) + 2 * bytes_of(table), 0, call.backward(0b1, gy)});
    }
  });
  attempt(s, "op", "gelu", [&] {
    const Tensor x = values(rows, 4 * dim, low, 1), gy = values(rows, 4 * dim, low, 2);
    const Call<ops::GeluTanh> call{.in = {x}};
    measure(s, {"op", "gelu_tanh forward", "bf16", 2 * bytes_of(x), 0, call.forward(1)});
    measure(s, {"op", "gelu_tanh backward", "bf16", 3 * bytes_of(x), 0, call.backward(1, gy)});
  });
  attempt(s, "op", "cross_entropy", [&] {
    const Tensor x = values(rows, classes, low, 1);
    const Call<ops::CrossEntropy> call{.in = {x, labels(rows, classes)}, .store = DType::f32};
    measure(s, {"op", "cross_entropy forward", "bf16", bytes_of(x), 0, call.forward(1)});
    const Tensor seed = Tensor::scalar(1, DType::f32).to(Runtime::current_device());
    measure(s, {"op", "cross_entropy backward", "bf16", 2 * bytes_of(x), 0, call.backward(1, seed)});
  });
  attempt(s, "op", "attention", [&] {
    const std::int64_t length = s.dry ? 8 : 1024, heads = s.dry ? 2 : 12, batch = rows / length;
    const Tensor packed = values(rows, 3 * dim, low, 1);
    const Tensor gy = values(rows, dim, low, 2).reshape({batch, length, dim});
    Tensors in;
    for (std::uint32_t i = 0; i < 3; ++i) in.push_back(values(rows, dim, low, 3 + i).reshape({batch, length, dim}));
    in.emplace_back();
    const Call<ops::Attention> call{.in = in, .params = {.causal = true, .heads = heads}};
    // A causal mask needs half of the T x T square; there are two products in forward and five in backward.
    const double product = static_cast<double>(rows) * static_cast<double>(length) * static_cast<double>(dim);
    measure(s, {"op", "attention forward", "bf16", 4 * bytes_of(gy), 2 * product, call.forward(0b111)});
    measure(s, {"op", "attention backward", "bf16", 8 * bytes_of(gy), 5 * product, call.backward(0b111, gy)});
  });
  attempt(s, "op", "adamw", [&] {
    const std::int64_t count = s.dry ? 64 : 124475904 / 1024;
    Variable w(values(count, 1024, DType::f32, 1, 0.02), true);
    optim::AdamW adam({{.name = "w", .variable = w}}, {.lr = 1e-4});
    backward(w * 1.0, values(count, 1024, DType::f32, 2, 1e-3));
    measure(s, {"op", "adamw of 124M", "f32", 28.0 * static_cast<double>(count) * 1024, 0, [&] { adam.step(); }});
  });
}

/// Measures the ops of the U-Net, in bf16 at batch 16 of 512 x 512. Level l has 64 << l channels and 512 >> l pixels a
/// side; the last level (4) has no decoder. A quick run measures each op on the first level only.
void image_ops(const Settings& s) {
  const std::int64_t batch = s.dry ? 1 : 16, side = s.dry ? 8 : 512, base = s.dry ? 8 : 64;
  const auto images = [&](std::int64_t edge, std::int64_t channels, std::uint32_t tag) {
    return values(batch * edge * edge, channels, DType::bf16, tag).reshape({batch, edge, edge, channels});
  };
  const auto vector = [](std::int64_t channels) { return values(1, channels, DType::f32, 3).reshape({channels}); };
  const auto conv = [&](std::int64_t from, std::int64_t to, std::int64_t edge, std::int64_t kernel) {
    attempt(s, "op", "conv2d", [&] {
      const Tensor x = images(edge, from, 1), gy = images(edge, to, 2);
      const Tensor w = values(to, kernel * kernel * from, DType::bf16, 3, 0.05).reshape({to, kernel, kernel, from});
      const Call<ops::Conv2d> call{
          .in = {x, w, kernel == 1 ? vector(to) : Tensor()}, .parameters = 0b110, .params = {.padding = kernel / 2}};
      const double flops = 2.0 * static_cast<double>(w.numel()) * static_cast<double>(batch * edge * edge);
      const double moved = bytes_of(x) + bytes_of(gy) + bytes_of(w);
      const std::string name = fmt::format("conv2d {0}x{0} {1} to {2} at {3}", kernel, from, to, edge);
      measure(s, {"op", name + " forward", "bf16", moved, flops, call.forward()});
      measure(s, {"op", name + " gradient of x", "bf16", moved, flops, call.backward(0b01, gy)});
      measure(s, {"op", name + " gradient of w", "bf16", moved + bytes_of(w), flops, call.backward(0b10, gy)});
    });
  };
  conv(3, base, side, 3);
  conv(base, 1, side, 1);
  for (std::int64_t level = 0; level < 5; ++level) {
    if (s.dry && level > 0) break;
    const bool deepest = level == 4, few = s.quick && level > 0;
    const std::int64_t k = base << level, edge = side >> level;
    const std::string at = level == 0 ? "" : fmt::format(", {} at {}", k, edge);
    conv(k, k, edge, 3);
    if (few) continue;
    if (level > 0) conv(k / 2, k, edge, 3);
    if (!deepest) conv(2 * k, k, edge, 3);
    attempt(s, "op", "batch_norm", [&] {
      const Tensor x = images(edge, k, 1), gy = images(edge, k, 2), weight = vector(k);
      const Call<ops::BatchNorm> call{
          .in = {x, weight, weight, Tensor(), Tensor(), Tensor()}, .parameters = 0b110, .params = {.relu = true}};
      measure(s, {"op", "batch_norm + relu forward" + at, "bf16", 3 * bytes_of(x), 0, call.forward(0b111)});
      measure(s, {"op", "batch_norm + relu backward" + at, "bf16", 5 * bytes_of(x), 0, call.backward(0b111, gy)});
    });
    if (deepest) continue;
    attempt(s, "op", "max_pool2d", [&] {
      const Tensor x = images(edge, k, 1), gy = images(edge / 2, k, 2);
      const Call<ops::MaxPool2d> call{.in = {x}};
      const double positions = static_cast<double>(gy.numel());  // one byte per maximum for its position
      measure(s, {"op", "max_pool2d forward" + at, "bf16", bytes_of(x) + bytes_of(gy) + positions, 0, call.forward(1)});
      measure(s, {"op", "max_pool2d backward" + at, "bf16", bytes_of(x) + bytes_of(gy) + positions, 0,
                  call.backward(1, gy)});
    });
    attempt(s, "op", "conv_transpose2d", [&] {
      const Tensor x = images(edge / 2, 2 * k, 1), gy = images(edge, k, 2);
      const Tensor w = values(2 * k, 4 * k, DType::bf16, 3, 0.05).reshape({2 * k, 2, 2, k});
      const Call<ops::ConvTranspose2d> call{.in = {x, w, vector(k)}, .parameters = 0b110, .params = {.stride = 2}};
      const double flops = 2.0 * static_cast<double>(w.numel()) * static_cast<double>(batch * edge * edge / 4);
      const double moved = bytes_of(x) + bytes_of(gy) + bytes_of(w);
      measure(s, {"op", "up-conv forward" + at, "bf16", moved, flops, call.forward()});
      measure(s, {"op", "up-conv gradient of x" + at, "bf16", moved, flops, call.backward(0b001, gy)});
      measure(s, {"op", "up-conv gradients of w and bias" + at, "bf16", moved + bytes_of(w), flops,
                  call.backward(0b110, gy)});
    });
    attempt(s, "op", "concat", [&] {
      const Call<ops::Concat> call{.in = {images(edge, k, 1), images(edge, k, 2)}};
      measure(s, {"op", "concat forward" + at, "bf16", 4 * bytes_of(call.in[0]), 0, call.forward()});
    });
  }
}

int run(const Settings& s) {
  const Runtime runtime({.device = Device::parse(s.device), .seed = 1});
  std::printf("%s\n", io::JsonObject()
                          .add("part", "device")
                          .add("what", backend_of(runtime.device()).description())
                          .add("tokens", s.tokens)
                          .text()
                          .c_str());
  if (s.part.empty() || s.part == "ceilings") ceilings(s);
  if (s.part.empty() || s.part == "products") products(s);
  if (s.part.empty() || s.part == "ops") {
    transformer_ops(s);
    image_ops(s);
  }
  return 0;
}

}  // namespace
}  // namespace binade::bench

int main(int argc, char** argv) {
  binade::bench::Settings s;
  CLI::App program("Times copies, products and ops on a GPU", "gpu_bench");
  program.add_option("--part", s.part, "ceilings, products or ops (default: all)")
      ->check(CLI::IsMember({"ceilings", "products", "ops"}));
  program.add_option("--device", s.device, "cuda[:N]");
  program.add_option("--tokens", s.tokens, "rows of the products")->check(CLI::Range(1024, 1 << 20));
  program.add_flag("--quick", s.quick, "fewer rounds; products in 16 bits only");
  program.add_flag("--dry", s.dry, "tiny sizes, once: tests the program");
  return binade::amp::run_command_line(program, argc, argv, [&] { return binade::bench::run(s); });
}
