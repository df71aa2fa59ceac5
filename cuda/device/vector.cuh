#pragma once

#include <type_traits>

#include "binade/cuda/device/value.cuh"

/// Vectors of V contiguous elements of a dtype known at compile time. V is kPack, in 16-byte accesses, or 1.
namespace binade::cuda {

/// Loads the V elements of `data` from element i on.
template <class T, int V, class C>
__device__ __forceinline__ void load_vector(const void* data, std::int64_t i, C (&x)[V]) {
  if constexpr (V == kPack)
    load_pack(data, kDTypeOf<T>, i, x);
  else
    x[0] = load_at<C>(data, kDTypeOf<T>, i);
}
/// The elements of a vector as they are stored, for loading them in two steps: fetch_vector() and unpack_vector().
template <class T, int V>
using RawVector = std::conditional_t<V == kPack, RawPack, T>;
template <class T, int V>
__device__ __forceinline__ RawVector<T, V> fetch_vector(const void* data, std::int64_t i) {
  if constexpr (V == kPack)
    return fetch_pack(data, kDTypeOf<T>, i);
  else
    return static_cast<const T*>(data)[i];
}
template <class T, int V, class C>
__device__ __forceinline__ void unpack_vector(const RawVector<T, V>& raw, C (&x)[V]) {
  if constexpr (V == kPack)
    unpack(raw, kDTypeOf<T>, x);
  else
    x[0] = widened(raw);
}
template <class T, int V, class C>
__device__ __forceinline__ void store_vector(void* data, std::int64_t i, const C (&x)[V]) {
  if constexpr (V == kPack)
    store_pack(data, kDTypeOf<T>, i, x);
  else
    store_at(data, kDTypeOf<T>, i, x[0]);
}

/// Returns x rounded to T.
template <class T, class C>
__device__ __forceinline__ C rounded(C x) {
  if constexpr (std::is_same_v<T, C>)
    return x;
  else
    return widened(narrowed<T>(x));
}

/// Returns true if rows that are `pitch` elements apart can be read in packs, or if `data` is null.
inline bool packs_rows(const void* data, DType dtype, std::int64_t pitch) {
  return data == nullptr || (packs(data, dtype) && pitch * static_cast<std::int64_t>(size_of(dtype)) % 16 == 0);
}

/// Calls f(TypeTag<T>) for the floating dtype.
template <class F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(TypeTag<float>{});
    case DType::f16: return f(TypeTag<float16>{});
    case DType::bf16: return f(TypeTag<bfloat16>{});
    default: return f(TypeTag<double>{});
  }
}

/// Calls f(TypeTag<T>, std::integral_constant<int, V>), where V is kPack if `packed` is true, otherwise 1.
template <class F>
void with_vectors(DType dtype, bool packed, F&& f) {
  with_type(dtype, [&]<class T>(TypeTag<T> type) {
    if constexpr (!std::is_same_v<T, double>)
      if (packed) return f(type, std::integral_constant<int, kPack>{});
    f(type, std::integral_constant<int, 1>{});
  });
}

}  // namespace binade::cuda
