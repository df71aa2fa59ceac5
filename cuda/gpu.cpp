#include "binade/cuda/gpu.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "binade/core/caching_backend.h"
#include "binade/core/captured_graph.h"
#include "binade/core/error.h"
#include "binade/core/faults.h"
#include "binade/core/gpus.h"
#include "binade/core/kernels/table.h"
#include "binade/core/program_flags.h"
#include "binade/cuda/module.h"
#include "binade/cuda/observations.h"
#include "binade/cuda/quarantine.h"
#include "binade/cuda/rules.h"

namespace binade {
namespace cuda {
namespace {

class GpuBackend final : public CachingBackend {
 public:
  GpuBackend(const Api& api, int index) : api_(api), index_(index) {
    check(api_.open(index, &facts_), fmt::format("device cuda:{}", index));
    observations_.emplace(api_);
  }

  void copy(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream) override {
    if (bytes > 0) check(api_.copy(to, from, bytes, kind_of(kind)), "copy");
  }
  void fill_zero(void* memory, std::size_t bytes, Stream) override {
    if (bytes > 0) check(api_.fill_zero(memory, bytes), "fill_zero");
  }
  void synchronize(Stream) override { check(api_.synchronize(), "synchronize"); }

  void* allocate_pinned(std::size_t bytes) override {
    void* memory = nullptr;
    check(api_.allocate_pinned(bytes, &memory), "page-locked memory");
    const std::lock_guard lock(pinned_mutex_);
    pinned_[static_cast<const char*>(memory)] = bytes;
    return memory;
  }
  void release_pinned(void* memory) noexcept override {
    if (memory == nullptr) return;
    const std::lock_guard lock(pinned_mutex_);
    pinned_.erase(static_cast<const char*>(memory));
    api_.release_pinned(memory);
  }
  void copy_later(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream) override {
    if (bytes == 0) return;
    const void* here = kind == CopyKind::kDeviceToHost ? to : from;
    binade::check<ArgumentError>(kind == CopyKind::kDeviceToDevice || is_pinned(here, bytes),
                                 "copy_later: {} bytes of host memory are not of allocate_pinned()", bytes);
    check(api_.copy_later(to, from, bytes, kind_of(kind)), "copy_later");
  }

  std::uint64_t mark(Stream) override {
    std::uint64_t number = 0;
    check(api_.mark(&number), "mark");
    return number;
  }
  bool reached(std::uint64_t mark) override {
    int yes = 0;
    check(api_.reached(mark, &yes), "reached");
    return yes != 0;
  }
  void wait_for(std::uint64_t mark) override { check(api_.wait_for(mark), "wait_for"); }

  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& body, const MemoryTrace& trace) override;

  std::string description() const override {
    return fmt::format("{}, {:.1f} GiB, compute capability {}.{}, {} multiprocessors", facts_.name,
                       static_cast<double>(facts_.memory_bytes) / kGiB, facts_.major, facts_.minor,
                       facts_.multiprocessors);
  }

  int index() const { return index_; }
  const Api& api() const { return api_; }
  const DeviceFacts& facts() const { return facts_; }
  Observations& observations() { return *observations_; }

 private:
  friend class GpuRecording;

  static constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

