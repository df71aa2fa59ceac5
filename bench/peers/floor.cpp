// Executes and times the least work that a training step consists of:
//   - all products and convolutions, forward and both gradients, by oneDNN, one after another on all threads; attention
//     as if there were no mask;
//   - the passes over memory that remain if all possible ops are fused (see Step::norm_of_images and
//     Step::norm_of_rows), as plain reads and writes of buffers in the last-level cache;
//   - one pass of Adam over the parameters.
// It leaves out the arithmetic of activations, norms, softmax and loss, copies, and changes of layout.
// It is a contender of bench/run.py:
//
//   floor WORKLOAD PRECISION      unet | gpt | gpt-tiny | gpt2; fp32 | bf16; OMP_NUM_THREADS threads
//
// Images have the layout that oneDNN prefers; matrices are row-major, because the weights change in every step.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using dnnl::memory;
using Type = memory::data_type;
using Format = memory::format_tag;

// Makes a primitive_desc from its arguments. Versions before oneDNN 3 first need a descriptor of these arguments.
template <class Primitive, class... Args>
auto describe(const dnnl::engine& engine, const Args&... args) {
  if constexpr (DNNL_VERSION_MAJOR >= 3)
    return typename Primitive::primitive_desc(engine, args...);
  else
    return typename Primitive::primitive_desc(typename Primitive::desc(args...), engine);
}
template <class Primitive, class Hint, class... Args>
auto describe_gradient(const dnnl::engine& engine, const Hint& hint, const Args&... args) {
  if constexpr (DNNL_VERSION_MAJOR >= 3)
    return typename Primitive::primitive_desc(engine, args..., hint);
  else
    return typename Primitive::primitive_desc(typename Primitive::desc(args...), engine, hint);
}

/// The work of one training step, to which the member functions below add layers.
class Step {
 public:
  explicit Step(Type type) : type_(type) {}

  /// Adds a convolution x (n, c, h, h) -> y (n, k, …) with square filters, stride 1 and y as large as x. A transposed
  /// convolution has 2 x 2 filters and stride 2.
  void convolution(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t k, std::int64_t filter, bool transposed,
                   bool data_gradient = true) {
    parameters_ += k * c * filter * filter;
    if (transposed)
      convolution_of<dnnl::deconvolution_forward, dnnl::deconvolution_backward_data,
                     dnnl::deconvolution_backward_weights>(dnnl::algorithm::deconvolution_direct, n, c, h, k, filter, 2,
                                                           2 * h, data_gradient);
    else
      convolution_of<dnnl::convolution_forward, dnnl::convolution_backward_data, dnnl::convolution_backward_weights>(
          dnnl::algorithm::convolution_direct, n, c, h, k, filter, 1, h, data_gradient);
  }

