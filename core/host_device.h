#pragma once

/// Marks scalar functions that are compiled for the host and, by nvcc, for the device. They are always inlined.
/// Otherwise the copies that are compiled for different instruction-set levels would have the same name, and the linker
/// would keep only one of them, which some processors cannot execute (tests/lint/isa_symbols.py).
#if defined(__CUDACC__)
#define BINADE_HD __host__ __device__ __forceinline__
#else
#define BINADE_HD __attribute__((always_inline)) inline
#endif
