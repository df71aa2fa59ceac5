#pragma once

/// Marks scalar maths that is compiled for the host and, by nvcc, for the device from the same text. Always inlined: an
/// out-of-line copy made for one instruction-set level would bear the same name as that of every other, and the linker
/// would keep any one of them (tests/lint/isa_symbols.py).
#if defined(__CUDACC__)
#define BINADE_HD __host__ __device__ __forceinline__
#else
#define BINADE_HD __attribute__((always_inline)) inline
#endif