  /// Adds y = x W^T for `rows` rows, and the gradients of x and W, in each of `layers` layers.
  void linear(std::int64_t rows, std::int64_t in, std::int64_t out, std::int64_t layers) {
    parameters_ += in * out * layers;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      product(1, rows, out, in, false, true, type_);
      product(1, rows, in, out, false, false, type_);
      product(1, out, in, rows, true, false, Type::f32);
    }
  }

  /// Adds attention with `heads` heads in the whole batch. It has two products in forward (logits and y) and four in
  /// backward (the gradients of logits, query, key and value).
  void attention(std::int64_t heads, std::int64_t tokens, std::int64_t depth, std::int64_t layers) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (int twice = 0; twice < 2; ++twice)
        product(heads, tokens, tokens, depth, false, true, type_);  // logits, and gy v^T in backward
      for (int twice = 0; twice < 2; ++twice)
        product(heads, tokens, depth, tokens, false, false, type_);  // y, and gq in backward
      for (int twice = 0; twice < 2; ++twice)
        product(heads, tokens, depth, tokens, true, false, type_);  // gk and gv in backward
    }
  }

  /// Adds batch norm and ReLU after a convolution with `values` results. The convolution computes the sums as it stores
  /// its results. In backward, the kernel that stores the incoming gradient computes them and reads the results again.
  void norm_of_images(std::int64_t values) {
    // Each comment lists the arrays that are read -> written.
    pass<1, 1>(values);  // result -> normalized
    pass<1, 0>(values);  // result (read as the incoming gradient is stored) -> nothing
    pass<2, 1>(values);  // result, gradient of normalized -> gradient of result
  }
  /// Adds 2 x 2 max pooling of `values` values, which is fused into the normalization. It writes values / 4 results,
  /// and reads as many gradients in backward.
  void pooling(std::int64_t values) { pass<1, 1>(values / 4); }
  /// Adds an addition to the residual and the layer norm after it.
  void norm_of_rows(std::int64_t values) {
    pass<2, 2>(values);  // residual, branch -> residual, normalized
    pass<3, 1>(values);  // residual, gradients of residual and normalized -> gradient of residual
  }
  /// Adds a fused activation, which stores its input for the gradient.
  void activation(std::int64_t values) { pass<1, 1>(values); }
  /// Adds a lookup of rows with `values` values in total, and its gradient.
  void embedding(std::int64_t values) {
    pass<1, 1>(values);
    pass<1, 1>(values);
  }
  /// Adds the loss of `values` logits, which are read once and replaced by their gradient.
  void loss(std::int64_t values) { pass<1, 1>(values); }

  void run() {
    for (const auto& work : works_) work();
    stream_.wait();
    const auto start = std::chrono::steady_clock::now();
    for (const auto& pass : passes_) pass();
    adam();
    passing_ += std::chrono::steady_clock::now() - start;
  }

  /// Returns the time of passes over memory and Adam since the last call, in ms.
  double take_passing_ms() { return std::exchange(passing_, {}).count(); }

  std::int64_t parameters() const { return parameters_; }

  /// Allocates Adam's state; to be called after the last layer was added.
  void finish() {
    const auto count = static_cast<std::size_t>(parameters_);
    for (std::vector<float>* state : {&weight_, &gradient_, &first_, &second_}) state->assign(count, 1e-3f);
    if (type_ != Type::f32) low_.resize(count);
    for (std::vector<std::uint32_t>& buffer : buffers_) buffer.assign(longest_pass_, 1);
  }

 private:
  template <class Forward, class Data, class Weights>
  void convolution_of(dnnl::algorithm algorithm, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t k,
                      std::int64_t filter, std::int64_t stride, std::int64_t out, bool data_gradient) {
    const memory::desc x({n, c, h, h}, type_, Format::any), w({k, c, filter, filter}, type_, Format::any),
        y({n, k, out, out}, type_, Format::any), gw({k, c, filter, filter}, Type::f32, Format::any);
    const memory::dims strides{stride, stride}, padding{filter / 2 * (stride == 1), filter / 2 * (stride == 1)};
    const auto forward = describe<Forward>(engine_, dnnl::prop_kind::forward_training, algorithm, x, w, y, strides,
                                           padding, padding);
    add(Forward(forward), {{DNNL_ARG_SRC, filled(forward.src_desc())},
                           {DNNL_ARG_WEIGHTS, filled(forward.weights_desc())},
                           {DNNL_ARG_DST, memory(forward.dst_desc(), engine_)}});
    if (data_gradient) {
      const auto data = describe_gradient<Data>(engine_, forward, algorithm, x, w, y, strides, padding, padding);
      add(Data(data), {{DNNL_ARG_DIFF_DST, filled(data.diff_dst_desc())},
                       {DNNL_ARG_WEIGHTS, filled(data.weights_desc())},
                       {DNNL_ARG_DIFF_SRC, memory(data.diff_src_desc(), engine_)}});
    }
    const auto weights = describe_gradient<Weights>(engine_, forward, algorithm, x, gw, y, strides, padding, padding);
    add(Weights(weights), {{DNNL_ARG_SRC, filled(weights.src_desc())},
                           {DNNL_ARG_DIFF_DST, filled(weights.diff_dst_desc())},
                           {DNNL_ARG_DIFF_WEIGHTS, memory(weights.diff_weights_desc(), engine_)}});
  }

  /// Adds `batch` products (m, k) x (k, n). A transposed operand is stored transposed.
  void product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, bool left_transposed,
               bool right_transposed, Type result) {
    const auto matrix = [&](Type type, std::int64_t rows, std::int64_t columns, bool transposed) {
      const std::int64_t row = transposed ? 1 : columns, column = transposed ? rows : 1;
      return batch == 1 ? memory::desc({rows, columns}, type, {row, column})
                        : memory::desc({batch, rows, columns}, type, {rows * columns, row, column});
    };
    const auto made = describe<dnnl::matmul>(engine_, matrix(type_, m, k, left_transposed),
                                             matrix(type_, k, n, right_transposed), matrix(result, m, n, false));
    add(dnnl::matmul(made), {{DNNL_ARG_SRC, filled(made.src_desc())},
                             {DNNL_ARG_WEIGHTS, filled(made.weights_desc())},
                             {DNNL_ARG_DST, memory(made.dst_desc(), engine_)}});
  }

  void add(dnnl::primitive primitive, std::unordered_map<int, memory> arguments) {
    works_.push_back([this, primitive, arguments] { primitive.execute(stream_, arguments); });
  }

  /// Returns memory that is filled with noise, because zeros multiply faster on some processors.
  memory filled(const memory::desc& desc) {
    memory to(desc, engine_);
    const memory::dims dims = described_dims(desc);
    const Format plain = dims.size() == 4 ? Format::abcd : dims.size() == 3 ? Format::abc : Format::ab;
    memory from(memory::desc(dims, Type::f32, plain), engine_);
    auto* values = static_cast<float*>(from.get_data_handle());
    std::normal_distribution<float> normal;
    const std::size_t count = from.get_desc().get_size() / sizeof(float);
    for (std::size_t i = 0; i < count; ++i)  // later values repeat earlier ones, which is faster than drawing all
      values[i] = i < 4096 ? normal(random_) : values[i - 4093];
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
  }
  template <class Desc>
  static memory::dims described_dims(const Desc& desc) {
    if constexpr (DNNL_VERSION_MAJOR >= 3)
      return desc.get_dims();
    else
      return desc.dims();
  }

  /// Adds a pass that reads `kRead` arrays of `values` values and writes `kWritten` arrays of that size.
  template <int kRead, int kWritten>
  void pass(std::int64_t values) {
    const std::size_t words = static_cast<std::size_t>(values) * (type_ == Type::f32 ? 4 : 2) / 4;
    longest_pass_ = std::max(longest_pass_, words);
    passes_.push_back([this, words] {
      const auto count = static_cast<std::int64_t>(words);
      const std::uint32_t *a = buffers_[0].data(), *b = buffers_[1].data(), *c = buffers_[2].data();
      std::uint32_t *y = buffers_[3].data(), *z = buffers_[4].data(), sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
      for (std::int64_t i = 0; i < count; ++i) {
        std::uint32_t x = a[i];
        if constexpr (kRead > 1) x += b[i];
        if constexpr (kRead > 2) x += c[i];
        if constexpr (kWritten > 0) y[i] = x;
        if constexpr (kWritten > 1) z[i] = x + 1;
        if constexpr (kWritten == 0) sum += x;
      }
      if (kWritten == 0) y[0] = sum;
    });
  }

  void adam() {
    const auto count = static_cast<std::int64_t>(weight_.size());
    float *w = weight_.data(), *g = gradient_.data(), *m = first_.data(), *v = second_.data();
    std::uint16_t* low = low_.empty() ? nullptr : low_.data();
    constexpr std::int64_t kChunk = 1 << 14;
#pragma omp parallel for schedule(static)
    for (std::int64_t begin = 0; begin < count; begin += kChunk)
      adam_chunk(std::min(kChunk, count - begin), w + begin, g + begin, m + begin, v + begin,
                 low == nullptr ? low : low + begin);
  }
  __attribute__((target_clones("avx512f", "avx2", "default"))) static void adam_chunk(std::int64_t count, float* w,
                                                                                      const float* g, float* m,
                                                                                      float* v, std::uint16_t* low) {
    for (std::int64_t i = 0; i < count; ++i) {
      m[i] = 0.9f * m[i] + 0.1f * g[i];
      v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
      w[i] -= 1e-3f * m[i] / (std::sqrt(v[i]) + 1e-8f);
    }
    if (low != nullptr)
      for (std::int64_t i = 0; i < count; ++i) {
        std::uint32_t bits;
        __builtin_memcpy(&bits, w + i, sizeof bits);
        low[i] = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      }
  }

  Type type_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::mt19937 random_{1};
  std::vector<std::function<void()>> works_, passes_;
  std::size_t longest_pass_ = 0;
  std::vector<std::uint32_t> buffers_[5];
  std::chrono::duration<double, std::milli> passing_{};
  std::int64_t parameters_ = 0;
  std::vector<float> weight_, gradient_, first_, second_;
  std::vector<std::uint16_t> low_;
};

