#include <cusolverDn.h>

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "tests/cuda/simt/stream.h"

// Stand-ins for the functions of cuSOLVER and cuBLAS that cuda/device/cusolver.cu calls. They have the same conventions
// as the real functions, compute on the host with Eigen or a few loops, and run in the order of the stream. They refuse
// arguments and workspaces that the real functions would refuse. Like LAPACK, they treat a NaN as a failure, and do not
// process the rest of the matrix. Callers must not rely on this.

struct simt_solver {
  cudaStream_t stream = nullptr;
  bool deterministic = false;
};
struct simt_solver_parameters {};
struct simt_products {
  cudaStream_t stream = nullptr;
};

namespace {

constexpr std::size_t kOnDevice = 1000, kOnHost = 100;  // sizes of workspaces in bytes; calls fill them with garbage

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
using Part = Eigen::Map<Matrix<T>, 0, Eigen::OuterStride<>>;

template <class T>
Part<T> part(void* data, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
  return {static_cast<T*>(data), rows, columns, Eigen::OuterStride<>(pitch)};
}

cusolverStatus_t sizes(bool valid, std::size_t* on_device, std::size_t* on_host) {
  if (!valid) return CUSOLVER_STATUS_INVALID_VALUE;
  *on_device = kOnDevice;
  *on_host = kOnHost;
  return CUSOLVER_STATUS_SUCCESS;
}

/// Submits f to the handle's stream, if the arguments are valid and the workspaces are those that were asked for.
template <class F>
cusolverStatus_t submit(cusolverDnHandle_t handle, bool valid, void* device, std::size_t on_device, void* host,
                        std::size_t on_host, F&& f) {
  if (!valid || !simt::owns(device) || on_device < kOnDevice || on_host < kOnHost || host == nullptr)
    return CUSOLVER_STATUS_INVALID_VALUE;
  if (!handle->deterministic) return CUSOLVER_STATUS_INVALID_VALUE;
  std::memset(host, 0xff, on_host);
  simt::send(handle->stream, [=, f = std::forward<F>(f)] {
    const simt::Access access;
    std::memset(device, 0xff, on_device);
    f();
  });
  return CUSOLVER_STATUS_SUCCESS;
}

bool on_device(const void* a) { return simt::owns(a); }

/// Calls f(T()) for the element type.
template <class F>
void with_type(cudaDataType type, F&& f) {
  type == CUDA_R_64F ? f(double()) : f(float());
}

template <class T>
int cholesky(Part<T> a) {  // a = u^T u
  for (std::int64_t j = 0; j < a.cols(); ++j)
    for (std::int64_t i = 0; i <= j; ++i) {
      T x = a(i, j);
      for (std::int64_t k = 0; k < i; ++k) x -= a(k, i) * a(k, j);
      if (i == j && !(x > T(0))) return static_cast<int>(j + 1);
      a(i, j) = i == j ? std::sqrt(x) : x / a(i, i);
    }
  return 0;
}

template <class T>
int lu(Part<T> a, std::int64_t* pivots) {
  for (std::int64_t j = 0; j < std::min(a.rows(), a.cols()); ++j) {
    std::int64_t best = j;
    for (std::int64_t i = j + 1; i < a.rows(); ++i)
      if (std::abs(a(i, j)) > std::abs(a(best, j))) best = i;
    pivots[j] = best + 1;
    a.row(j).swap(a.row(best));
    if (!(std::abs(a(j, j)) > T(0))) return static_cast<int>(j + 1);
    for (std::int64_t i = j + 1; i < a.rows(); ++i) {
      a(i, j) /= a(j, j);
      for (std::int64_t k = j + 1; k < a.cols(); ++k) a(i, k) -= a(i, j) * a(j, k);
    }
  }
  return 0;
}

template <class T>
cublasStatus_t triangular(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t read,
                          cublasOperation_t operation, cublasDiagType_t diagonal, std::int64_t m, std::int64_t n,
                          const T* factor, const T* a, std::int64_t a_pitch, T* b, std::int64_t b_pitch) {
  if (side != CUBLAS_SIDE_RIGHT || a_pitch < n || b_pitch < m || *factor != T(1) || !on_device(a) || !on_device(b))
    return CUBLAS_STATUS_INVALID_VALUE;
  simt::send(handle->stream, [=] {
    const simt::Access access;
    const Part<T> triangle = part<T>(const_cast<T*>(a), n, n, a_pitch);
    Part<T> x = part<T>(b, m, n, b_pitch);
    const bool transposed = operation == CUBLAS_OP_T, unit = diagonal == CUBLAS_DIAG_UNIT;
    const bool forward = (read == CUBLAS_FILL_MODE_UPPER) != transposed;  // column 0 of x is the first known one
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t j = forward ? step : n - 1 - step;
      for (std::int64_t k = forward ? 0 : j + 1; k < (forward ? j : n); ++k)
        x.col(j) -= x.col(k) * (transposed ? triangle(j, k) : triangle(k, j));
      if (!unit) x.col(j) /= triangle(j, j);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  *handle = new simt_solver;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* parameters) {
  *parameters = new simt_solver_parameters;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t mode) {
  handle->deterministic = mode == CUSOLVER_DETERMINISTIC_RESULTS;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t, std::int64_t n,
                                             cudaDataType type, const void* a, std::int64_t pitch, cudaDataType compute,
                                             std::size_t* on_device, std::size_t* on_host) {
  return sizes(pitch >= n && type == compute && simt::owns(a), on_device, on_host);
}
cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t, cublasFillMode_t read, std::int64_t n,
                                  cudaDataType type, void* a, std::int64_t pitch, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes, int* info) {
  const bool valid = read == CUBLAS_FILL_MODE_UPPER && pitch >= n && type == compute && on_device(a) && on_device(info);
  return submit(handle, valid, device, device_bytes, host, host_bytes,
                [=] { with_type(type, [&]<class T>(T) { *info = cholesky<T>(part<T>(a, n, n, pitch)); }); });
}

cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, std::int64_t m, std::int64_t,
                                             cudaDataType type, const void* a, std::int64_t pitch, cudaDataType compute,
                                             std::size_t* on_device, std::size_t* on_host) {
  return sizes(pitch >= m && type == compute && simt::owns(a), on_device, on_host);
}
cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t handle, cusolverDnParams_t, std::int64_t m, std::int64_t n,
                                  cudaDataType type, void* a, std::int64_t pitch, std::int64_t* pivots,
                                  cudaDataType compute, void* device, std::size_t device_bytes, void* host,
                                  std::size_t host_bytes, int* info) {
  const bool valid = pitch >= m && type == compute && on_device(a) && on_device(pivots) && on_device(info);
  return submit(handle, valid, device, device_bytes, host, host_bytes,
                [=] { with_type(type, [&]<class T>(T) { *info = lu<T>(part<T>(a, m, n, pitch), pivots); }); });
}

cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, std::int64_t m, std::int64_t,
                                             cudaDataType type, const void* a, std::int64_t pitch,
                                             cudaDataType tau_type, const void* tau, cudaDataType compute,
                                             std::size_t* on_device, std::size_t* on_host) {
  const bool valid = type == CUDA_R_64F && tau_type == type && compute == type && pitch >= m;
  return sizes(valid && simt::owns(a) && simt::owns(tau), on_device, on_host);
}
cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t, std::int64_t m, std::int64_t n,
                                  cudaDataType type, void* a, std::int64_t pitch, cudaDataType tau_type, void* tau,
                                  cudaDataType compute, void* device, std::size_t device_bytes, void* host,
                                  std::size_t host_bytes, int* info) {
  const bool types = type == CUDA_R_64F && tau_type == type && compute == type;
  const bool valid = types && pitch >= m && on_device(a) && on_device(tau) && on_device(info);
  return submit(handle, valid, device, device_bytes, host, host_bytes, [=] {
    Part<double> matrix = part<double>(a, m, n, pitch);
    const Eigen::HouseholderQR<Matrix<double>> factors(matrix);
    matrix = factors.matrixQR();
    std::copy_n(factors.hCoeffs().data(), std::min(m, n), static_cast<double*>(tau));
    *info = 0;
  });
}

