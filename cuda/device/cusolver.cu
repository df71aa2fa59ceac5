#if __has_include(<cusolverDn.h>)
#include <cusolverDn.h>  // and cublas_v2.h
#if defined(__CUDACC__)
#include <dlfcn.h>
#endif
#endif

#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/decompositions.cuh"
#include "binade/cuda/device/libraries.cuh"

/// Decompositions by cuSOLVER and triangular systems by cuBLAS. The libraries are opened at the first matrix that is
/// too large for Binade's own kernels, because few programs need them. The emulated device has stand-ins for them
/// (tests/cuda/simt/cusolverDn.h), so that tests run this file.
namespace binade::cuda {

#if __has_include(<cusolverDn.h>)
namespace {

#if defined(__CUDACC__)
void* open_library(const std::string& name) { return dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); }
void* symbol_of(void* library, const char* symbol) { return dlsym(library, symbol); }
std::string why_not_opened() { return dlerror(); }
#else
void* open_library(const std::string&) { return simt::stand_in(); }
void* symbol_of(void*, const char* symbol) { return simt::stand_in_symbol(symbol); }
std::string why_not_opened() { return "the emulated device has it with BINADE_SIMT_LIBRARY=1"; }
#endif

/// The functions of cuSOLVER and cuBLAS that are used, and the handles that they need.
class Libraries {
 public:
  std::string missing{};  ///< why the libraries cannot be used; empty: they can
  decltype(&::cusolverDnXpotrf_bufferSize) cholesky_size = nullptr;
  decltype(&::cusolverDnXpotrf) cholesky = nullptr;
  decltype(&::cusolverDnXgetrf_bufferSize) lu_size = nullptr;
  decltype(&::cusolverDnXgetrf) lu = nullptr;
  decltype(&::cusolverDnXgeqrf_bufferSize) qr_size = nullptr;
  decltype(&::cusolverDnXgeqrf) qr = nullptr;
  decltype(&::cusolverDnDorgqr_bufferSize) q_size = nullptr;
  decltype(&::cusolverDnDorgqr) q = nullptr;
  decltype(&::cusolverDnXsyevd_bufferSize) eigh_size = nullptr;
  decltype(&::cusolverDnXsyevd) eigh = nullptr;
  decltype(&::cusolverDnXgesvd_bufferSize) svd_size = nullptr;
  decltype(&::cusolverDnXgesvd) svd = nullptr;
  decltype(&::cublasStrsm_64) triangular_f32 = nullptr;
  decltype(&::cublasDtrsm_64) triangular_f64 = nullptr;
  cusolverDnHandle_t handle = nullptr;
  cusolverDnParams_t parameters = nullptr;
  cublasHandle_t products = nullptr;

