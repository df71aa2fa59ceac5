#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <unordered_map>

#include "binade/cuda/device/gemm_plan.h"
#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/plan_timing.cuh"

/// Products by cuBLASLt. An algorithm is chosen once per key. It is either the first that the heuristics propose under
/// fixed preferences, so that the same device and library version give the same choice, or the fastest, which is found
/// by timing once per machine.
namespace binade::cuda {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // the size that cuBLAS itself uses on Hopper

constexpr int kMostTimed = 12;  // most algorithms timed for a key

/// Device memory for the duration of a timing. Workspace is not used for it, because workspace never shrinks.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) {
    if (bytes > 0 && cudaMalloc(&data_, bytes) != cudaSuccess) cudaGetLastError();
  }
  ~Scratch() { cudaFree(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

struct Plan {
  PlanDescriptors descriptors;
  std::optional<cublasLtMatmulAlgo_t> algorithm;  // std::nullopt: cuBLASLt has no algorithm for the key
};

class Library {
 public:
  Library() {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    title_ = "cublaslt " + std::to_string(cublasLtGetVersion()) + device_title();
  }

  bool multiply(const GemmArgs& g, const PlanKey& key) {
    const std::lock_guard lock(mutex_);
    Plan& plan = plan_of(g, key);
    if (!plan.algorithm) return false;
    const cublasStatus_t status = start(g, key, plan.descriptors, *plan.algorithm, g.c);
    if (declined(status, key)) {  // unexpected after the heuristics proposed it; no work has been started
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
  /// Returns true if the status means that the library cannot compute the product. For codes and GELUs, cuBLASLt
  /// reports this also as "invalid value" (cublasLt.h, on scales and EPILOGUE_AUX_DATA_TYPE).
  static bool declined(cublasStatus_t status, const PlanKey& key) {
    const bool special = are_codes(key.in) || key.epilogue != PlanEpilogue::none;
    return status == CUBLAS_STATUS_NOT_SUPPORTED || (special && status == CUBLAS_STATUS_INVALID_VALUE);
  }
  static void set_pointer(const PlanDescriptors& d, cublasLtMatmulDescAttributes_t which, const void* pointer) {
    check(cublasLtMatmulDescSetAttribute(d.operation.get(), which, &pointer, sizeof pointer),
          "the address of an operand");
  }

  /// Returns true if cuBLASLt can run the plan. This must be checked, because a plan from a file may be wrong.
  bool runs(const Plan& plan) const {
    if (!plan.algorithm) return true;
    const PlanDescriptors& d = plan.descriptors;
    cublasLtMatmulHeuristicResult_t found{};
    return cublasLtMatmulAlgoCheck(handle_, d.operation.get(), d.first.get(), d.second.get(), d.result.get(),
                                   d.result.get(), &*plan.algorithm, &found) == CUBLAS_STATUS_SUCCESS &&
           found.workspaceSize <= kWorkspace;
  }

  cublasStatus_t start(const GemmArgs& g, const PlanKey& key, const PlanDescriptors& d,
                       const cublasLtMatmulAlgo_t& algorithm, void* result) const {
    if (key.bias) set_pointer(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
    if (key.epilogue == PlanEpilogue::gelu_aux)
      set_pointer(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.pre_activation);
    if (key.epilogue == PlanEpilogue::dgelu) set_pointer(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.derivative_at);
    if (are_codes(key.in)) {
      set_pointer(d, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, g.b_scale);  // cuBLASLt's first operand is Binade's b
      set_pointer(d, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, g.a_scale);
    }
    const Buffer<char> workspace(kWorkspace);
    const float alpha = 1, beta = g.accumulate ? 1.0f : 0.0f;
    return cublasLtMatmul(handle_, d.operation.get(), &alpha, g.b, d.first.get(), g.a, d.second.get(), &beta, result,
                          d.result.get(), result, d.result.get(), &algorithm, workspace.data(), kWorkspace,
                          context().stream);
  }

  Plan& plan_of(const GemmArgs& g, const PlanKey& key) {
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
    require_no_capture("a product of new sizes (run the step once before)");
    Plan plan{plan_descriptors(key), {}};
    plan.algorithm = choose(g, key, plan);
    return plans_.emplace(key, std::move(plan)).first->second;
  }

  /// The algorithms that the heuristics propose, the fastest first.
  struct Proposals {
    std::array<cublasLtMatmulHeuristicResult_t, kMostTimed> found = {};
    std::size_t count = 0;
    const cublasLtMatmulAlgo_t& operator[](std::size_t i) const { return found[i].algo; }
  };
  Proposals proposals(const PlanKey& key, const PlanDescriptors& d, int most) const {
    const PreferenceOwner preference = plan_preference(key, kWorkspace);
    Proposals all;
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, d.operation.get(), d.first.get(),
                                                                 d.second.get(), d.result.get(), d.result.get(),
                                                                 preference.get(), most, all.found.data(), &count);
    if (!declined(status, key)) check(status, "heuristics");
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t one = all.found[static_cast<std::size_t>(i)];
      if (one.state == CUBLAS_STATUS_SUCCESS) all.found[all.count++] = one;
    }
    return all;
  }

  /// Chooses an algorithm for a new key. Timing computes and overwrites g's result several times; if g adds to its
  /// result, timing adds to scratch memory instead.
  std::optional<cublasLtMatmulAlgo_t> choose(const GemmArgs& g, const PlanKey& key, const Plan& plan) const {
    PlanChooser::Selection selection(plan_chooser(), PlanStore::key_of(plan_line(key, {})));
    if (const std::optional<std::string> line = selection.line())
      if (const std::optional<PlanLine> kept = parse_plan_line(*line); kept && kept->key == key && kept->algorithm) {
        const Plan restored{plan_descriptors(key), kept->algorithm};
        if (runs(restored)) return kept->algorithm;
      }
    const bool timed = plan_chooser().settings().timed;
    const Proposals all = proposals(key, plan.descriptors, timed ? kMostTimed : 1);
    const Scratch scratch(timed && g.accumulate && all.count > 1 ? bytes_of_result(key) : 0);
    void* const result = g.accumulate ? scratch.data() : g.c;
    double best = 0;
    const auto time = [&](std::size_t i) -> std::optional<double> {
      return seconds_of(
          [&] {
            const cublasStatus_t status = start(g, key, plan.descriptors, all[i], result);
            if (declined(status, key))
              throw Failure(Status::kUnsupported, "the algorithm does not support this product");
            check(status, "cublasLtMatmul");
          },
          best);
    };
    const std::size_t count = result != nullptr ? all.count : std::min<std::size_t>(all.count, 1);
    const std::optional<std::size_t> found = selection.fastest(count, time, [](std::size_t) { return true; });
    if (!found) return {};
    selection.keep(plan_line(key, all[*found]));
    return all[*found];
  }

  static std::size_t bytes_of_result(const PlanKey& key) {
    return static_cast<std::size_t>((key.batch - 1) * key.c.batch + (key.m - 1) * key.c.leading + key.n) *
           size_of(key.out);
  }

  std::mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;
  std::string title_;
  std::unordered_map<PlanKey, Plan, PlanKeyHash> plans_;
};

Library& library() {
  static Library* only = new Library;  // never destroyed: the CUDA driver may shut down first
  return *only;
}

}  // namespace

bool library_gemm(const GemmArgs& g) {
  const std::optional<PlanKey> key = plan_key(g);
  if (!key || is_for_own_kernels([&] { return PlanStore::key_of(plan_line(*key, {})); })) return false;
  return library().multiply(g, *key);
}

std::string gemm_plans() { return library().text(); }
int use_gemm_plans(const std::string& text) { return library().use(text); }

}  // namespace binade::cuda
