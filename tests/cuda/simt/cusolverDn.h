#pragma once

// The part of cuSOLVER and cuBLAS that cuda/device/cusolver.cu uses, for the emulated device. Replaces the toolkit's
// header of this name when the module is compiled for the host; cusolver.cpp has the functions.

#include <cstddef>
#include <cstdint>

#include "tests/cuda/simt/cuda_runtime.h"

inline constexpr int CUSOLVER_VER_MAJOR = 0, CUBLAS_VER_MAJOR = 0;

namespace simt {
/// Returns the stand-in for both libraries, or null unless BINADE_SIMT_LIBRARY is set.
void* stand_in();
/// Returns the address of one of the functions below, by the name that it has in the library, or null.
void* stand_in_symbol(const char* name);
}  // namespace simt

enum cusolverStatus_t {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3
};
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_ALLOC_FAILED = 3, CUBLAS_STATUS_INVALID_VALUE = 7 };
enum cusolverEigMode_t { CUSOLVER_EIG_MODE_NOVECTOR = 0, CUSOLVER_EIG_MODE_VECTOR = 1 };
enum cusolverDeterministicMode_t { CUSOLVER_DETERMINISTIC_RESULTS = 1, CUSOLVER_ALLOW_NON_DETERMINISTIC_RESULTS = 2 };
enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1 };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_64F = 1 };

using cusolverDnHandle_t = struct simt_solver*;
using cusolverDnParams_t = struct simt_solver_parameters*;
using cublasHandle_t = struct simt_products*;

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle);
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* parameters);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
cusolverStatus_t cusolverDnSetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t mode);

cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                             cublasFillMode_t read, std::int64_t n, cudaDataType type, const void* a,
                                             std::int64_t pitch, cudaDataType compute, std::size_t* on_device,
                                             std::size_t* on_host);
cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t parameters, cublasFillMode_t read,
                                  std::int64_t n, cudaDataType type, void* a, std::int64_t pitch, cudaDataType compute,
                                  void* device, std::size_t on_device, void* host, std::size_t on_host, int* info);
cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t parameters, std::int64_t m,
                                             std::int64_t n, cudaDataType type, const void* a, std::int64_t pitch,
                                             cudaDataType compute, std::size_t* on_device, std::size_t* on_host);
cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t handle, cusolverDnParams_t parameters, std::int64_t m,
                                  std::int64_t n, cudaDataType type, void* a, std::int64_t pitch, std::int64_t* pivots,
                                  cudaDataType compute, void* device, std::size_t on_device, void* host,
                                  std::size_t on_host, int* info);
cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t parameters, std::int64_t m,
                                             std::int64_t n, cudaDataType type, const void* a, std::int64_t pitch,
                                             cudaDataType tau_type, const void* tau, cudaDataType compute,
                                             std::size_t* on_device, std::size_t* on_host);
cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t parameters, std::int64_t m,
                                  std::int64_t n, cudaDataType type, void* a, std::int64_t pitch, cudaDataType tau_type,
                                  void* tau, cudaDataType compute, void* device, std::size_t on_device, void* host,
                                  std::size_t on_host, int* info);
cusolverStatus_t cusolverDnDorgqr_bufferSize(cusolverDnHandle_t handle, int m, int n, int k, const double* a, int pitch,
                                             const double* tau, int* numbers);
cusolverStatus_t cusolverDnDorgqr(cusolverDnHandle_t handle, int m, int n, int k, double* a, int pitch,
                                  const double* tau, double* work, int numbers, int* info);
cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                             cusolverEigMode_t mode, cublasFillMode_t read, std::int64_t n,
                                             cudaDataType type, const void* a, std::int64_t pitch,
                                             cudaDataType value_type, const void* values, cudaDataType compute,
                                             std::size_t* on_device, std::size_t* on_host);
cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t parameters, cusolverEigMode_t mode,
                                  cublasFillMode_t read, std::int64_t n, cudaDataType type, void* a, std::int64_t pitch,
                                  cudaDataType value_type, void* values, cudaDataType compute, void* device,
                                  std::size_t on_device, void* host, std::size_t on_host, int* info);
cusolverStatus_t cusolverDnXgesvd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t parameters,
                                             signed char job_u, signed char job_vt, std::int64_t m, std::int64_t n,
                                             cudaDataType type, const void* a, std::int64_t pitch, cudaDataType s_type,
                                             const void* s, cudaDataType u_type, const void* u, std::int64_t u_pitch,
                                             cudaDataType vt_type, const void* vt, std::int64_t vt_pitch,
                                             cudaDataType compute, std::size_t* on_device, std::size_t* on_host);
cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t parameters, signed char job_u,
                                  signed char job_vt, std::int64_t m, std::int64_t n, cudaDataType type, void* a,
                                  std::int64_t pitch, cudaDataType s_type, void* s, cudaDataType u_type, void* u,
                                  std::int64_t u_pitch, cudaDataType vt_type, void* vt, std::int64_t vt_pitch,
                                  cudaDataType compute, void* device, std::size_t on_device, void* host,
                                  std::size_t on_host, int* info);

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasStrsm_64(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t read,
                              cublasOperation_t operation, cublasDiagType_t diagonal, std::int64_t m, std::int64_t n,
                              const float* factor, const float* a, std::int64_t a_pitch, float* b,
                              std::int64_t b_pitch);
cublasStatus_t cublasDtrsm_64(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t read,
                              cublasOperation_t operation, cublasDiagType_t diagonal, std::int64_t m, std::int64_t n,
                              const double* factor, const double* a, std::int64_t a_pitch, double* b,
                              std::int64_t b_pitch);
