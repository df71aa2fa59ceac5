#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/dtype.h"

namespace binade {

/// What a precision policy may do with an op. Stated beside the op's maths, never looked up by name.
enum class PrecisionClass {
  kLow,     ///< reads and stores the policy's low dtype, accumulates in fp32: matmul, linear, convolutions, attention
  kFull,    ///< reads what comes, computes and stores fp32: losses, softmax, exp/log/pow, big reductions
  kWidest,  ///< reads and stores the widest input dtype: add, mul, concat, where
  kAsIs,    ///< float inside, stores the dtype of its first input: ReLU, GELU, norms, dropout, pooling, reshape
};

/// Which dtypes a run computes in. A plain value: printable, comparable, saved in checkpoints. `amp/policy.h` has the
/// presets; compute_dtype(), below, turns it into dtypes for `autograd/apply.cpp`.
struct PrecisionPolicy {
  struct Override {
    std::string
        glob{};  ///< matches a module path, an op, or, with a slash, both ("PATH/op"); `*` matches any characters
    DType dtype = DType::f32;
    bool matches(std::string_view module_path, std::string_view op) const;
    friend bool operator==(const Override&, const Override&) = default;
  };

  std::string name = "fp32";
  DType low = DType::f32;             ///< what kLow ops read and store
  bool tf32 = false;                  ///< f32 products may use TF32 Tensor Cores of a GPU; a CPU computes f32
  bool master_weights = true;         ///< fp32 masters beside the low copy; false: weights live in `low`
  bool stochastic_rounding = false;   ///< the optimizer rounds weights stochastically (needs no masters)
  bool dynamic_loss_scale = false;    ///< the preset's default for the loss scale
  bool fp8_linear = false;            ///< linear layers round their operands to 8 bits (core/ops/fp8.h)
  std::vector<Override> overrides{};  ///< the last match wins

  /// A copy with one more override of module path or op name.
  PrecisionPolicy with(std::string glob, DType dtype) const;
  /// The last override that matches.
  std::optional<DType> override_for(std::string_view module_path, std::string_view op) const;

  std::string to_string() const;                         ///< "fp16 [head=f32, decoder.*=f32]"
  static PrecisionPolicy from_string(std::string_view);  ///< inverse of to_string; throws ArgumentError
  friend bool operator==(const PrecisionPolicy&, const PrecisionPolicy&) = default;
};

/// Shell-like match where `*` stands for any characters, dots too; everything else is literal.
bool glob_match(std::string_view glob, std::string_view text);

/// How one op call reads and stores.
struct OpPrecision {
  std::optional<DType> read{};  ///< floating inputs under policy are cast to this; nothing: no cast
  DType store{};                ///< dtype of the output
  bool tf32 = false;            ///< products of f32 may be computed in TF32
};

/// The only function that turns a policy into a dtype. `inputs` are the dtypes of the floating inputs under policy, in
/// order (at least one). Any f64 input makes the call f64 throughout (checks). An override to f32 means f32, not TF32.
OpPrecision compute_dtype(PrecisionClass precision, std::span<const DType> inputs, const PrecisionPolicy& policy,
                          std::string_view module_path, std::string_view op);

/// Whether a linear layer rounds its operands to 8 bits: a policy's wish, where no override says what this one reads.
bool reads_fp8(const PrecisionPolicy& policy, std::string_view module_path, std::string_view op);

/// This thread's policy; fp32 unless a scope is open.
const PrecisionPolicy& current_policy();

/// Installs a policy for the lifetime of the object (per thread).
class PolicyScope {
 public:
  explicit PolicyScope(PrecisionPolicy policy);
  ~PolicyScope();
  PolicyScope(const PolicyScope&) = delete;
  PolicyScope& operator=(const PolicyScope&) = delete;

 private:
  PrecisionPolicy previous_;
};

}  // namespace binade