  static Copy kind_of(CopyKind kind) {
    switch (kind) {
      case CopyKind::kHostToDevice: return Copy::kHostToDevice;
      case CopyKind::kDeviceToHost: return Copy::kDeviceToHost;
      case CopyKind::kDeviceToDevice: break;
    }
    return Copy::kDeviceToDevice;
  }
  bool is_pinned(const void* memory, std::size_t bytes) const {
    const std::lock_guard lock(pinned_mutex_);
    const auto* at = static_cast<const char*>(memory);
    const auto next = pinned_.upper_bound(at);
    if (next == pinned_.begin()) return false;
    const auto& [begin, size] = *std::prev(next);
    return at + bytes <= begin + size;
  }
  void* allocate_from_system(std::size_t capacity) override {
    void* block = nullptr;
    const Status status = api_.allocate(capacity, &block);
    if (status == Status::kNoMemory) return nullptr;
    check(status, "allocate");
    return block;
  }
  void release_to_system(void* block, std::size_t) noexcept override { api_.release(block); }
  std::string out_of_memory(std::size_t bytes, std::size_t in_use) const override {
    std::size_t free = 0;
    api_.free_memory(&free);
    return fmt::format(
        "cuda:{}: no memory for {:.3f} GiB more beside the {:.3f} GiB in use ({:.3f} of {:.3f} GiB are free); use a "
        "smaller batch or context",
        index_, static_cast<double>(bytes) / kGiB, static_cast<double>(in_use) / kGiB, static_cast<double>(free) / kGiB,
        static_cast<double>(facts_.memory_bytes) / kGiB);
  }

  const Api& api_;
  int index_;
  DeviceFacts facts_;
  std::optional<Observations> observations_;
  mutable std::mutex pinned_mutex_;
  std::map<const char*, std::size_t> pinned_;  // page-locked memory: first address, number of bytes
};

/// A CUDA graph, and the memory that its kernels access.
class GpuRecording final : public CapturedGraph {
 public:
  GpuRecording(GpuBackend& gpu, const std::function<void()>& body, const MemoryTrace& trace) : gpu_(gpu) {
    try {
      capture(body, trace);
    } catch (...) {
      release();
      throw;
    }
  }
  ~GpuRecording() override { release(); }
  GpuRecording(const GpuRecording&) = delete;
  GpuRecording& operator=(const GpuRecording&) = delete;

  void run() override {
    gpu_.run_captured(*memory_, [this] { check(gpu_.api_.graph_launch(graph_), "a recording"); });
  }
  std::size_t arena_bytes() const override { return memory_->blocks.plan().bytes; }
  std::size_t arena_bound() const override { return memory_->blocks.plan().bound; }
  const std::uint32_t* observations() const override { return words_; }
  std::int64_t observation_count() const override { return observed_; }

 private:
  static constexpr std::int64_t kPairs = 1 << 15;  // most observations of one captured graph

  void capture(const std::function<void()>& body, const MemoryTrace& trace) {
    constexpr std::size_t kBytes = kPairs * 2 * sizeof(std::uint32_t);
    void* words = nullptr;
    check(gpu_.api_.allocate(kBytes, &words), "memory for observations");
    words_ = static_cast<std::uint32_t*>(words);
    memory_ = gpu_.begin_capture(trace);
    check(gpu_.api_.capture_begin(), "recording");
    try {
      const CapturedCalls::Scope numbered(calls_);
      gpu_.observations_->begin_capture(words_, kPairs);
      check(gpu_.api_.fill_zero(words_, kBytes), "recording");
      body();
    } catch (...) {
      gpu_.api_.capture_end(nullptr);
      gpu_.observations_->end_capture();
      throw;
    }
    const Status captured = gpu_.api_.capture_end(&graph_);
    observed_ = gpu_.observations_->end_capture();
    check(captured, "recording");
    binade::check<DeviceError>(observed_ <= kPairs, "recording: {} observations are more than the {} it may have",
                               observed_, kPairs);
    gpu_.end_capture();
  }

  void release() noexcept {
    if (graph_ != nullptr) gpu_.api_.graph_release(graph_);
    if (words_ != nullptr) gpu_.api_.release(words_);
    if (memory_ != nullptr) gpu_.release_captured(memory_);
  }