  Libraries() {
    open("libcusolver.so." + std::to_string(CUSOLVER_VER_MAJOR));
    find(cholesky_size, "cusolverDnXpotrf_bufferSize");
    find(cholesky, "cusolverDnXpotrf");
    find(lu_size, "cusolverDnXgetrf_bufferSize");
    find(lu, "cusolverDnXgetrf");
    find(qr_size, "cusolverDnXgeqrf_bufferSize");
    find(qr, "cusolverDnXgeqrf");
    find(q_size, "cusolverDnDorgqr_bufferSize");
    find(q, "cusolverDnDorgqr");
    find(eigh_size, "cusolverDnXsyevd_bufferSize");
    find(eigh, "cusolverDnXsyevd");
    find(svd_size, "cusolverDnXgesvd_bufferSize");
    find(svd, "cusolverDnXgesvd");
    decltype(&::cusolverDnCreate) create = nullptr;
    decltype(&::cusolverDnCreateParams) create_parameters = nullptr;
    decltype(&::cusolverDnSetStream) set_stream = nullptr;
    decltype(&::cusolverDnSetDeterministicMode) set_determinism = nullptr;
    find(create, "cusolverDnCreate");
    find(create_parameters, "cusolverDnCreateParams");
    find(set_stream, "cusolverDnSetStream");
    find(set_determinism, "cusolverDnSetDeterministicMode");
    open("libcublas.so." + std::to_string(CUBLAS_VER_MAJOR));
    find(triangular_f32, "cublasStrsm_v2_64");
    find(triangular_f64, "cublasDtrsm_v2_64");
    decltype(&::cublasCreate) create_products = nullptr;
    decltype(&::cublasSetStream) set_stream_of_products = nullptr;
    find(create_products, "cublasCreate_v2");
    find(set_stream_of_products, "cublasSetStream_v2");
    if (!missing.empty()) return;
    const auto note = [&](bool done, const char* what) {
      if (!done && missing.empty()) missing = std::string(what) + " failed";
    };
    note(create(&handle) == CUSOLVER_STATUS_SUCCESS, "cusolverDnCreate");
    note(create_products(&products) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
    if (!missing.empty()) return;
    note(create_parameters(&parameters) == CUSOLVER_STATUS_SUCCESS, "cusolverDnCreateParams");
    note(set_stream(handle, context().stream) == CUSOLVER_STATUS_SUCCESS, "cusolverDnSetStream");
    note(set_determinism(handle, CUSOLVER_DETERMINISTIC_RESULTS) == CUSOLVER_STATUS_SUCCESS,
         "cusolverDnSetDeterministicMode");
    note(set_stream_of_products(products, context().stream) == CUBLAS_STATUS_SUCCESS, "cublasSetStream");
  }

 private:
  void open(const std::string& name) {
    if (!missing.empty()) return;
    name_ = name;
    library_ = open_library(name);
    if (library_ == nullptr) missing = why_not_opened();
  }
  template <class Function>
  void find(Function& function, const char* symbol) {
    if (!missing.empty()) return;
    function = reinterpret_cast<Function>(symbol_of(library_, symbol));
    if (function == nullptr) missing = name_ + " has no " + symbol;
  }
  std::string name_;
  void* library_ = nullptr;
};

/// REQUIRES that the caller holds Context::mutex.
Libraries& libraries() {
  static auto* const only = [] {
    require_no_capture("the first decomposition by cuSOLVER (run the step once before)");
    return new Libraries;  // never destroyed: the CUDA driver may shut down first
  }();
  return *only;
}

void check_solver(cusolverStatus_t status, const char* what) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  throw Failure(status == CUSOLVER_STATUS_ALLOC_FAILED ? Status::kNoMemory : Status::kFailed,
                std::string("cuSOLVER: ") + what + " failed with code " + std::to_string(static_cast<int>(status)));
}

cudaDataType type_of(bool wide) { return wide ? CUDA_R_64F : CUDA_R_32F; }

/// Calls `size(device bytes, host bytes)`, and then `call(device memory, device bytes, host memory, host bytes)` with
/// workspaces of these sizes.
template <class Size, class Call>
void with_workspaces(const char* what, Size&& size, Call&& call) {
  require_no_capture("a decomposition by cuSOLVER, of a matrix with more than 128 rows or columns,");
  std::size_t on_device = 0, on_host = 0;
  check_solver(size(&on_device, &on_host), what);
  const Buffer<unsigned char> device_work(static_cast<std::int64_t>(on_device));
  std::vector<unsigned char> host_work(on_host);
  check_solver(call(device_work.data(), on_device, host_work.data(), on_host), what);
  if (on_host > 0) check(cudaStreamSynchronize(context().stream), what);  // the solver may still use the host's memory
}

}  // namespace

bool library_decomposes() {
  if (libraries().missing.empty()) return true;
  add_note_once("linear algebra: large matrices are computed by Binade's own kernels, one block each: " +
                libraries().missing);
  return false;
}

void library_cholesky(bool wide, std::int64_t n, void* a, int* info) {
  const Libraries& l = libraries();
  const cudaDataType type = type_of(wide);
  with_workspaces(
      "a Cholesky factorization",
      [&](std::size_t* device, std::size_t* host) {
        return l.cholesky_size(l.handle, l.parameters, CUBLAS_FILL_MODE_UPPER, n, type, a, n, type, device, host);
      },
      [&](void* device, std::size_t on_device, void* host, std::size_t on_host) {
        return l.cholesky(l.handle, l.parameters, CUBLAS_FILL_MODE_UPPER, n, type, a, n, type, device, on_device, host,
                          on_host, info);
      });
}

void library_lu(bool wide, std::int64_t rows, std::int64_t columns, void* a, std::int64_t* pivots, int* info) {
  const Libraries& l = libraries();
  const cudaDataType type = type_of(wide);
  with_workspaces(
      "an LU factorization",
      [&](std::size_t* device, std::size_t* host) {
        return l.lu_size(l.handle, l.parameters, rows, columns, type, a, rows, type, device, host);
      },
      [&](void* device, std::size_t on_device, void* host, std::size_t on_host) {
        return l.lu(l.handle, l.parameters, rows, columns, type, a, rows, pivots, type, device, on_device, host,
                    on_host, info);
      });
}

void library_qr(std::int64_t rows, std::int64_t columns, double* a, double* tau, int* info) {
  const Libraries& l = libraries();
  constexpr cudaDataType kType = CUDA_R_64F;
  with_workspaces(
      "a QR factorization",
      [&](std::size_t* device, std::size_t* host) {
        return l.qr_size(l.handle, l.parameters, rows, columns, kType, a, rows, kType, tau, kType, device, host);
      },
      [&](void* device, std::size_t on_device, void* host, std::size_t on_host) {
        return l.qr(l.handle, l.parameters, rows, columns, kType, a, rows, kType, tau, kType, device, on_device, host,
                    on_host, info);
      });
}

