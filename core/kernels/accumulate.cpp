#include "binade/core/kernels/accumulate.h"

#include "binade/core/kernels/lanes.h"

namespace binade::cpu::BINADE_ISA {
namespace {

template <class From, class To>
void accumulate_typed(const void* from, void* to, std::int64_t n) {
  AmaxObserver amax(kDTypeOf<To>);
  put_row(static_cast<To*>(to), n, amax, [&](std::int64_t i, auto part) {
    return get(static_cast<const To*>(to) + i, part) + get(static_cast<const From*>(from) + i, part);
  });
}

template <class To>
void accumulate_from(DType from_dtype, const void* from, void* to, std::int64_t n) {
  switch (from_dtype) {
    case DType::f16: return accumulate_typed<float16, To>(from, to, n);
    case DType::bf16: return accumulate_typed<bfloat16, To>(from, to, n);
    default: return accumulate_typed<float, To>(from, to, n);
  }
}

void accumulate(DType from_dtype, const void* from, DType to_dtype, void* to, std::int64_t n) {
  switch (to_dtype) {
    case DType::f16: return accumulate_from<float16>(from_dtype, from, to, n);
    case DType::bf16: return accumulate_from<bfloat16>(from_dtype, from, to, n);
    default: return accumulate_from<float>(from_dtype, from, to, n);
  }
}

}  // namespace

const AccumulateKernels& accumulate_kernels() {
  static constexpr AccumulateKernels kernels{&accumulate};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
