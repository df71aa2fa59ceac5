#pragma once

/// Marks scalar maths that is compiled for the host and, by nvcc, for the device from the same text.
#if defined(__CUDACC__)
#define BINADE_HD __host__ __device__ __forceinline__
#else
#define BINADE_HD inline
#endif