cusolverStatus_t cusolverDnDorgqr_bufferSize(cusolverDnHandle_t, int m, int n, int k, const double* a, int pitch,
                                             const double* tau, int* numbers) {
  if (n > m || k > n || pitch < m || !on_device(a) || !on_device(tau)) return CUSOLVER_STATUS_INVALID_VALUE;
  *numbers = static_cast<int>(kOnDevice / sizeof(double));
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDorgqr(cusolverDnHandle_t handle, int m, int n, int k, double* a, int pitch,
                                  const double* tau, double* work, int numbers, int* info) {
  const bool valid = n <= m && k <= n && pitch >= m && on_device(a) && on_device(tau) && on_device(info);
  char host[kOnHost];
  return submit(handle, valid, work, static_cast<std::size_t>(numbers) * sizeof(double), host, sizeof host, [=] {
    Part<double> matrix = part<double>(a, m, n, pitch);
    Matrix<double> q = Matrix<double>::Identity(m, n);
    for (int j = k; j-- > 0;) {
      Eigen::VectorXd v = Eigen::VectorXd::Zero(m);
      v(j) = 1;
      v.tail(m - j - 1) = matrix.col(j).tail(m - j - 1);
      q -= tau[j] * v * (v.transpose() * q).eval();
    }
    matrix = q;
    *info = 0;
  });
}

cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                             cublasFillMode_t, std::int64_t n, cudaDataType type, const void* a,
                                             std::int64_t pitch, cudaDataType value_type, const void* values,
                                             cudaDataType compute, std::size_t* on_device, std::size_t* on_host) {
  const bool valid = type == CUDA_R_64F && value_type == type && compute == type && pitch >= n;
  return sizes(valid && simt::owns(a) && simt::owns(values), on_device, on_host);
}
cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t mode,
                                  cublasFillMode_t read, std::int64_t n, cudaDataType type, void* a, std::int64_t pitch,
                                  cudaDataType value_type, void* values, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes, int* info) {
  const bool types = type == CUDA_R_64F && value_type == type && compute == type;
  const bool valid = types && mode == CUSOLVER_EIG_MODE_VECTOR && read == CUBLAS_FILL_MODE_LOWER && pitch >= n &&
                     on_device(a) && on_device(values) && on_device(info);
  return submit(handle, valid, device, device_bytes, host, host_bytes, [=] {
    Part<double> matrix = part<double>(a, n, n, pitch);
    const Eigen::SelfAdjointEigenSolver<Matrix<double>> solver(matrix);
    matrix = -solver.eigenvectors();  // the signs are arbitrary; callers must not rely on them
    std::copy_n(solver.eigenvalues().data(), n, static_cast<double*>(values));
    *info = solver.info() == Eigen::Success ? 0 : 1;
  });
}