void library_q(std::int64_t rows, std::int64_t columns, std::int64_t reflections, double* q, const double* tau,
               int* info) {
  const Libraries& l = libraries();
  if (rows > std::numeric_limits<int>::max())
    throw Failure(Status::kUnsupported, "cuSOLVER: q has " + std::to_string(rows) + " rows, more than it counts");
  const int m = static_cast<int>(rows), n = static_cast<int>(columns), k = static_cast<int>(reflections);
  int numbers = 0;
  with_workspaces(
      "the q of a QR factorization",
      [&](std::size_t* device, std::size_t* host) {
        const cusolverStatus_t status = l.q_size(l.handle, m, n, k, q, m, tau, &numbers);
        *device = static_cast<std::size_t>(numbers) * sizeof(double);
        *host = 0;
        return status;
      },
      [&](void* device, std::size_t, void*, std::size_t) {
        return l.q(l.handle, m, n, k, q, m, tau, static_cast<double*>(device), numbers, info);
      });
}

void library_eigh(std::int64_t n, double* a, double* values, int* info) {
  const Libraries& l = libraries();
  constexpr cudaDataType kType = CUDA_R_64F;
  constexpr cusolverEigMode_t kMode = CUSOLVER_EIG_MODE_VECTOR;
  constexpr cublasFillMode_t kRead = CUBLAS_FILL_MODE_LOWER;
  with_workspaces(
      "an eigendecomposition",
      [&](std::size_t* device, std::size_t* host) {
        return l.eigh_size(l.handle, l.parameters, kMode, kRead, n, kType, a, n, kType, values, kType, device, host);
      },
      [&](void* device, std::size_t on_device, void* host, std::size_t on_host) {
        return l.eigh(l.handle, l.parameters, kMode, kRead, n, kType, a, n, kType, values, kType, device, on_device,
                      host, on_host, info);
      });
}

void library_svd(std::int64_t rows, std::int64_t columns, bool full, double* a, double* u, double* s, double* vt,
                 int* info) {
  const Libraries& l = libraries();
  constexpr cudaDataType kType = CUDA_R_64F;
  const signed char job = full ? 'A' : 'S';
  with_workspaces(
      "a singular value decomposition",
      [&](std::size_t* device, std::size_t* host) {
        return l.svd_size(l.handle, l.parameters, job, job, rows, columns, kType, a, rows, kType, s, kType, u, rows,
                          kType, vt, columns, kType, device, host);
      },
      [&](void* device, std::size_t on_device, void* host, std::size_t on_host) {
        return l.svd(l.handle, l.parameters, job, job, rows, columns, kType, a, rows, kType, s, kType, u, rows, kType,
                     vt, columns, kType, device, on_device, host, on_host, info);
      });
}

void library_triangular(const LibraryTriangular& t) {
  const Libraries& l = libraries();
  const cublasFillMode_t read = t.upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const cublasOperation_t operation = t.transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasDiagType_t diagonal = t.unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
  const auto solve = [&](auto function, auto one) {
    using T = decltype(one);
    return function(l.products, CUBLAS_SIDE_RIGHT, read, operation, diagonal, t.columns, t.n, &one,
                    static_cast<const T*>(t.a), t.n, static_cast<T*>(t.x), t.columns);
  };
  const cublasStatus_t status = t.wide ? solve(l.triangular_f64, 1.0) : solve(l.triangular_f32, 1.0f);
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Failure(status == CUBLAS_STATUS_ALLOC_FAILED ? Status::kNoMemory : Status::kFailed,
                  "cuBLAS: a triangular system failed with code " + std::to_string(static_cast<int>(status)));
}

#else

bool library_decomposes() {
  add_note_once(
      "linear algebra: large matrices are computed by Binade's own kernels, one block each: the module was built "
      "without cusolverDn.h");
  return false;
}

// Never called.
void library_cholesky(bool, std::int64_t, void*, int*) {}
void library_lu(bool, std::int64_t, std::int64_t, void*, std::int64_t*, int*) {}
void library_qr(std::int64_t, std::int64_t, double*, double*, int*) {}
void library_q(std::int64_t, std::int64_t, std::int64_t, double*, const double*, int*) {}
void library_eigh(std::int64_t, double*, double*, int*) {}
void library_svd(std::int64_t, std::int64_t, bool, double*, double*, double*, double*, int*) {}
void library_triangular(const LibraryTriangular&) {}

#endif

}  // namespace binade::cuda
