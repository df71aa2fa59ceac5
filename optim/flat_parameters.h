#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/kernels/optimizer.h"

namespace binade::optim {

/// A parameter that is passed to an optimizer.
struct NamedParameter {
  std::string name{};  ///< dotted path, "blocks.0.mlp.up.weight"
  Variable variable{};
  bool decays = true;  ///< true if weight decay applies to it
};

/// True if weight decay applies to the parameter by default: to matrices, filters and embedding tables, but not to
/// biases and the scales of norms, which have rank 1.
inline bool decays_by_rank(const Variable& variable) { return variable.shape().rank() >= 2; }

/// Returns all parameters of a model and its submodules that require a gradient. They are listed by
/// `named_parameters(model)`, which argument-dependent lookup finds in the model's namespace, because optim/ must not
/// include nn/.
template <class Model>
requires requires(Model& model) { named_parameters(model); }
std::vector<NamedParameter> parameters_of(Model& model) {
  std::vector<NamedParameter> found;
  for (auto& [name, parameter] : named_parameters(model))
    if (parameter->requires_grad()) found.push_back({name, *parameter, decays_by_rank(*parameter)});
  return found;
}

/// Moves parameters into flat storage: one buffer each for f32 values (masters), f32 gradients and 16-bit copies. Each
/// parameter is a slice of these buffers, aligned to at least 256 bytes, so that one kernel can process the whole
/// model. The variables remain valid: their value and gradient tensors become views of the buffers. A tied parameter
/// (one variable under two names) is stored once, under its first name.
///
/// slices() has the order of the parameters given to the constructor. In the buffers, parameters of the same name in
/// sibling modules are adjacent, at the position of the first of them: for example `attention.query.weight`,
/// `attention.key.weight` and `attention.value.weight`. If their sizes are multiples of the alignment, one product
/// reads them as one matrix (ops::Projections). The position of a slice does not affect the bits of results.
///
/// Under a policy without master weights, weights are stored in 16 bits: see store_weights_in().
class FlatParameters {
 public:
  struct Slice {
    std::string name{};
    Variable variable{};
    bool decays = true;
    std::int64_t begin = 0;  ///< position of its first element in a buffer of flat_size() elements
    std::int64_t count = 0;  ///< number of elements
    Tensor low{};            ///< 16-bit copy that the optimizer writes; undefined if adopt_low_copies() has found none
  };

  /// Throws ArgumentError if there are no parameters, if two names are equal or if a variable does not require a
  /// gradient, and DTypeError unless all are f32.
  explicit FlatParameters(const std::vector<NamedParameter>& parameters);

  const std::vector<Slice>& slices() const { return slices_; }
  const std::vector<FlatBlock>& blocks() const { return blocks_; }
  std::size_t size() const { return slices_.size(); }
  std::int64_t count() const { return count_; }          ///< number of trainable elements
  std::int64_t flat_size() const { return flat_size_; }  ///< elements of a flat buffer, padding included
  Device device() const { return gradients_.device(); }

  /// Returns a buffer of zeros with the layout of the slices, for moments or averages.
  Tensor allocate(DType dtype) const;
  /// Returns the part of such a buffer that belongs to parameter `slice`, as a view with the parameter's shape.
  Tensor view(const Tensor& flat, std::size_t slice) const;

  /// Gives every parameter the name that nn::assign_paths() gave its variable, such as "critic.conv1.weight" if its
  /// model has become a part of a larger one.
  void adopt_paths();

  /// Discards all gradients. The next backward pass overwrites their storage.
  void zero_grad();
  bool has_gradient(std::size_t slice) const { return slices_[slice].variable.state()->grad_defined; }
  /// Returns one pointer per parameter to its gradient, or null if backward has computed none. A gradient whose tensor
  /// was replaced by one outside the flat buffer is copied into its slice first.
  std::vector<const float*> gradients();

  /// Returns the storage of the gradient of `slice`, even if backward has not computed the gradient yet.
  Tensor gradient_of(std::size_t slice) const { return view(gradients_, slice); }

  /// Finds the 16-bit copies that ops have requested so far (Variable::State::low_copy), so that the optimizer writes
  /// them from now on. Copies in the dtype that was requested first are in one buffer; a copy in another dtype, for an
  /// override, has its own storage.
  void adopt_low_copies();
  /// True if the optimizer writes every 16-bit copy that forward reads, and all of these are up to date.
  bool low_copies_are_written() const;
  /// Called after values were written. Raises their version, so that outdated copies and saved tensors are detected. If
  /// `with_low_copies`, the 16-bit copies in Slice::low were written too and are marked as up to date.
  void values_written(bool with_low_copies);
  /// Returns a number that changes if a value is written by anything else: by load_state_dict(), or by the program.
  std::uint64_t other_writes() const { return versions_of_values() - own_writes_; }

  /// Stores parameters of rank >= 2 in `dtype` (f16, bf16, or f32 to undo it), rounded to nearest. Parameters of rank 1
  /// (biases, scales and shifts of norms) stay f32, as their ops require.
  void store_weights_in(DType dtype);

 private:
  /// Returns the sum of the versions of all values.
  std::uint64_t versions_of_values() const;
  /// Moves all values into new buffers: those of rank >= 2 in `weight_dtype`, the others in f32.
  void place_values(DType weight_dtype);

  /// Counts the optimizer in Variable::State::holders of its parameters.
  class Holding;

  std::vector<Slice> slices_;
  std::uint64_t own_writes_ = 0;  // by how much values_written() has raised versions_of_values()
  std::shared_ptr<const Holding> holding_;
  std::vector<std::size_t> placed_;  // indices into slices_, in the order of the buffers
  std::vector<FlatBlock> blocks_;    // of all slices, at most kFlatBlock elements each
  std::int64_t count_ = 0;
  std::int64_t flat_size_ = 0;
  Tensor values_;  // f32 values (masters)
  Tensor gradients_;
  Tensor weights_low_;  // values that are stored in 16 bits, without masters; undefined if there are none
};

/// Appends the blocks of another storage, whose slices get numbers from `first_slice` on.
void append_blocks(std::vector<FlatBlock>& blocks, std::span<const FlatBlock> more, std::size_t first_slice);

}  // namespace binade::optim
