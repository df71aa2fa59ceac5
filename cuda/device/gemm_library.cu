#include <mutex>
#include <set>
#include <unordered_map>

#include "cuda/device/context.cuh"
#include "cuda/device/gemm_plan.h"
#include "cuda/device/libraries.cuh"

/// Products by cuBLASLt. An algorithm is chosen once for each key: the first that its heuristics name under fixed
/// preferences, so that the same device and library version choose the same.
namespace binade::cuda {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // what cuBLAS itself takes on Hopper

struct Plan {
  PlanDescriptors descriptors;
  std::optional<cublasLtMatmulAlgo_t> algorithm;  // none: cuBLASLt has none
};

class Library {
 public:
  Library() {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, context().device), "device");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, context().device), "device");
    title_ = "cublaslt " + std::to_string(cublasLtGetVersion()) + " sm_" + std::to_string(major) +
             std::to_string(minor) + " multiprocessors " + std::to_string(context().multiprocessors);
  }

  bool multiply(const cpu::GemmArgs& g, const PlanKey& key) {
    const std::lock_guard lock(mutex_);
    Plan& plan = plan_of(key);
    if (!plan.algorithm) return false;
    const PlanDescriptors& d = plan.descriptors;
    if (key.bias)
      check(cublasLtMatmulDescSetAttribute(d.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g.bias,
                                           sizeof g.bias),
            "bias");
    if (are_codes(key.in)) {
      set_scale(d, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, g.b_scale);  // its first operand is our b
      set_scale(d, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, g.a_scale);
    }
    const Buffer<char> workspace(kWorkspace);
    const float alpha = 1, beta = key.accumulate ? 1.0f : 0.0f;
    const cublasStatus_t status = cublasLtMatmul(handle_, d.operation.get(), &alpha, g.b, d.first.get(), g.a,
                                                 d.second.get(), &beta, g.c, d.result.get(), g.c, d.result.get(),
                                                 &*plan.algorithm, workspace.data(), kWorkspace, context().stream);
    if (declined(status, key)) {  // it had promised otherwise; nothing has been started
      plan.algorithm = {};
      return false;
    }
    check(status, "cublasLtMatmul");
    return true;
  }

  std::string text() {
    const std::lock_guard lock(mutex_);
    std::set<std::string> lines;
    for (const auto& [key, plan] : plans_) lines.insert(plan_line(key, plan.algorithm));
    return plans_text(title_, lines);
  }

  int use(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return take_plans(text, title_, parse_plan_line, [this](const PlanLine& plan) {
      Plan restored{plan_descriptors(plan.key), plan.algorithm};
      if (!runs(restored)) return false;
      plans_.insert_or_assign(plan.key, std::move(restored));
      return true;
    });
  }

 private:
  /// What it has no form for. Of codes it says so by "invalid value" too (cublasLt.h, of the scales).
  static bool declined(cublasStatus_t status, const PlanKey& key) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED || (are_codes(key.in) && status == CUBLAS_STATUS_INVALID_VALUE);
  }
  static void set_scale(const PlanDescriptors& d, cublasLtMatmulDescAttributes_t which, const float* scale) {
    check(cublasLtMatmulDescSetAttribute(d.operation.get(), which, &scale, sizeof scale), "scale");
  }

  /// A text from a file may name anything: cuBLASLt is asked whether it can do it.
  bool runs(const Plan& plan) const {
    if (!plan.algorithm) return true;
    const PlanDescriptors& d = plan.descriptors;
    cublasLtMatmulHeuristicResult_t found{};
    return cublasLtMatmulAlgoCheck(handle_, d.operation.get(), d.first.get(), d.second.get(), d.result.get(),
                                   d.result.get(), &*plan.algorithm, &found) == CUBLAS_STATUS_SUCCESS &&
           found.workspaceSize <= kWorkspace;
  }

  Plan& plan_of(const PlanKey& key) {
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
    require_no_capture("a product of new sizes (run the step once before)");
    Plan plan{plan_descriptors(key), {}};
    const PreferenceOwner preference = plan_preference(key, kWorkspace);
    const PlanDescriptors& d = plan.descriptors;
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, d.operation.get(), d.first.get(),
                                                                 d.second.get(), d.result.get(), d.result.get(),
                                                                 preference.get(), 1, &found, &count);
    if (!declined(status, key)) check(status, "heuristics");
    if (status == CUBLAS_STATUS_SUCCESS && count == 1 && found.state == CUBLAS_STATUS_SUCCESS)
      plan.algorithm = found.algo;
    return plans_.emplace(key, std::move(plan)).first->second;
  }

  std::mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;
  std::string title_;
  std::unordered_map<PlanKey, Plan, PlanKeyHash> plans_;
};

Library& library() {
  static Library* only = new Library;  // never destroyed: the driver may be gone before statics are
  return *only;
}

}  // namespace

bool library_gemm(const cpu::GemmArgs& g) {
  const std::optional<PlanKey> key = plan_key(g);
  return key && library().multiply(g, *key);
}

std::string gemm_plans() { return library().text(); }
int use_gemm_plans(const std::string& text) { return library().use(text); }

}  // namespace binade::cuda