void unet(Step& step) {
  constexpr std::int64_t kBatch = 4, kBase = 32, kDepth = 4;
  std::int64_t side = 128, channels = 1, width = kBase;
  const auto two_convolutions = [&](std::int64_t in, bool data_gradient = true) {
    const std::int64_t values = kBatch * side * side * width;
    step.convolution(kBatch, in, side, width, 3, false, data_gradient);
    step.norm_of_images(values);
    step.convolution(kBatch, width, side, width, 3, false);
    step.norm_of_images(values);
  };
  for (std::int64_t level = 0; level <= kDepth; ++level, side /= 2, width *= 2) {
    two_convolutions(channels, level > 0);
    if (level < kDepth) step.pooling(kBatch * side * side * width);
    channels = width;
  }
  side *= 4;
  for (width /= 4; width >= kBase; width /= 2, side *= 2) {
    step.convolution(kBatch, 2 * width, side / 2, width, 2, true);
    two_convolutions(2 * width);
  }
  step.convolution(kBatch, kBase, 128, 1, 1, false);
}

void transformer(Step& step, std::int64_t layers, std::int64_t width, std::int64_t heads, std::int64_t tokens,
                 std::int64_t batch, std::int64_t vocabulary) {
  const std::int64_t rows = batch * tokens;
  step.linear(rows, width, 3 * width, layers);
  step.linear(rows, width, width, layers);
  step.linear(rows, width, 4 * width, layers);
  step.linear(rows, 4 * width, width, layers);
  step.linear(rows, width, vocabulary, 1);
  step.attention(batch * heads, tokens, width / heads, layers);
  step.embedding(rows * width);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    step.norm_of_rows(rows * width);
    step.norm_of_rows(rows * width);
    step.activation(rows * 4 * width);
  }
  step.loss(rows * vocabulary);
}

