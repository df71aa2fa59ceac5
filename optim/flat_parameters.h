#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/kernels/optimizer.h"

namespace binade::optim {

/// A parameter as an optimizer sees it.
struct NamedParameter {
  std::string name{};  ///< dotted path, "blocks.0.mlp.up.weight"
  Variable variable{};
  bool decays = true;  ///< whether weight decay applies
};

/// Which parameters decay by default: matrices, filters and tables; not biases and norms.
inline bool decays_by_rank(const Variable& variable) { return variable.shape().rank() >= 2; }

/// All parameters below a model, found through its `named_parameters` (nn's by argument-dependent lookup, so that this
/// floor need not know modules).
template <class Model>
requires requires(Model& model) { named_parameters(model); }
std::vector<NamedParameter> parameters_of(Model& model) {
  std::vector<NamedParameter> found;
  for (auto& [name, parameter] : named_parameters(model))
    found.push_back({name, *parameter, decays_by_rank(*parameter)});
  return found;
}

/// Parameters moved into flat storage: f32 values (masters), f32 gradients and 16-bit copies each lie in one buffer,
/// every slice aligned to 256 bytes, so that a pass over the model is one kernel. The variables keep working: their
/// value and gradient tensors become views. A tied parameter (one variable under two names) is stored once, under its
/// first name.
///
/// Slices are listed in the order in which they are given, and so are moments in a checkpoint. In the buffers,
/// parameters of one name in sibling modules lie side by side, where the first of them is: `attention.query.weight`,
/// `attention.key.weight` and `attention.value.weight`, which one product then reads as one matrix (ops::Projections)
/// if their sizes are multiples of the alignment. Where a slice lies changes no bit.
///
/// Weights of a policy without masters live in 16 bits: see store_weights_in().
class FlatParameters {
 public:
  struct Slice {
    std::string name{};
    Variable variable{};
    bool decays = true;
    std::int64_t begin = 0;  ///< of the slice in gradients and in every f32 buffer of flat_size() elements
    std::int64_t count = 0;
    Tensor low{};  ///< this slice's 16-bit copy; undefined while no op has read one
  };

  /// Throws ArgumentError when there are none, when two names are equal or a variable wants no gradient; DTypeError
  /// unless all are f32.
  explicit FlatParameters(const std::vector<NamedParameter>& parameters);

  const std::vector<Slice>& slices() const { return slices_; }
  const std::vector<FlatBlock>& blocks() const { return blocks_; }
  std::size_t size() const { return slices_.size(); }
  std::int64_t count() const { return count_; }          ///< trainable numbers
  std::int64_t flat_size() const { return flat_size_; }  ///< elements of a flat buffer, padding included
  Device device() const { return gradients_.device(); }

  /// A zeroed buffer with the slices' layout (moments, averages), and slice i of such a buffer as a tensor.
  Tensor allocate(DType dtype) const;
  Tensor view(const Tensor& flat, std::size_t slice) const;

  /// Forgets all gradients.
  void zero_grad();
  bool has_gradient(std::size_t slice) const { return slices_[slice].variable.state()->grad_defined; }
  /// Pointers to the gradients of this pass, null where there is none. A gradient that somebody put elsewhere is moved
  /// into its slice first.
  std::vector<const float*> gradients();

  /// Where the gradient of a slice lies, or will.
  Tensor gradient_of(std::size_t slice) const { return view(gradients_, slice); }

  /// The 16-bit copies that forward has asked for since (Variable::State::low_copy): from now on the optimizer writes
  /// them. Those of one dtype, the first asked for, were made side by side; others, of overrides, lie by themselves.
  void adopt_low_copies();
  /// Whether every copy that forward reads is one that the optimizer writes, and is current.
  bool low_copies_are_written() const;
  /// Called after values were written: raises the version, so that stale copies and saved tensors are noticed, and
  /// marks the 16-bit copies that were written with them as current.
  void values_written(bool with_low_copies);

  /// Moves parameters of rank >= 2 into `dtype` (f16 or bf16; f32 brings them back), rounded to nearest. Biases, norms'
  /// scales and shifts stay f32, as the contracts of their ops want.
  void store_weights_in(DType dtype);

 private:
  void place_values(DType weights);

  std::vector<Slice> slices_;
  std::vector<std::size_t> placed_;  // slices in the order in which they lie
  std::vector<FlatBlock> blocks_;
  std::int64_t count_ = 0;
  std::int64_t flat_size_ = 0;
  Tensor values_;  // f32 values, masters
  Tensor gradients_;
  Tensor weights_low_;  // values without masters
};

}  // namespace binade::optim
