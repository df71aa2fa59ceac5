#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/core/precision.h"

namespace binade::amp {

/// Which dtypes a run computes in, by preset, with overrides. A value: printable, comparable, saved in checkpoints.
///
///   preset                | weights the ops read             | products compute in | loss scale
///   fp32, tf32            | f32                              | f32 / TF32          | off
///   fp16                  | f16 copy of an f32 master        | f16                 | dynamic
///   bf16                  | bf16 copy of an f32 master       | bf16                | off
///   fp8                   | bf16 copy of an f32 master       | e4m3, e5m2 / bf16   | off
///   pure_fp16, pure_bf16  | no master, stochastic rounding   | f16, bf16           | dynamic / off
///
/// fp8 is bf16 whose nn::Linear layers round x and weight to e4m3 and the gradient of y to e5m2 (core/ops/fp8.h); other
/// products stay in bf16, and so do layers that an override names.
///
///     Policy::fp16().with("decoder.*", DType::f32).with<ops::Softmax>(DType::f16)
///
/// TF32 is an f32 with 10 bits behind the point: a GPU's libraries round to it what f32 products read, forward and
/// backward. A CPU, Binade's own GPU kernels, and what an override names, compute f32.
///
/// An override sets what an op reads and stores; what its contract computes in f32 stays f32. The last match wins.
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
  /// "fp32", "tf32", "fp16", "bf16", "fp8", "pure-fp16", "pure-bf16". Throws ArgumentError listing them.
  static Policy by_name(std::string_view name);

  /// A copy with one more override, of modules by path (`*` matches any characters, dots too) or of an op by name.
  Policy with(std::string glob, DType dtype) const { return PrecisionPolicy::with(std::move(glob), dtype); }
  /// The same for one op type, Binade's or a user's.
  template <class Op>
  Policy with(DType dtype) const {
    return PrecisionPolicy::with(Op::info.name, dtype);
  }
};

/// Throws ArgumentError for the first override that matches none of `names` (module paths and op names), naming the
/// nearest one.
void check_overrides(const PrecisionPolicy& policy, std::span<const std::string> names);

using AutocastScope [[deprecated("use PolicyScope")]] = PolicyScope;

}  // namespace binade::amp
