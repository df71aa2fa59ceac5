#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "binade/core/precision.h"

namespace binade::amp {

/// The dtypes in which a run computes: a preset with overrides. A policy can be printed and compared, and is saved in
/// checkpoints.
///
///   preset                | weights that ops read            | products compute in | loss scale
///   fp32, tf32            | f32                              | f32 / TF32          | off
///   fp16                  | f16 copy of an f32 master        | f16                 | dynamic
///   bf16                  | bf16 copy of an f32 master       | bf16                | off
///   fp8                   | bf16 copy of an f32 master       | e4m3, e5m2 / bf16   | off
///   pure_fp16, pure_bf16  | no master, stochastic rounding   | f16, bf16           | dynamic / off
///
/// fp8 is bf16, except that nn::Linear layers round x and weight to e4m3 and the gradient of y to e5m2
/// (core/ops/fp8.h). Other products, and layers that an override names, stay in bf16.
///
///     Policy::fp16().with("decoder.*", DType::f32).with<ops::Softmax>(DType::f16)
///
/// TF32 is f32 with 10 mantissa bits: GPU libraries round the operands of f32 products to it, forward and backward.
/// CPUs, Binade's own GPU kernels, and ops that an override names, compute in f32.
///
/// An override sets the dtype that an op reads and stores; computations that the op does in f32 stay in f32. The last
/// matching override wins.
struct Policy : PrecisionPolicy {
  Policy() = default;
  Policy(PrecisionPolicy policy) : PrecisionPolicy(std::move(policy)) {}  // NOLINT(google-explicit-constructor)

  static Policy fp32();
  static Policy tf32();
  static Policy fp16();
  static Policy bf16();
  static Policy fp8();
  static Policy pure_fp16();
  static Policy pure_bf16();
  /// Returns the preset "fp32", "tf32", "fp16", "bf16", "fp8", "pure-fp16" or "pure-bf16". Throws ArgumentError for any
  /// other name.
  static Policy by_name(std::string_view name);

  /// Returns a copy with one more override, for modules with a matching path (`*` matches any characters, dots too) or
  /// for an op of that name.
  Policy with(std::string glob, DType dtype) const { return PrecisionPolicy::with(std::move(glob), dtype); }
  /// Returns a copy with an override for one op type of Binade or of the user.
  template <class Op>
  Policy with(DType dtype) const {
    return PrecisionPolicy::with(Op::info.name, dtype);
  }
};

/// Throws ArgumentError if an override matches none of `names` (module paths and op names), and suggests the nearest
/// one.
void check_overrides(const PrecisionPolicy& policy, std::span<const std::string> names);

using AutocastScope [[deprecated("use PolicyScope")]] = PolicyScope;

}  // namespace binade::amp