  GpuBackend& gpu_;
  CapturedCalls calls_;
  std::shared_ptr<GpuBackend::CapturedMemory> memory_;
  std::uint32_t* words_ = nullptr;
  std::int64_t observed_ = 0;
  void* graph_ = nullptr;
};

std::unique_ptr<CapturedGraph> GpuBackend::capture(const std::function<void()>& body, const MemoryTrace& trace) {
  return std::make_unique<GpuRecording>(*this, body, trace);
}

std::mutex g_mutex;
GpuBackend* g_open = nullptr;  // never destroyed: tensors may outlive static objects
Quarantine* g_quarantine = nullptr;

}  // namespace

const DeviceFacts* facts() { return g_open != nullptr ? &g_open->facts() : nullptr; }
const Api& api() { return g_open->api(); }
namespace {

/// Returns the driver's own version if it is known, otherwise the CUDA version that it supports.
std::string driver_version(const DeviceFacts& facts) {
  std::string version;
  std::ifstream("/sys/module/nvidia/version") >> version;
  return version.empty() ? std::to_string(facts.driver_version) : version;
}

/// Returns the path of this machine's file for plans; empty if there is no folder for it. `ending`: end of its name.
std::string plans_file(const DeviceFacts& facts, std::string_view ending) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  std::string folder = variable("XDG_CACHE_HOME");
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") + "/.cache";
  if (folder.empty()) return {};
  std::string name = fmt::format("{} sm_{}{} x {} driver {} cublaslt {} cudnn {}{}", facts.name, facts.major,
                                 facts.minor, facts.multiprocessors, driver_version(facts), facts.cublaslt, facts.cudnn,
                                 ending);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '_'; }, '-');
  return folder + "/binade/plans/" + name + ".txt";
}

std::string quarantine_title(const DeviceFacts& facts) {
  return fmt::format("own kernels instead of cublaslt {} cudnn {} sm_{}{}", facts.cublaslt, facts.cudnn, facts.major,
                     facts.minor);
}

}  // namespace

std::uint64_t waits() { return g_open != nullptr ? g_open->api().waits() : 0; }

void check(Status status, std::string_view what) {
  if (status == Status::kOk) [[likely]]
    return;
  const std::string text = fmt::format("{}: {}", what, module().api->last_error());
  switch (status) {
    case Status::kNoMemory: throw OutOfMemoryError(text);
    case Status::kLost: throw DeviceLostError(text);
    case Status::kBadData: {
      Fault fault;
      api().take_fault(&fault);
      throw DataError(describe(fault));
    }
    default: throw DeviceError(text);
  }
}

