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

/// What forward is told and what it leaves for backward. The tape keeps nothing but what is saved here.
class OpContext {
 public:
  DType store_dtype = DType::f32;  ///< what the policy wants the output stored in
  RandomStream rng;                ///< this call's numbers (dropout): the same again in recompute and replay
  bool grad_enabled = false;       ///< false: backward will not come, saving is a waste
  bool tf32 = false;  ///< f32 products, forward's and backward's, may be computed in TF32 where a GPU has it

  /// Keeps a tensor for backward; returns its position. A no-op returning -1 unless grad_enabled.
  int save(const Tensor& tensor);
  /// The same for input i, which forward reads as `tensor`; where its bits can be made again from what its maker keeps,
  /// only that is kept (docs/decisions/0036).
  int save_input(int i, const Tensor& tensor);
  /// What the tensor is that was given to save_input(): this of saved(position); kNone: saved(position) itself.
  Activation recomputed_by(int position) const;
  /// A kept tensor. Throws AutogradError naming the op and both versions when it was written in place since.
  const Tensor& saved(int position, const char* op) const;
  std::size_t saved_bytes() const;
  void release() { saved_.clear(); }

  std::uint32_t non_differentiable_outputs = 0;  ///< bit i: output i carries no gradient (batch statistics, indices)

  /// Set by apply: what each input looked like as the op read it.
  struct Input {
    Shape shape{};
    DType dtype = DType::f32;
    bool needs_grad = false;
    DType grad_dtype = DType::f32;  ///< f32 for parameters, the input's own dtype else
    Device device{};
  };
  std::vector<Input> inputs;

  /// Said by forward of an op whose backward begins with gz = gy activation'(z), z being what it saved at `saved`, of
  /// output 0's shape and dtype and dense: whoever makes gy may be asked to multiply by it
  /// (GradSink::activation_derivative).
  struct ActivationDerivative {
    Activation activation = Activation::kNone;
    int saved = -1;
    bool recomputable = false;  ///< output 0 is activation(z) to the bit, by KernelTable::activate
  } activation_derivative;

  /// Set by apply, while forward runs: inputs that save_input() need not keep.
  struct Recomputable {
    int input = -1;
    Activation activation = Activation::kNone;
    Tensor z{};
  };
  std::vector<Recomputable> recomputable;

 private:
  struct Saved {
    Tensor tensor{};
    std::uint64_t version{};
    Activation recomputed_by = Activation::kNone;
  };
  std::vector<Saved> saved_;
};

/// What backward writes into. One of destination(), add_to(), destination_over(), destination_with_derivative(), set()
/// and set_slice() is called for an input, once.
class GradSink {
 public:
  virtual ~GradSink() = default;
  /// Whether the gradient of input i is wanted at all.
  virtual bool needs(int i) const = 0;
  /// An uninitialized contiguous tensor with input i's shape and gradient dtype, to be overwritten whole. For a
  /// parameter's first contribution it *is* the parameter's gradient storage: no copy follows.
  virtual Tensor destination(int i) = 0;
  struct Sum {
    Tensor tensor{};
    bool holds = false;  ///< it holds what others gave: add to it. False: uninitialized, overwrite it whole
  };
  /// Instead of destination(), from an op whose kernel can add to what is there: often the parameter's gradient, or the
  /// gradient of an activation that other ops have given a part of, and then no temporary and no pass of additions is
  /// needed. What is added is rounded to the tensor's dtype before it is added, so that the bits are those of
  /// destination() (docs/decisions/0027-gradients-are-accumulated-in-place.md).
  virtual Sum add_to(int i) { return {destination(i), false}; }
  /// Instead of destination(), from an op that reads each element of saved tensor `saved` before it writes that of the
  /// gradient, and none after it: that tensor itself where nobody will read it any more (nobody else holds its storage,
  /// and no second backward comes), dense and of the gradient's shape and dtype. saved() throws from then on: call it
  /// before.
  virtual Tensor destination_over(int i, int saved) {
    static_cast<void>(saved);
    return destination(i);
  }
  /// The activation derivative that the op which made input i multiplies its gradient by first
  /// (OpContext::activation_derivative), where this op alone gives that gradient and may multiply it itself;
  /// Activation::kNone: nothing.
  struct ActivationDerivative {
    Activation activation = Activation::kNone;
    Tensor z{};
  };
  virtual ActivationDerivative activation_derivative(int i) const {
    static_cast<void>(i);
    return {};
  }
  /// Instead of destination(), from an op that has been given an activation derivative(i) and writes the gradient
  /// multiplied by it.
  virtual Tensor destination_with_derivative(int i) { return destination(i); }
  /// Whether gy[0] has been multiplied by the activation derivative that the op's own forward told of.
  virtual bool derivative_applied() const { return false; }
  /// Hands over a tensor that already is the gradient of input i (an alias of gy, a reshape of it).
  virtual void set(int i, Tensor gradient) = 0;
  /// The same for channels of gy that no other input is given: the gradients that others give are added into them.
  virtual void set_slice(int i, Tensor gradient) { set(i, std::move(gradient)); }
};

/// What apply() checks before every forward: as many inputs as info.inputs names, none undefined but the optional ones,
/// all on one device. Throws ArgumentError or DeviceError.
void check_inputs(const OpInfo& info, std::span<const Tensor> in);

/// The shape of an op unit. A user's op is one such struct and is recorded, cast and policed like Binade's own:
///
///   struct Scale {
///     struct Params { float factor = 1; };
///     static constexpr OpInfo info{.name = "scale", .precision = PrecisionClass::kAsIs};
///     static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
///     static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
///   };
///
/// forward finds its inputs counted, defined and on one device (check_inputs). It checks shapes and dtypes first
/// (ShapeError, DTypeError, with `where(info.name)`), allocates its outputs in ctx.store_dtype, and calls the kernels
/// of their device (core/kernels/table.h). In backward gy[i] is undefined (`!defined()`) when nothing depended on
/// output i; at least one is defined. gy arrives in the output's dtype, and contiguous unless info.slices.
template <class Op>
concept OpUnit = requires(OpContext& ctx, const OpContext& kept, std::span<const Tensor> tensors, GradSink& sink,
                          const typename Op::Params& params) {
  { Op::info } -> std::convertible_to<const OpInfo&>;
  { Op::forward(ctx, tensors, params) } -> std::same_as<Tensors>;
  Op::backward(kept, tensors, sink, params);
};

}  // namespace binade
