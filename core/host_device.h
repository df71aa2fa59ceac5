#pragma once

/// Marks scalar functions that are compiled for the host and, by nvcc, for the device. They are always inlined: a
/// function that is compiled out of line for one instruction-set level would have the same name as that of every other
/// level, and the linker would keep only one of them (tests/lint/isa_symbols.py).
#if defined(__CUDACC__)
#define BINADE_HD __host__ __device__ __forceinline__
#else
#define BINADE_HD __attribute__((always_inline)) inline
#endif
