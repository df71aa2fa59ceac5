#pragma once

#include <cstddef>
#include <cstdint>

#include "binade/core/dtype.h"

namespace binade::cpu {

/// The start of a run of elements of any dtype: what the elementwise loops read. The loops of every instruction-set
/// level share these two types.
struct In {
  const void* data = nullptr;
  DType dtype = DType::f32;
  In at(std::int64_t element) const {
    return {static_cast<const std::byte*>(data) + element * static_cast<std::int64_t>(size_of(dtype)), dtype};
  }
};

/// What they write. Never overlaps an In of the same call.
struct Out {
  void* data = nullptr;
  DType dtype = DType::f32;
  Out at(std::int64_t element) const {
    return {static_cast<std::byte*>(data) + element * static_cast<std::int64_t>(size_of(dtype)), dtype};
  }
};

}  // namespace binade::cpu
