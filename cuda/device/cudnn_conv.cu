#include <mutex>
#include <set>
#include <unordered_map>

#include "cuda/device/context.cuh"
#include "cuda/device/cudnn_graph.h"
#include "cuda/device/libraries.cuh"

/// Convolutions by cuDNN. A plan is made once for each key and kept; making one and running one are two things, so that
/// nothing is made while a graph is captured.
namespace binade::cuda {
namespace {

void require_no_capture() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(context().stream, &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusNone)
    throw Failure(Status::kFailed,
                  "a convolution of new sizes while a graph is captured; run the step once without capturing");
}

class ConvLibrary {
 public:
  ConvLibrary() {
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, context().device), "device");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, context().device), "device");
    title_ = "cudnn " + std::to_string(cudnnGetVersion()) + " sm_" + std::to_string(major) + std::to_string(minor) +
             " multiprocessors " + std::to_string(context().multiprocessors);
  }

  /// Whether cuDNN has a plan for `key`; then it runs on these.
  bool run(const ConvKey& key, const void* x, const void* w, const void* y, const void* bias) {
    const std::lock_guard lock(mutex_);
    const std::optional<ConvPlan>& plan = plan_of(key);
    if (!plan) return false;
    const std::int64_t ids[] = {kTensorX, kTensorW, kTensorY, kTensorBias};
    const void* const pointers[] = {x, w, y, bias};
    const std::int64_t count = bias != nullptr ? 4 : 3;
    const Buffer<char> workspace(plan->workspace);
    const void* const at = workspace.data();
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &at);
    pack.finalize();
    check(cudnnBackendExecute(handle_, plan->plan.raw(), pack.raw()), "a convolution");
    return true;
  }

  bool has(const ConvKey& key) {
    const std::lock_guard lock(mutex_);
    return plan_of(key).has_value();
  }

  std::string text() {
    const std::lock_guard lock(mutex_);
    std::set<std::string> lines;
    for (const auto& [key, plan] : plans_) lines.insert(conv_plan_line(key.text(), plan ? plan->choice : ConvChoice{}));
    for (const auto& [key, choice] : taken_over_) lines.insert(conv_plan_line(key, choice));
    return plans_text(title_, lines);
  }

  int use(const std::string& text) {
    const std::lock_guard lock(mutex_);
    const int taken = take_plans(text, title_, parse_conv_plan_line, [this](const ConvPlanLine& plan) {
      taken_over_.insert_or_assign(plan.key, plan.choice);
      return true;
    });
    // What was planned in another way before is planned again when it is asked for.
    std::erase_if(plans_, [this](const auto& plan) { return taken_over_.contains(plan.first.text()); });
    return taken;
  }

  std::string notes() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

 private:
  const std::optional<ConvPlan>& plan_of(const ConvKey& key) {
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
    require_no_capture();
    return plans_.emplace(key, make(key)).first->second;
  }

  std::optional<ConvPlan> make(const ConvKey& key) {
    const std::string name = key.text();
    if (const std::string why = no_library_for(key); !why.empty()) return note_own(name, why);
    const ConvTarget target{.handle = handle()};
    if (const auto earlier = taken_over_.extract(name); !earlier.empty()) {
      if (!earlier.mapped().library) return note_own(name, "it was when the run began");
      if (std::optional<ConvPlan> plan = restore_conv_plan(key, earlier.mapped(), target)) return plan;
      note(name, "cuDNN no longer has the engine of an earlier run and chooses again");
    }
    std::optional<ConvPlan> plan = choose_conv_plan(key, target);
    if (!plan) note_own(name, "cuDNN has no deterministic engine for it");
    return plan;
  }

  void note(const std::string& name, const std::string& what) { notes_ += name + ": " + what + "\n"; }
  std::nullopt_t note_own(const std::string& name, const std::string& why) {
    note(name, "computed by Binade's own kernel: " + why);
    return std::nullopt;
  }

  cudnnHandle_t handle() {
    if (handle_ == nullptr) {
      check(cudnnCreate(&handle_), "cudnnCreate");
      check(cudnnSetStream(handle_, context().stream), "cudnnSetStream");
    }
    return handle_;
  }

  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
  std::string title_, notes_;
  std::unordered_map<ConvKey, std::optional<ConvPlan>, ConvKeyHash> plans_;
  std::unordered_map<std::string, ConvChoice> taken_over_;  // by name of their key, until it is asked for
};

ConvLibrary& library() {
  static ConvLibrary* only = new ConvLibrary;  // never destroyed: the driver may be gone before statics are
  return *only;
}

}  // namespace

bool library_conv(const ConvCall& call) {
  const cpu::ConvArgs& a = call.args;
  const void* const x = call.transposed ? a.result : a.source;
  const void* const y = call.transposed ? a.source : a.result;
  return library().run(conv_key(call), x, a.filter, y, a.bias);
}

bool library_conv_weight(const ConvWeightCall& call) {
  const cpu::ConvWeightArgs& a = call.args;
  return library().run(conv_key(call), a.x, a.gw, a.gy, nullptr);
}

bool library_has_conv(const ConvCall& call) { return library().has(conv_key(call)); }
bool library_has_conv(const ConvWeightCall& call) { return library().has(conv_key(call)); }

std::string conv_plans() { return library().text(); }
int use_conv_plans(const std::string& text) { return library().use(text); }
std::string conv_notes() { return library().notes(); }

}  // namespace binade::cuda
