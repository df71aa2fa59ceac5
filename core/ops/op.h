#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "binade/core/activation.h"
#include "binade/core/ops/op_info.h"
#include "binade/core/random.h"
#include "binade/core/tensor.h"

namespace binade {

using Tensors = std::vector<Tensor>;

/// Passes information to an op's forward, and keeps the tensors that its backward needs.
class OpContext {
 public:
  DType store_dtype = DType::f32;  ///< dtype in which forward must store its outputs, from the precision policy
  RandomStream rng;                ///< random numbers of this call (dropout), the same in recompute and replay
  bool grad_enabled = false;       ///< true if a backward may follow; otherwise nothing is saved
  bool tf32 = false;               ///< true if products of f32 in forward and backward may be computed in TF32 on a GPU

  /// Saves a tensor for backward and returns its position. Does nothing and returns -1 unless grad_enabled.
  int save(const Tensor& tensor);
  /// Saves input i, which forward reads as `tensor`. If its bits can be recomputed from a tensor that its producer
  /// saved, saves only a reference to that tensor (docs/decisions/0036).
  int save_input(int i, const Tensor& tensor);
  /// Returns the activation that turns saved(position) into the tensor given to save_input(), or kNone if
  /// saved(position) is that tensor.
  Activation recomputed_by(int position) const;
  /// Returns a saved tensor. Throws AutogradError with the op and both versions if the tensor was written in place
  /// after save().
  const Tensor& saved(int position, const char* op) const;
  std::size_t saved_bytes() const;  ///< bytes of all saved tensors
  void release() { saved_.clear(); }

  /// Set by forward. Bit i: output i has no gradient (batch statistics, indices)
  std::uint32_t non_differentiable_outputs = 0;

  /// Set by apply(): properties of the inputs as the op reads them.
  struct Input {
    Shape shape{};
    DType dtype = DType::f32;
    bool needs_grad = false;
    DType grad_dtype = DType::f32;  ///< f32 for parameters and f32 weights computed from them, else `dtype`
    Device device{};
  };
  std::vector<Input> inputs;

  /// Set by the forward of an op whose backward begins with gz = gy activation'(z), where z is the tensor saved at
  /// position `saved`, dense and with output 0's shape and dtype. The op that computes gy may then multiply by the
  /// derivative (GradSink::activation_derivative).
  struct ActivationDerivative {
    Activation activation = Activation::kNone;
    int saved = -1;
    bool recomputable = false;  ///< true if KernelTable::activate computes output 0 from z with the same bits
  } activation_derivative;

  /// Set by apply() during forward: an input that save_input() need not save, because it is activation(z) and its
  /// producer saved z.
  struct Recomputable {
    int input = -1;  ///< index of the input
    Activation activation = Activation::kNone;
    Tensor z{};
  };
  std::vector<Recomputable> recomputable;

 private:
  /// A tensor that forward saved for backward.
  struct Saved {
    Tensor tensor{};
    std::uint64_t version{};  // version of `tensor` when it was saved
    Activation recomputed_by = Activation::kNone;
  };
  std::vector<Saved> saved_;
};

/// Receives the gradients that backward computes. Backward calls exactly one of destination(), add_to(),
/// destination_over(), destination_with_derivative(), set() and set_slice() for each input whose gradient is needed.
class GradSink {
 public:
  virtual ~GradSink() = default;
  /// True if the gradient of input i is needed.
  virtual bool needs(int i) const = 0;
  /// Returns an uninitialized contiguous tensor with input i's shape and gradient dtype, to be overwritten completely.
  /// For a parameter's first contribution it is the parameter's gradient storage, so that no copy follows.
  virtual Tensor destination(int i) = 0;
  /// Result of add_to(): the tensor in which an op stores a gradient.
  struct Sum {
    Tensor tensor{};
    bool holds = false;  ///< true: add to its values; false: uninitialized, overwrite it completely
  };
  /// Used instead of destination() if the kernel can add to existing values. Often returns the existing gradient of a
  /// parameter, or of an activation to which other ops have contributed, so that neither a temporary tensor nor a
  /// separate addition is needed. The kernel must round its contribution to the tensor's dtype before it adds it, so
  /// that the bits are the same as with destination() (docs/decisions/0027-gradients-are-accumulated-in-place.md).
  virtual Sum add_to(int i) { return {destination(i), false}; }
  /// Used instead of destination() if the gradient may overwrite the saved tensor at position `saved`, because the op
  /// reads each of its elements before it writes that element of the gradient, and not afterwards. Returns the saved
  /// tensor if nothing else will read it (its storage has no other owner, and no second backward follows) and it is
  /// dense with the gradient's shape and dtype; otherwise a new tensor. Call OpContext::saved(saved) before, because it
  /// throws afterwards.
  virtual Tensor destination_over(int i, int saved) {
    static_cast<void>(saved);
    return destination(i);
  }
  /// The activation derivative that this op may multiply the gradient of input i by, so that the op that produced the
  /// input need not multiply by it in its backward (OpContext::ActivationDerivative). It is Activation::kNone if the
  /// producer has none, or if other ops contribute to the gradient.
  struct ActivationDerivative {
    Activation activation = Activation::kNone;
    Tensor z{};
  };
  virtual ActivationDerivative activation_derivative(int i) const {
    static_cast<void>(i);
    return {};
  }
  /// Used instead of destination() if the op multiplies the gradient by activation_derivative(i).
  virtual Tensor destination_with_derivative(int i) { return destination(i); }
  /// True if gy[0] has already been multiplied by the activation derivative that this op's forward set.
  virtual bool derivative_applied() const { return false; }
  /// Passes an existing tensor as the gradient of input i, such as gy itself or a view of it.
  virtual void set(int i, Tensor gradient) = 0;
  /// Like set(), for a slice of gy that the op passes to no other input, so that contributions of other ops may be
  /// added into it.
  virtual void set_slice(int i, Tensor gradient) { set(i, std::move(gradient)); }
};

/// Checks the inputs of a forward: their number as in info.inputs, all defined except the optional ones, all on one
/// device. Throws ArgumentError or DeviceError.
void check_inputs(const OpInfo& info, std::span<const Tensor> in);

/// The interface of an op unit. A user's op is such a struct, and is recorded and cast like Binade's own:
///
///   struct Scale {
///     struct Params { float factor = 1; };
///     static constexpr OpInfo info{.name = "scale", .precision = PrecisionClass::kAsIs};
///     static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
///     static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
///   };
///
/// apply() calls check_inputs() before forward. forward checks shapes and dtypes (ShapeError, DTypeError, with
/// `where(info.name)`), allocates its outputs in ctx.store_dtype, and calls the kernels of their device
/// (core/kernels/table.h). In backward, gy[i] is undefined if nothing depends on output i; at least one is defined. gy
/// has the output's dtype and is contiguous unless info.slices.
template <class Op>
concept OpUnit = requires(OpContext& ctx, const OpContext& kept, std::span<const Tensor> tensors, GradSink& sink,
                          const typename Op::Params& params) {
  { Op::info } -> std::convertible_to<const OpInfo&>;
  { Op::forward(ctx, tensors, params) } -> std::same_as<Tensors>;
  Op::backward(kept, tensors, sink, params);
};

}  // namespace binade