int threads() {
  const char* given = std::getenv("OMP_NUM_THREADS");
  return given != nullptr ? std::atoi(given) : static_cast<int>(std::thread::hardware_concurrency());
}

double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  return 0;
}

int serve(const std::string& workload, const std::string& precision) {
  if (precision != "fp32" && precision != "bf16")
    throw std::invalid_argument("precision: fp32 or bf16, got " + precision);
  Step step(precision == "fp32" ? Type::f32 : Type::bf16);
  if (workload == "unet")
    unet(step);
  else if (workload == "gpt")
    transformer(step, 6, 384, 6, 256, 8, 256);
  else if (workload == "gpt-tiny")
    transformer(step, 4, 128, 4, 64, 16, 256);
  else if (workload == "gpt2")
    transformer(step, 12, 768, 12, 64, 4, 50257);
  else
    throw std::invalid_argument("workload: unet, gpt, gpt-tiny or gpt2, got " + workload);
  step.finish();
  const dnnl_version_t* version = dnnl_version();
  std::cout << "{\"ready\":true,\"backend\":\"oneDNN " << version->major << '.' << version->minor << '.'
            << version->patch << " alone\",\"workload\":\"" << workload << "\",\"precision\":\"" << precision
            << "\",\"threads\":" << threads() << ",\"parameters\":" << step.parameters() << "}" << std::endl;
  for (std::string command; std::cin >> command && command != "quit";) {
    int count = 0;
    if (command != "step" || !(std::cin >> count) || count < 1)
      throw std::invalid_argument("wanted 'step N' or 'quit'");
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) step.run();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::cout << "{\"steps\":" << count << ",\"ms\":" << took.count() / count
              << ",\"passing_ms\":" << step.take_passing_ms() / count << ",\"peak_mib\":" << peak_mib() << "}"
              << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::invalid_argument("usage: floor WORKLOAD PRECISION");
    return serve(argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::cout << "{\"error\":\"" << e.what() << "\"}" << std::endl;
    return 2;
  }
}
