#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/dtype.h"
#include "binade/core/scope.h"

namespace binade {

/// Class of an op, from which a precision policy derives its dtypes. Each op states its class (OpInfo::precision).
enum class PrecisionClass {
  kLow,     ///< reads and stores the policy's low dtype, accumulates in f32: matmul, linear, convolutions, attention
  kFull,    ///< reads any dtype, computes and stores f32: losses, softmax, exp, log, pow, sums
  kWidest,  ///< reads and stores the widest input dtype: add, mul, concat, where
  kAsIs,    ///< computes in float, stores the dtype of its first input: ReLU, GELU, norms, dropout, pooling, reshape
};

/// The dtypes in which a run computes. A policy can be printed and compared, and is saved in checkpoints. amp/policy.h
/// has the presets.
struct PrecisionPolicy {
  /// A dtype for the ops or modules that a pattern selects.
  struct Override {
    /// Pattern for module paths or op names. With a slash, "PATH/op", both must match. `*` matches any characters,
    /// including dots
    std::string glob{};
    DType dtype = DType::f32;
    bool matches(std::string_view module_path, std::string_view op) const;
    friend bool operator==(const Override&, const Override&) = default;
  };

  std::string name = "fp32";
  DType low = DType::f32;  ///< dtype of kLow ops
  bool tf32 = false;       ///< true if f32 products may use the TF32 Tensor Cores of a GPU; a CPU computes f32
  /// True if weights are stored in f32 (masters) and ops read copies in `low`; false if weights are stored in `low`
  bool master_weights = true;
  bool stochastic_rounding = false;   ///< true if the optimizer rounds weights stochastically (without masters)
  bool dynamic_loss_scale = false;    ///< true if by default the loss scale is adapted during training
  bool fp8_linear = false;            ///< true if linear layers round their operands to 8 bits (core/ops/fp8.h)
  std::vector<Override> overrides{};  ///< if several match an op, the last one applies

  /// Returns a copy with one more override of a module path or op name.
  PrecisionPolicy with(std::string glob, DType dtype) const;
  /// Returns the dtype of the last override that matches the op, or std::nullopt if none does.
  std::optional<DType> override_for(std::string_view module_path, std::string_view op) const;

  std::string to_string() const;                         ///< "fp16:f16:-m-d;head=f32;decoder.*=f32"
  static PrecisionPolicy from_string(std::string_view);  ///< inverse of to_string(); throws ArgumentError
  friend bool operator==(const PrecisionPolicy&, const PrecisionPolicy&) = default;
};

/// True if `text` matches `glob`, in which `*` matches any characters, including dots, and everything else is literal.
bool glob_match(std::string_view glob, std::string_view text);

/// The dtypes in which an op call reads and stores.
struct OpPrecision {
  /// Floating inputs that the policy may cast are cast to this dtype; std::nullopt if they are not cast
  std::optional<DType> read{};
  DType store{};      ///< dtype of the output
  bool tf32 = false;  ///< true if products of f32 may be computed in TF32
};

/// Derives the dtypes of an op call from the policy; no other function does. `inputs`: the dtypes of the floating
/// inputs that the policy may cast, in order (at least one). If one of them is f64, the op reads and stores f64. An
/// override to f32 excludes TF32.
OpPrecision compute_dtype(PrecisionClass precision, std::span<const DType> inputs, const PrecisionPolicy& policy,
                          std::string_view module_path, std::string_view op);

/// True if a linear layer rounds its operands to 8 bits: the policy asks for it and no override applies to the layer.
bool reads_fp8(const PrecisionPolicy& policy, std::string_view module_path, std::string_view op);

/// Returns this thread's policy; fp32 unless a PolicyScope is open.
const PrecisionPolicy& current_policy();

/// Installs a policy for the lifetime of the object (per thread).
class PolicyScope : ScopedValue<PrecisionPolicy> {
 public:
  explicit PolicyScope(PrecisionPolicy policy);
};

}  // namespace binade
