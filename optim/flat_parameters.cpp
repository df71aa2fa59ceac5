#include "binade/optim/flat_parameters.h"

#include <algorithm>
#include <set>

#include "binade/autograd/inference_mode.h"
#include "binade/autograd/low_buffer.h"
#include "binade/core/backend.h"
#include "binade/core/error.h"

namespace binade::optim {
namespace {

constexpr std::int64_t kAlignment = 128;  // elements: 256 bytes of a 16-bit buffer, 512 of a 32-bit one

std::int64_t padded(std::int64_t count) { return (count + kAlignment - 1) / kAlignment * kAlignment; }

void check_parameter(const NamedParameter& parameter) {
  check<ArgumentError>(parameter.variable.requires_grad() && parameter.variable.is_leaf(),
                       "optimizer: parameter '{}' wants no gradient; leave it out of the list", parameter.name);
  check<DTypeError>(
      parameter.variable.dtype() == DType::f32,
      "optimizer: wanted parameter '{}' in f32, got {}; make it f32, a precision policy decides what ops read",
      parameter.name, name_of(parameter.variable.dtype()));
}

/// Returns the name without its last module, "blocks.0.attention weight" for "blocks.0.attention.query.weight". It is
/// the same for the parameters of sibling modules, which form a family.
std::string family_of(const std::string& name) {
  const std::size_t last = name.rfind('.');
  if (last == name.npos) return name;
  const std::size_t before = last == 0 ? name.npos : name.rfind('.', last - 1);
  return name.substr(0, before == name.npos ? 0 : before) + ' ' + name.substr(last + 1);
}

/// Returns the indices of the slices in the order in which they are placed in memory: all members of a family follow
/// its first member, in the order of `slices`.
std::vector<std::size_t> placing_of(const std::vector<FlatParameters::Slice>& slices) {
  std::unordered_map<std::string, std::size_t> first;
  std::vector<std::pair<std::size_t, std::size_t>> keys;
  for (std::size_t i = 0; i < slices.size(); ++i)
    keys.emplace_back(first.try_emplace(family_of(slices[i].name), i).first->second, i);
  std::ranges::sort(keys);
  std::vector<std::size_t> placed;
  for (const auto& [family, slice] : keys) placed.push_back(slice);
  return placed;
}

}  // namespace

class FlatParameters::Holding : NonCopyable {
 public:
  explicit Holding(const std::vector<Slice>& slices) {
    for (const Slice& slice : slices) held_.push_back(slice.variable.state());
    for (const auto& state : held_) ++state->holders;
  }
  ~Holding() {
    for (const auto& state : held_) --state->holders;
  }

 private:
  std::vector<std::shared_ptr<Variable::State>> held_;
};

FlatParameters::FlatParameters(const std::vector<NamedParameter>& parameters) {
  InferenceMode::refuse("an optimizer", "make it outside");
  std::set<const void*> seen;
  std::set<std::string> names;
  for (const NamedParameter& parameter : parameters) {
    check_parameter(parameter);
    if (!seen.insert(parameter.variable.state().get()).second) continue;  // a tied parameter is stored once
    check<ArgumentError>(names.insert(parameter.name).second,
                         "optimizer: two parameters are called '{}'; give each its own name, in visit() or in the list",
                         parameter.name);
    const std::int64_t count = parameter.variable.value().numel();
    slices_.push_back({parameter.name, parameter.variable, parameter.decays, 0, count, {}});
    const auto slice = static_cast<std::int32_t>(slices_.size() - 1);
    for (std::int64_t begin = 0; begin < count; begin += kFlatBlock)
      blocks_.push_back({slice, static_cast<std::int32_t>(std::min(kFlatBlock, count - begin)), begin});
    count_ += count;
  }
  check<ArgumentError>(
      !slices_.empty(),
      "optimizer: got no parameters; pass a model whose visit() names some that are not frozen, or a list of "
      "named variables");
  placed_ = placing_of(slices_);
  for (const std::size_t i : placed_) {
    slices_[i].begin = flat_size_;
    flat_size_ += padded(slices_[i].count);
  }
  gradients_ = allocate(DType::f32);
  place_values(DType::f32);
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    Variable::State& state = *slices_[i].variable.state();
    Tensor gradient = view(gradients_, i);
    if (state.grad_defined) gradient.copy_from(state.grad);
    state.grad = gradient;
    if (state.name.empty()) state.name = slices_[i].name;
  }
  holding_ = std::make_shared<const Holding>(slices_);
}

Tensor FlatParameters::allocate(DType dtype) const {
  return Tensor::zeros(Shape{flat_size_}, dtype, slices_.front().variable.device());
}

Tensor FlatParameters::view(const Tensor& flat, std::size_t slice) const {
  return flat.view_at(slices_[slice].begin, slices_[slice].variable.shape());
}

