#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>

#include "cuda/device/attention.cuh"
#include "cuda/device/attention_plan.h"
#include "cuda/device/conv.cuh"
#include "cuda/device/libraries.cuh"
#include "cuda/device/products.cuh"

namespace {

cudaError_t g_last = cudaSuccess;
const char* g_detail = nullptr;

cudaError_t failed(cudaError_t error) { return g_last = error; }

/// A fault in the device's memory is one that the device does not survive.
cudaError_t out_of_place(const char* what) {
  g_detail = what;
  return failed(cudaErrorIllegalAddress);
}
bool lost() { return g_last == cudaErrorIllegalAddress; }

/// BINADE_SIMT_FAIL=N: the N-th launch is a fault.
void count_launch() {
  static const long failing = [] {
    const char* text = std::getenv("BINADE_SIMT_FAIL");
    return text != nullptr ? std::strtol(text, nullptr, 10) : 0L;
  }();
  static long launches = 0;
  if (++launches == failing) out_of_place("an illegal memory access was encountered");
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : failed(cudaErrorInvalidValue); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated device");
  properties->major = 9;
  properties->multiProcessorCount = 1;
  properties->totalGlobalMem = simt::bytes_free();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return g_last; }

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (lost()) return g_last;
  *memory = simt::allocate(bytes);
  return *memory != nullptr ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  if (lost()) return g_last;
  return simt::release(memory) ? cudaSuccess : out_of_place("freed memory that the device does not have");
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  return *memory != nullptr ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t) { return cudaMalloc(memory, bytes); }
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return cudaFree(memory); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = simt::bytes_free();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  if (lost()) return g_last;
  const bool to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;
  if (simt::owns(to) != to_device || simt::owns(from) != from_device)
    return out_of_place("copied between memories other than those it named");
  const simt::Access access;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return failed(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < height; ++i) {
    const cudaError_t error = cudaMemcpyAsync(static_cast<char*>(to) + i * to_pitch,
                                              static_cast<const char*>(from) + i * from_pitch, width, kind, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  if (lost()) return g_last;
  if (!simt::owns(memory)) return out_of_place("cleared memory that the device does not have");
  const simt::Access access;
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  count_launch();  // each is followed by this question
  const cudaError_t last = g_last;
  if (!lost()) g_last = cudaSuccess;
  return last;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    default: return "cudaError";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorIllegalAddress: return g_detail != nullptr ? g_detail : "an illegal memory access was encountered";
    default: return "an error of the emulated device";
  }
}

namespace binade::cuda {
void open_libraries(DeviceFacts&) {}

/// BINADE_SIMT_LIBRARY=1: there is a library, which is our own kernel under the terms of a library.
static bool library_is_there() {
  static const bool there = std::getenv("BINADE_SIMT_LIBRARY") != nullptr;
  return there;
}

/// Its choices: a line a size.
static const std::string kTitle = "emulated 1";
static std::set<std::string> g_plans, g_own;
static std::string g_notes;
static void note_own(const std::string& key) {
  if (g_own.insert(key).second) g_notes += key + ": computed by Binade's own kernel: the library has no form for it\n";
}

static const char* tf32_of(bool allowed, DType in) { return allowed && in == DType::f32 ? " tf32=1" : ""; }
static void keep_conv(const char* pass, const cpu::ConvShape& s, bool tf32, DType in) {
  g_plans.insert(std::string("conv ") + pass + " " + std::to_string(s.channels) + " " + std::to_string(s.filters) +
                 tf32_of(tf32, in));
}

bool library_gemm(const cpu::GemmArgs& g) {
  const bool sums = g.activation == Activation::kNone && g.pre_activation == nullptr;
  if (!library_is_there()) return false;
  const std::string key = "product " + std::to_string(g.m) + " " + std::to_string(g.n) + " " + std::to_string(g.k);
  if (g.in == DType::f64 || !sums || (g.bias != nullptr && g.out != DType::f32)) {
    note_own(key);
    return false;
  }
  g_plans.insert(key + tf32_of(g.tf32, g.in));
  cpu::GemmArgs unseen = g;
  unseen.partial = true;
  own_gemm(unseen);
  return true;
}
/// It takes no channel slices.
bool library_has_conv(const ConvCall& call) {
  const cpu::ConvArgs& a = call.args;
  const std::int64_t x = call.transposed ? a.result_pitch : a.source_pitch,
                     y = call.transposed ? a.source_pitch : a.result_pitch;
  return library_is_there() && a.in != DType::f64 && x == a.shape.channels && y == a.shape.filters;
}
bool library_has_conv(const ConvWeightCall& call) {
  const cpu::ConvWeightArgs& a = call.args;
  return library_is_there() && a.in != DType::f64 && a.x_pitch == a.shape.channels && a.gy_pitch == a.shape.filters;
}
bool library_conv(const ConvCall& call) {
  if (!library_has_conv(call)) return false;
  keep_conv(call.transposed ? "data-gradient" : "forward", call.args.shape, call.args.tf32, call.args.in);
  own_conv(call, nullptr);
  return true;
}
bool library_conv_weight(const ConvWeightCall& call) {
  if (!library_has_conv(call)) return false;
  keep_conv("weight-gradient", call.args.shape, call.args.tf32, call.args.in);
  own_conv_weight(call);
  return true;
}
/// It takes what cuDNN takes on the device that it is made for.
template <class Call>
static bool attend(const Call& call) {
  if (!library_is_there()) return false;
  const AttentionKey key = attention_key(call);
  if (!no_library_for(key, 91900, 9).empty()) {
    note_own(key.text());
    return false;
  }
  g_plans.insert(key.text());
  own_attention(call, nullptr);
  return true;
}
bool library_attention(const cpu::AttentionForward& f) { return attend(f); }
bool library_attention(const cpu::AttentionBackward& b) { return attend(b); }
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
    g_plans.insert(line);
    ++taken;
  }
  return taken;
}
std::string library_notes() { return g_notes; }
}  // namespace binade::cuda
