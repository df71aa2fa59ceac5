#include "binade/cuda/device/libraries.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "binade/cuda/device/attention.cuh"
#include "binade/cuda/device/attention_plan.h"
#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/conv.cuh"
#include "binade/cuda/device/plan_choice.h"
#include "binade/cuda/device/products.cuh"

namespace binade::cuda {
void open_libraries(DeviceFacts&) {}
bool library_fft(const LibraryFft&) { return false; }

/// Returns the kind of the substitute library, which runs Binade's kernels through the interface of a library.
/// BINADE_SIMT_LIBRARY=1: with all forms; "no_gelu": without a GELU and its derivative in products; "no_bias": also
/// without a bias on 16-bit results; unset: no library.
static std::string_view library_kind() {
  static const char* const kind = std::getenv("BINADE_SIMT_LIBRARY");
  return kind != nullptr ? kind : "";
}
static bool library_is_there() { return !library_kind().empty(); }

/// The library's plans, one line per key.
static const std::string kTitle = "emulated 1";
static std::set<std::string> g_plans, g_own;
static std::string g_notes;
static void note_own(const std::string& key) {
  if (g_own.insert(key).second) g_notes += key + ": computed by Binade's own kernel: the library has no form for it\n";
}

PlanChooser& plan_chooser() {
  static PlanChooser only(&add_note_once);
  return only;
}
void choose_library_plans(const PlanOptions& options) {
  plan_chooser().configure({.timed = options.timed != 0,
                            .any_order = options.any_order != 0,
                            .file = options.file,
                            .seconds = options.seconds});
}

/// Returns the times of the plans of every key. BINADE_SIMT_TIMES=3,1.5,-: three plans, which take 3 and 1.5 seconds;
/// the third one cannot run.
static std::vector<std::optional<double>> times_of_plans() {
  std::vector<std::optional<double>> times;
  const char* const text = std::getenv("BINADE_SIMT_TIMES");
  std::istringstream words(text != nullptr ? text : "");
  for (std::string word; std::getline(words, word, ',');)
    times.push_back(word == "-" ? std::nullopt : std::optional(std::stod(word)));
  return times;
}
static std::string key_of(const std::string& plan) {
  const std::string key = PlanStore::key_of(plan);
  return key.empty() ? plan : key;
}

/// Chooses a plan for a key. Fails during a capture if the key has none yet.
static void choose(const std::string& key, const char* what) {
  const auto known = [&](const std::string& plan) { return key_of(plan) == key; };
  if (std::any_of(g_plans.begin(), g_plans.end(), known)) return;
  require_no_capture(what);
  const std::vector<std::optional<double>> times = times_of_plans();
  if (times.empty()) {
    g_plans.insert(key);
    return;
  }
  PlanChooser::Selection turn(plan_chooser(), key);
  std::optional<std::string> line = turn.line();
  if (!line) {
    const std::optional<std::size_t> found = turn.fastest(
        times.size(), [&](std::size_t i) { return times[i]; }, [&](std::size_t i) { return times[i].has_value(); });
    line = key + " = " + (found ? std::to_string(*found) : "own");
    turn.keep(*line);
  }
  g_plans.insert(*line);
}
/// With BINADE_SIMT_LIES=TEXT (read at each call), the first element of a result is NaN if its key contains TEXT.
/// BINADE_SIMT_TRUTH (read when the kernel runs) suspends this, so that a captured kernel can become wrong later.
__global__ void spoil(void* result, DType dtype) {
  if (std::getenv("BINADE_SIMT_TRUTH") != nullptr) return;
  if (blockIdx.x == 0 && threadIdx.x == 0) store_at(result, dtype, 0, std::numeric_limits<float>::quiet_NaN());
}
static void lie(const std::string& key, void* result, DType dtype) {
  const char* const of = std::getenv("BINADE_SIMT_LIES");
  if (of == nullptr || key.find(of) == key.npos || result == nullptr) return;
  launch(spoil, 1, 1, 0, result, dtype);
}
static const char* tf32_of(bool allowed, DType in) { return allowed && in == DType::f32 ? " tf32=1" : ""; }
static std::string conv_key(const char* pass, const ConvShape& s, bool tf32, DType in) {
  return std::string("conv ") + pass + " " + std::to_string(s.channels) + " " + std::to_string(s.filters) +
         tf32_of(tf32, in);
}
static std::string conv_key(const ConvArgs& a) {
  return conv_key(a.transposed ? "data-gradient" : "forward", a.shape, a.tf32, a.in);
}
static std::string conv_key(const ConvWeightArgs& a) { return conv_key("weight-gradient", a.shape, a.tf32, a.in); }
template <class Call>
static std::string keep_conv(const Call& call) {
  const std::string key = conv_key(call);
  choose(key, "a convolution of new sizes (run the step once before)");
  return key;
}

/// Multiplies the f32 sums of a product by the derivative of the tanh GELU, as a library does.
__global__ void multiply_by_derivative(const float* sums, In z, Out y, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    store_at(y.data, y.dtype, i, sums[i] * math::gelu_tanh_derivative(load_at<float>(z, i)));
}
static void gemm_with_derivative(const GemmArgs& g) {
  const Buffer<float> sums(g.m * g.n);
  GemmArgs product = g;
  product.derivative_of = Activation::kNone;
  product.out = DType::f32;
  product.c = sums.data();
  own_gemm(product);
  launch(multiply_by_derivative, grid_for(ceil_div(g.m * g.n, 256)), 256, 0, sums.data(), In{g.derivative_at, g.out},
         Out{g.c, g.out}, g.m * g.n);
}

bool library_gemm(const GemmArgs& g) {
  if (!library_is_there()) return false;
  const std::string key = "product " + std::to_string(g.m) + " " + std::to_string(g.n) + " " + std::to_string(g.k);
  const bool derivative_of = g.derivative_of != Activation::kNone;
  const bool sums = g.activation == Activation::kNone && g.pre_activation == nullptr && !derivative_of;
  const bool on_bytes = (reinterpret_cast<std::uintptr_t>(g.bias) |
                         reinterpret_cast<std::uintptr_t>(derivative_of ? g.derivative_at : g.pre_activation)) %
                            16 ==
                        0;
  const bool form = derivative_of ? g.derivative_of == Activation::kGeluTanh
                                  : g.activation == Activation::kGeluTanh && g.pre_activation != nullptr;
  const bool gelu = form && is_half(g.out) && g.c_row % 8 == 0 && g.batch == 1 && library_kind() == "1";
  const bool bias = g.bias == nullptr || (g.out == DType::f32 ? !g.low_bias && g.in != DType::u8
                                                              : g.low_bias && library_kind() != "no_bias");
  const bool codes = g.in == DType::u8;
  if (g.in == DType::f64 || !(sums || gelu) || !bias || !on_bytes || (codes && g.out == DType::f16)) {
    note_own(key);
    return false;
  }
  const std::string form_key = key + tf32_of(g.tf32, g.in) +
                               (codes ? g.a_format == Float8::e4m3 ? " e4m3" : " e5m2" : "") +
                               (!gelu           ? ""
                                : derivative_of ? " dgelu"
                                                : " gelu_aux") +
                               (g.low_bias ? " low_bias" : "");
  if (is_for_own_kernels([&] { return form_key; })) return false;
  choose(form_key, "a product of new sizes (run the step once before)");
  GemmArgs unseen = g;
  unseen.partial = true;
  if (codes)
    gemm_in_bf16_of_codes(unseen, own_gemm);
  else if (derivative_of)
    gemm_with_derivative(unseen);
  else
    own_gemm(unseen);
  lie(form_key, g.c, g.out);
  return true;
}
/// Returns false for channel slices, and in 16 bits for gradients with an odd number of channels.
bool library_has_conv(const ConvArgs& a) {
  const std::int64_t x = a.transposed ? a.result_pitch : a.source_pitch,
                     y = a.transposed ? a.source_pitch : a.result_pitch;
  return library_is_there() && a.in != DType::f64 && x == a.shape.channels && y == a.shape.filters &&
         !is_for_own_kernels([&] { return conv_key(a); });
}
bool library_has_conv(const ConvWeightArgs& a) {
  const bool odd = (a.shape.channels | a.shape.filters) % 2 != 0;
  return library_is_there() && a.in != DType::f64 && a.x_pitch == a.shape.channels && a.gy_pitch == a.shape.filters &&
         !(odd && is_half(a.in)) && !is_for_own_kernels([&] { return conv_key(a); });
}
bool library_conv(const ConvArgs& a) {
  if (!library_has_conv(a)) return false;
  const std::string key = keep_conv(a);
  own_conv(a, nullptr);
  lie(key, a.result, a.out);
  return true;
}
bool library_conv_weight(const ConvWeightArgs& a) {
  if (!library_has_conv(a)) return false;
  const std::string key = keep_conv(a);
  own_conv_weight(a);
  lie(key, a.gw, DType::f32);
  return true;
}
static void* result_of(const AttentionForward& f) { return f.y; }
static void* result_of(const AttentionBackward& b) { return b.gk.data; }
/// Returns true for attentions that cuDNN computes on Hopper.
template <class Call>
static bool attend(const Call& call) {
  if (!library_is_there()) return false;
  const AttentionKey key = attention_key(call);
  if (!no_library_for(key, 91900, 9).empty()) {
    note_own(key.text());
    return false;
  }
  if (is_for_own_kernels([&] { return key.text(); })) return false;
  choose(key.text(), "attention of new sizes (run the step once before)");
  own_attention(call, nullptr);
  lie(key.text(), result_of(call), call.args.dtype);
  return true;
}
bool library_attention(const AttentionForward& f) { return attend(f); }
bool library_attention(const AttentionBackward& b) { return attend(b); }
std::string library_plans() {
  if (g_plans.empty()) return {};
  std::string text = kTitle + "\n";
  for (const std::string& plan : g_plans) text += plan + "\n";
  return text;
}
int use_library_plans(const std::string& text) {
  std::istringstream lines(text);
  bool ours = false;
  int taken = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool plan = line.starts_with("product ") || line.starts_with("conv ") || line.starts_with("attention ");
    if (!plan) ours = line == kTitle;
    if (!plan || !ours) continue;
    std::erase_if(g_plans, [&](const std::string& plan) { return key_of(plan) == key_of(line); });
    g_plans.insert(line);
    ++taken;
  }
  return taken;
}
std::string library_notes() { return g_notes; }
void add_note_once(const std::string& line) {
  if (g_own.insert(line).second) g_notes += line + "\n";
}
}  // namespace binade::cuda