void FlatParameters::place_values(DType weight_dtype) {
  const auto dtype_of = [&](const Slice& slice) {
    return slice.variable.shape().rank() >= 2 ? weight_dtype : DType::f32;
  };
  std::int64_t sizes[2] = {0, 0};  // elements of the f32 buffer and of the 16-bit buffer
  for (const Slice& slice : slices_) sizes[is_half(dtype_of(slice))] += padded(slice.count);
  const Device device = slices_.front().variable.device();
  Tensor buffers[2] = {Tensor::zeros(Shape{sizes[0]}, DType::f32, device), Tensor()};
  if (is_half(weight_dtype)) buffers[1] = Tensor::zeros(Shape{sizes[1]}, weight_dtype, device);
  const auto low = std::make_shared<LowBuffer>(flat_size_, device);
  std::int64_t next[2] = {0, 0};
  for (const std::size_t i : placed_) {
    Slice& slice = slices_[i];
    Variable::State& state = *slice.variable.state();
    const bool half = is_half(dtype_of(slice));
    Tensor value = buffers[half].view_at(next[half], state.value.shape());
    next[half] += padded(slice.count);
    value.copy_from(state.value);
    state.value = value;
    // The old 16-bit copies are dropped. The next read makes new ones in the new `low` buffer.
    state.forget_copies();
    slice.low = Tensor();
    state.low_place = half ? LowPlace{} : LowPlace{low, slice.begin};
  }
  values_ = buffers[0];
  weights_low_ = buffers[1];
  backend_of(device)
      .trim();  // returns the old buffers to the system, because blocks of their sizes are not requested again
}

void FlatParameters::adopt_paths() {
  for (Slice& slice : slices_)
    if (const std::string& path = slice.variable.state()->name; !path.empty()) slice.name = path;
}

void FlatParameters::zero_grad() {
  for (Slice& slice : slices_) slice.variable.zero_grad();
}

std::vector<const float*> FlatParameters::gradients() {
  std::vector<const float*> pointers(slices_.size(), nullptr);
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    Variable::State& state = *slices_[i].variable.state();
    if (!state.grad_defined) continue;
    if (!state.grad.shares_storage_with(gradients_)) {
      Tensor gradient = view(gradients_, i);
      gradient.copy_from(state.grad);
      state.grad = gradient;
    }
    pointers[i] = state.grad.data<float>();
  }
  return pointers;
}

void FlatParameters::adopt_low_copies() {
  for (Slice& slice : slices_) {
    Variable::State& state = *slice.variable.state();
    state.forget_unread_copies();
    slice.low = Tensor();
    if (!state.low.defined() || !is_half(state.low.dtype())) continue;
    // If the value itself is 16-bit, a copy in the other 16-bit dtype must be converted from the value, which may be
    // rounded stochastically. The optimizer, which would round its f32 result, must not write such a copy.
    if (!is_half(state.value.dtype())) slice.low = state.low;
  }
}

bool FlatParameters::low_copies_are_written() const {
  return std::ranges::all_of(slices_, [](const Slice& slice) {
    const Variable::State& state = *slice.variable.state();
    return !state.low.defined() || (slice.low.defined() && state.low.shares_storage_with(slice.low) &&
                                    state.other_copies.empty() && state.low_version == state.value.version());
  });
}

std::uint64_t FlatParameters::versions_of_values() const {
  std::uint64_t sum = 0;
  for (const Slice& slice : slices_) sum += slice.variable.value().version();
  return sum;
}

void FlatParameters::values_written(bool with_low_copies) {
  const std::uint64_t before = versions_of_values();
  values_.bump_version();
  if (weights_low_.defined()) weights_low_.bump_version();
  // If a later optimizer also holds a parameter, the value is in that optimizer's buffers.
  for (Slice& slice : slices_) {
    Tensor& value = slice.variable.state()->value;
    const bool is_own = value.shares_storage_with(values_) ||
                        (weights_low_.defined() && value.shares_storage_with(weights_low_));
    if (!is_own) value.bump_version();
  }
  own_writes_ += versions_of_values() - before;
  for (Slice& slice : slices_) {
    Variable::State& state = *slice.variable.state();
    state.copies_written();
    if (!with_low_copies || !slice.low.defined()) continue;
    slice.low.bump_version();
    if (state.low.shares_storage_with(slice.low)) state.low_version = state.value.version();
  }
}

void FlatParameters::store_weights_in(DType dtype) {
  check<DTypeError>(dtype == DType::f32 || is_half(dtype),
                    "optimizer: weights can be stored in f32, f16 or bf16, got {}", name_of(dtype));
  const DType now = weights_low_.defined() ? weights_low_.dtype() : DType::f32;
  if (now != dtype) place_values(dtype);
}

void append_blocks(std::vector<FlatBlock>& blocks, std::span<const FlatBlock> more, std::size_t first_slice) {
  for (FlatBlock block : more) {
    block.slice += static_cast<std::int32_t>(first_slice);
    blocks.push_back(block);
  }
}

}  // namespace binade::optim