cusolverStatus_t cusolverDnXgesvd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, signed char, signed char,
                                             std::int64_t m, std::int64_t n, cudaDataType type, const void* a,
                                             std::int64_t pitch, cudaDataType s_type, const void* s,
                                             cudaDataType u_type, const void* u, std::int64_t u_pitch,
                                             cudaDataType vt_type, const void* vt, std::int64_t vt_pitch,
                                             cudaDataType compute, std::size_t* on_device, std::size_t* on_host) {
  const bool types = type == CUDA_R_64F && s_type == type && u_type == type && vt_type == type && compute == type;
  const bool valid = types && m >= n && pitch >= m && u_pitch >= m && vt_pitch >= n;
  return sizes(valid && simt::owns(a) && simt::owns(s) && simt::owns(u) && simt::owns(vt), on_device, on_host);
}
cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t, signed char job_u, signed char job_vt,
                                  std::int64_t m, std::int64_t n, cudaDataType type, void* a, std::int64_t pitch,
                                  cudaDataType s_type, void* s, cudaDataType u_type, void* u, std::int64_t u_pitch,
                                  cudaDataType vt_type, void* vt, std::int64_t vt_pitch, cudaDataType compute,
                                  void* device, std::size_t device_bytes, void* host, std::size_t host_bytes,
                                  int* info) {
  const bool types = type == CUDA_R_64F && s_type == type && u_type == type && vt_type == type && compute == type;
  const bool jobs = (job_u == 'A' || job_u == 'S') && job_vt == job_u;
  const bool valid = types && jobs && m >= n && pitch >= m && u_pitch >= m && vt_pitch >= n && on_device(a) &&
                     on_device(s) && on_device(u) && on_device(vt) && on_device(info);
  return submit(handle, valid, device, device_bytes, host, host_bytes, [=] {
    Part<double> matrix = part<double>(a, m, n, pitch);
    const unsigned vectors = job_u == 'A' ? Eigen::ComputeFullU | Eigen::ComputeFullV
                                          : Eigen::ComputeThinU | Eigen::ComputeThinV;
    const Eigen::BDCSVD<Matrix<double>> solver(Matrix<double>(matrix), vectors);
    part<double>(u, m, job_u == 'A' ? m : n, u_pitch) = -solver.matrixU();  // any sign is right
    part<double>(vt, n, n, vt_pitch) = -solver.matrixV().transpose();
    std::copy_n(solver.singularValues().data(), n, static_cast<double*>(s));
    matrix.setConstant(-1);  // its content is lost
    *info = solver.info() == Eigen::Success ? 0 : 1;
  });
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new simt_products;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasStrsm_64(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t read,
                              cublasOperation_t operation, cublasDiagType_t diagonal, std::int64_t m, std::int64_t n,
                              const float* factor, const float* a, std::int64_t a_pitch, float* b,
                              std::int64_t b_pitch) {
  return triangular(handle, side, read, operation, diagonal, m, n, factor, a, a_pitch, b, b_pitch);
}
cublasStatus_t cublasDtrsm_64(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t read,
                              cublasOperation_t operation, cublasDiagType_t diagonal, std::int64_t m, std::int64_t n,
                              const double* factor, const double* a, std::int64_t a_pitch, double* b,
                              std::int64_t b_pitch) {
  return triangular(handle, side, read, operation, diagonal, m, n, factor, a, a_pitch, b, b_pitch);
}

namespace simt {

void* stand_in() {
  static int only;
  return std::getenv("BINADE_SIMT_LIBRARY") != nullptr ? &only : nullptr;
}

void* stand_in_symbol(const char* name) {
  const auto address = [](auto* function) { return reinterpret_cast<void*>(function); };
  static const std::map<std::string_view, void*> symbols{
      {"cusolverDnCreate", address(&::cusolverDnCreate)},
      {"cusolverDnCreateParams", address(&::cusolverDnCreateParams)},
      {"cusolverDnSetStream", address(&::cusolverDnSetStream)},
      {"cusolverDnSetDeterministicMode", address(&::cusolverDnSetDeterministicMode)},
      {"cusolverDnXpotrf_bufferSize", address(&::cusolverDnXpotrf_bufferSize)},
      {"cusolverDnXpotrf", address(&::cusolverDnXpotrf)},
      {"cusolverDnXgetrf_bufferSize", address(&::cusolverDnXgetrf_bufferSize)},
      {"cusolverDnXgetrf", address(&::cusolverDnXgetrf)},
      {"cusolverDnXgeqrf_bufferSize", address(&::cusolverDnXgeqrf_bufferSize)},
      {"cusolverDnXgeqrf", address(&::cusolverDnXgeqrf)},
      {"cusolverDnDorgqr_bufferSize", address(&::cusolverDnDorgqr_bufferSize)},
      {"cusolverDnDorgqr", address(&::cusolverDnDorgqr)},
      {"cusolverDnXsyevd_bufferSize", address(&::cusolverDnXsyevd_bufferSize)},
      {"cusolverDnXsyevd", address(&::cusolverDnXsyevd)},
      {"cusolverDnXgesvd_bufferSize", address(&::cusolverDnXgesvd_bufferSize)},
      {"cusolverDnXgesvd", address(&::cusolverDnXgesvd)},
      {"cublasCreate_v2", address(&::cublasCreate)},
      {"cublasSetStream_v2", address(&::cublasSetStream)},
      {"cublasStrsm_v2_64", address(&::cublasStrsm_64)},
      {"cublasDtrsm_v2_64", address(&::cublasDtrsm_64)},
  };
  const auto found = symbols.find(name);
  return found == symbols.end() ? nullptr : found->second;
}

}  // namespace simt