namespace {

enum Position : int {
#define BINADE_POSITION(name, Args) k_##name,
  BINADE_KERNELS(BINADE_POSITION) BINADE_DEVICE_KERNELS(BINADE_POSITION)
#undef BINADE_POSITION
};

Watch watch_next_kernel() {
  Watch watch = g_open->observations().watch_next_kernel();
  watch.own = only_own_kernels();
  return watch;
}

/// Returns the GPU's kernel table. Each entry calls the module's kernel at the same position.
KernelTable gpu_table() {
  KernelTable table;
#define BINADE_FILL(name, Args)        \
  if (api().has_kernel(k_##name) != 0) \
    table.name = [](const Args& args) { check(api().run(k_##name, &args, watch_next_kernel()), #name); };
  BINADE_KERNELS(BINADE_FILL)
  BINADE_DEVICE_KERNELS(BINADE_FILL)
#undef BINADE_FILL
  table.low_bias = true;
  // True only if cuBLASLt fuses the derivative into the product. Otherwise a separate pass is faster, which also sums
  // the gradient of the bias.
  table.derivative_in_product = [](Activation activation, DType dtype) {
    return activation == Activation::kGeluTanh && is_half(dtype) && gelu_is_fused(10 * facts()->major + facts()->minor);
  };
  return table;
}

}  // namespace
}  // namespace cuda

namespace gpus {

int count() { return cuda::module().devices; }
std::string why_none() { return cuda::module().why_none; }

Backend& open(int index) {
  const std::lock_guard lock(cuda::g_mutex);
  if (cuda::g_open != nullptr && cuda::g_open->index() == index) return *cuda::g_open;
  const cuda::Module& module = cuda::module();
  binade::check<DeviceError>(module.api != nullptr, "device cuda:{}: {}; use {}", index, module.why_none,
                             flag_or("device", "cpu", "Device::cpu()"));
  binade::check<DeviceError>(index >= 0 && index < module.devices,
                             "device cuda:{}: there are {} GPUs, cuda:0 to cuda:{}", index, module.devices,
                             module.devices - 1);
  binade::check<DeviceError>(cuda::g_open == nullptr,
                             "device cuda:{}: this process works on cuda:{}; one GPU serves a process", index,
                             cuda::g_open != nullptr ? cuda::g_open->index() : 0);
  cuda::g_open = new cuda::GpuBackend(*module.api, index);
  cuda::g_quarantine = new cuda::Quarantine(*module.api, cuda::plans_file(cuda::g_open->facts(), ".quarantine"),
                                            cuda::quarantine_title(cuda::g_open->facts()));
  static const KernelTable table = cuda::gpu_table();
  set_gpu_kernels(table);
  return *cuda::g_open;
}

std::size_t memory_bytes() { return cuda::g_open != nullptr ? cuda::g_open->facts().memory_bytes : 0; }

std::vector<std::pair<std::string, std::string>> versions() {
  if (cuda::g_open == nullptr) return {};
  const cuda::DeviceFacts& facts = cuda::g_open->facts();
  const auto of_cuda = [](int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); };
  std::string cudnn = facts.cudnn;
  if (cudnn != facts.cudnn_built) cudnn += fmt::format(" (built with {})", facts.cudnn_built);
  return {{"cuda", of_cuda(facts.runtime_version)},
          {"driver", of_cuda(facts.driver_version)},
          {"cublaslt", facts.cublaslt},
          {"cudnn", cudnn}};
}

std::string plans() {
  const char* text = "";
  if (cuda::g_open == nullptr) return text;
  cuda::check(cuda::api().plans(&text), "plans");
  return text + cuda::g_quarantine->text();
}
int use_plans(std::string_view text) {
  int taken = 0;
  if (cuda::g_open == nullptr) return taken;
  cuda::check(cuda::api().use_plans(std::string(text).c_str(), &taken), "plans");
  return taken + cuda::g_quarantine->use(text);
}
std::string quarantine_plans(const std::vector<std::string>& keys) {
  return cuda::g_quarantine != nullptr ? cuda::g_quarantine->add(keys) : "there is no GPU";
}
std::vector<std::string> quarantined_plans() {
  return cuda::g_quarantine != nullptr ? cuda::g_quarantine->keys() : std::vector<std::string>();
}
SuspendedPlans::SuspendedPlans(std::vector<std::string> keys) {
  if (cuda::g_quarantine != nullptr) cuda::g_quarantine->suspend(std::move(keys));
}
SuspendedPlans::~SuspendedPlans() {
  if (cuda::g_quarantine != nullptr) cuda::g_quarantine->suspend({});
}
void choose_plans(const PlanRules& rules) {
  if (cuda::g_open == nullptr) return;
  constexpr double kSeconds = 6;
  const char* const wanted = std::getenv("BINADE_PLANS_SECONDS");
  const std::string file = cuda::plans_file(cuda::g_open->facts(), rules.deterministic ? "" : " any order");
  const cuda::PlanOptions options{.timed = rules.timed && !file.empty() ? 1 : 0,
                                  .any_order = rules.deterministic ? 0 : 1,
                                  .file = file.c_str(),
                                  .seconds = wanted != nullptr ? std::strtod(wanted, nullptr) : kSeconds};
  cuda::check(cuda::api().choose_plans(&options), "plans");
}
std::string notes() {
  const char* text = "";
  if (cuda::g_open != nullptr) cuda::check(cuda::api().notes(&text), "notes");
  return text;
}

void fetch(void* to, const void* from, std::size_t bytes, std::uint64_t mark) {
  cuda::check(cuda::api().fetch(to, from, bytes, mark), "copy to the host");
}

std::int64_t next_observation() { return cuda::g_open != nullptr ? cuda::g_open->observations().next() : 0; }
Observation observation(std::int64_t number) { return cuda::g_open->observations().at(number); }

}  // namespace gpus
}  // namespace binade
