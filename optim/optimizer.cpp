#include "binade/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/core/state_counts.h"
#include "binade/core/step_context.h"

namespace binade::optim {
namespace {

std::vector<NamedParameter> with_filter(std::vector<NamedParameter> parameters, const DecayFilter& decays) {
  if (decays)
    for (NamedParameter& p : parameters) p.decays = decays(p.name, p.variable);
  return parameters;
}

/// Bounds trust that moments came from this rule's own updates. After loaded ones, dry passes decide for so long.
constexpr std::int64_t kDistrust = 100;

}  // namespace

Optimizer::Optimizer(std::vector<NamedParameter> parameters, Settings settings)
    : kind_(std::move(settings.kind)),
      rule_(settings.rule),
      lr_(settings.lr),
      moment_dtype_(settings.moment_dtype),
      parameters_(with_filter(std::move(parameters), settings.decays)),
      slice_updates_(parameters_.size(), 0) {
  detail::check_option(kind_, "lr", lr_, 0, 1e6);
  check<DTypeError>(moment_dtype_ == DType::f32 || is_half(moment_dtype_),
                    "{}: wanted moments in f32, f16 or bf16, got {}", kind_, name_of(moment_dtype_));
  for (int i = 0; i < settings.moments; ++i) moments_.push_back(parameters_.allocate(moment_dtype_));
}

void Optimizer::store_weights_in(DType dtype, bool stochastic) {
  parameters_.store_weights_in(dtype);
  stochastic_ = stochastic;
  known_.clear();
}

double Optimizer::value_limit(std::size_t slice) const {
  const FlatParameters::Slice& s = parameters_.slices()[slice];
  const double held = range_of(s.variable.dtype()).largest;
  return s.low.defined() ? std::min(held, range_of(s.low.dtype()).largest) : held;
}

double Optimizer::moment_limit() const { return range_of(moment_dtype_).largest; }

/// Within that share of what their dtypes hold.
bool Optimizer::within(const Magnitudes& m, std::size_t slice, double share) const {
  const double moments = share * moment_limit();
  return m.value <= share * value_limit(slice) && m.moment1 <= moments && m.moment2 <= moments;
}

std::vector<UpdateSlice> Optimizer::update_slices(const StepInput& input, std::span<const float* const> gradients,
                                                  std::int64_t ahead) const {
  check<ArgumentError>(std::isfinite(input.lr) && input.lr >= 0, "{}: wanted a finite learning rate >= 0, got {}",
                       kind_, input.lr);
  std::vector<UpdateSlice> slices(parameters_.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const FlatParameters::Slice& parameter = parameters_.slices()[i];
    Variable::State& state = *parameter.variable.state();
    UpdateSlice& slice = slices[i];
    slice.gradient = gradients[i];
    slice.value = state.value.mutable_raw();
    slice.value_dtype = state.value.dtype();
    if (parameter.low.defined()) {
      Tensor low = parameter.low;
      slice.low = low.mutable_raw();
      slice.low_dtype = low.dtype();
    }
    slice.moment_dtype = moment_dtype_;
    if (!moments_.empty()) slice.moment1 = parameters_.view(moments_[0], i).mutable_raw();
    if (moments_.size() > 1) slice.moment2 = parameters_.view(moments_[1], i).mutable_raw();
    slice.gradient_factor = static_cast<float>(input.inverse_scale * input.clip_factor);
    slice.clip_value = static_cast<float>(input.clip_value);
    slice.first = slice_updates_[i] + ahead == 0;
    fill(slice, parameter.decays, slice_updates_[i] + ahead + 1, input.lr);
  }
  return slices;
}

UpdateArguments Optimizer::update_arguments() const {
  UpdateArguments arguments{.rule = rule_, .blocks = parameters_.blocks()};
  arguments.stochastic = stochastic_;
  arguments.rounding = {step_context().seed, RngPurpose::kRounding, static_cast<std::uint64_t>(updates_ + 1), 0, 0};
  return arguments;
}

Optimizer::Pass Optimizer::prepared(const StepInput& input) {
  const std::vector<const float*> gradients = parameters_.gradients();
  parameters_.adopt_low_copies();
  Pass pass{.slices = update_slices(input, gradients)};
  pass.extremes.resize(parameters_.blocks().size());
  pass.largest.resize(pass.slices.size());
  pass.magnitudes.resize(pass.slices.size());
  for (const float* gradient : gradients) pass.updated.push_back(gradient != nullptr);
  return pass;
}

void Optimizer::run(Pass& pass, bool write) {
  const std::vector<FlatBlock>& blocks = parameters_.blocks();
  UpdateArguments arguments = update_arguments();
  arguments.slices = pass.slices;
  arguments.extremes = pass.extremes;
  arguments.write = write;
  kernels(parameters_.device()).update(arguments);

  for (std::size_t b = 0; b < blocks.size(); ++b) {
    BlockExtremes& slice = pass.largest[static_cast<std::size_t>(blocks[b].slice)];
    slice.value = std::max(slice.value, pass.extremes[b].value);
    slice.moment1 = std::max(slice.moment1, pass.extremes[b].moment1);
    slice.moment2 = std::max(slice.moment2, pass.extremes[b].moment2);
  }
  for (std::size_t i = 0; i < pass.slices.size(); ++i) {
    pass.magnitudes[i] = magnitudes_of(pass.largest[i]);
    if (!pass.updated[i] && !known_.empty()) pass.magnitudes[i] = known_[i];
  }
}

Optimizer::Magnitudes Optimizer::magnitudes_of(const BlockExtremes& extremes) {
  return {magnitude_of(extremes.value), magnitude_of(extremes.moment1), magnitude_of(extremes.moment2)};
}

void Optimizer::step(const StepInput& input) {
  if (input.commit) write(prepared(input));
}

void Optimizer::step_together(std::span<Optimizer* const> optimizers, std::span<const StepInput> inputs) {
  check<ArgumentError>(optimizers.size() == inputs.size(), "optimizers: wanted an input for each of {}, got {}",
                       optimizers.size(), inputs.size());
  std::vector<std::pair<Optimizer*, Pass>> passes;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].commit) passes.emplace_back(optimizers[i], optimizers[i]->prepared(inputs[i]));
  for (auto& [optimizer, pass] : passes) optimizer->write(std::move(pass));
}

void Optimizer::write(Pass pass) {
  run(pass, true);
  updated_ = std::move(pass.updated);
  count_update(std::move(pass.magnitudes));
}

/// The update that has just been written, of the parameters in updated_.
void Optimizer::count_update(std::vector<Magnitudes> magnitudes) {
  // Parameters without a gradient keep what was known of them; with nothing known, the next proof is a dry pass.
  const bool all_known = !known_.empty() || std::ranges::find(updated_, false) == updated_.end();
  known_ = all_known ? std::move(magnitudes) : std::vector<Magnitudes>{};
  for (std::size_t i = 0; i < updated_.size(); ++i) slice_updates_[i] += updated_[i] ? 1 : 0;
  ++updates_;
  parameters_.values_written(true);
}

bool Optimizer::bound_speaks() const {
  return !known_.empty() && moment_dtype_ == DType::f32 && updates_ >= distrust_until_;
}

Optimizer::Magnitudes Optimizer::bound_after(const Magnitudes& before, std::size_t slice, double gradient,
                                             const StepInput& input) const {
  if (input.clip_value > 0) gradient = std::min(gradient, input.clip_value);
  Magnitudes after = bound(before, gradient, parameters_.slices()[slice].decays, input.lr);
  // A margin for the roundings of float and of the 16-bit copy.
  for (double* x : {&after.value, &after.moment1, &after.moment2}) *x *= 1.001;
  return after;
}

UpdateProof Optimizer::prove_finite(const StepInput& input, const GradientScan& scan) {
  const auto fails = [&](const std::vector<Magnitudes>& after) {
    for (std::size_t i = 0; i < after.size(); ++i)
      if (parameters_.has_gradient(i) && !within(after[i], i)) return i;
    return after.size();
  };
  if (bound_speaks()) {
    parameters_.adopt_low_copies();
    std::vector<Magnitudes> after(parameters_.size());
    for (std::size_t i = 0; i < after.size(); ++i)
      after[i] = bound_after(known_[i], i, magnitude_of(scan.words[i]) * input.inverse_scale * input.clip_factor,
                             input);
    if (fails(after) == after.size()) return {.finite = true, .by_bound = true};
  }
  Pass pass = prepared(input);
  run(pass, false);
  const std::vector<Magnitudes>& after = pass.magnitudes;
  const std::size_t i = fails(after);
  if (i == after.size()) return {};
  const bool by_value = !(after[i].value <= value_limit(i));
  const double largest = by_value ? after[i].value : std::max(after[i].moment1, after[i].moment2);
  return {false, false, parameters_.slices()[i].name, largest, by_value ? value_limit(i) : moment_limit()};
}

// ---- steps that a device decides ----------------------------------------------------------------

bool Optimizer::can_leave_to_device() const {
  return bound_speaks() && updated_.size() == parameters_.size() && parameters_.low_copies_are_written();
}

/// The bound rises with the gradient: a power of two is found by halving the range of exponents.
double Optimizer::gradient_limit(std::size_t slice, const StepInput& input, double share) const {
  const auto fits = [&](double gradient) {
    return within(bound_after(known_[slice], slice, gradient, input), slice, share);
  };
  if (!fits(0)) return -1;
  int low = -150, high = 128;
  if (!fits(std::ldexp(1.0, low))) return 0;
  if (fits(std::ldexp(1.0, high))) return std::ldexp(1.0, high);  // every float
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (fits(std::ldexp(1.0, middle)) ? low : high) = middle;
  }
  return std::ldexp(1.0, low);
}

std::vector<UpdateSlice> Optimizer::device_slices(const StepInput& input, std::int64_t ahead) const {
  std::vector<const float*> gradients(parameters_.size(), nullptr);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (updated_[i]) gradients[i] = parameters_.gradient_of(i).data<float>();
  return update_slices(input, gradients, ahead);
}

Optimizer::DeviceUpdate Optimizer::device_update(const StepInput& input) const {
  DeviceUpdate update{.input = input, .slices = device_slices(input, 0)};
  for (std::size_t i = 0; i < updated_.size(); ++i)
    update.gradient_limits.push_back(updated_[i] ? gradient_limit(i, input, 1)
                                                 : std::numeric_limits<double>::infinity());
  return update;
}

std::optional<Optimizer::DeviceUpdate> Optimizer::device_update_behind(std::span<const DeviceUpdate* const> under_way,
                                                                       const StepInput& input) const {
  constexpr double kShare = 1.0 / 16;  // of what a dtype holds: that much each update may take from what is known
  DeviceUpdate update{.input = input, .slices = device_slices(input, static_cast<std::int64_t>(under_way.size()))};
  for (std::size_t i = 0; i < updated_.size(); ++i) {
    double& limit = update.gradient_limits.emplace_back(std::numeric_limits<double>::infinity());
    if (!updated_[i]) continue;
    limit = gradient_limit(i, input, kShare);
    Magnitudes most = known_[i];
    for (const DeviceUpdate* before : under_way) most = bound_after(most, i, before->gradient_limits[i], before->input);
    if (limit < 0 || !within(bound_after(most, i, limit, input), i)) return std::nullopt;
  }
  return update;
}

void Optimizer::send_to(const StepPlaces& places, std::span<const Tensor> statistics) {
  std::vector<const float*> values = parameters_.gradients();
  for (std::size_t i = 0; i < values.size(); ++i)
    check<AutogradError>(
        (values[i] != nullptr) == updated_[i],
        "{}: {} got {} gradient, unlike in the step before; a recorded step has the same ops each time", kind_,
        parameters_.slices()[i].name, values[i] != nullptr ? "a" : "no");
  std::vector<FlatBlock> blocks = parameters_.blocks();
  for (const Tensor& tensor : statistics) {
    const auto slice = static_cast<std::int32_t>(values.size());
    values.push_back(tensor.data<float>());
    for (std::int64_t begin = 0; begin < tensor.numel(); begin += kFlatBlock)
      blocks.push_back({slice, static_cast<std::int32_t>(std::min(kFlatBlock, tensor.numel() - begin)), begin});
  }
  const KernelTable& table = kernels(parameters_.device());
  table.decide({places, blocks, values});
  table.decided_update({places, update_arguments()});
}

std::size_t Optimizer::updated_parameters() const {
  return static_cast<std::size_t>(std::ranges::count(updated_, true));
}

void Optimizer::was_updated(std::span<const BlockExtremes> extremes) {
  std::vector<Magnitudes> magnitudes(parameters_.size());
  for (std::size_t i = 0; i < magnitudes.size(); ++i)
    magnitudes[i] = updated_[i] ? magnitudes_of(extremes[i]) : known_[i];
  count_update(std::move(magnitudes));
}

StateDict Optimizer::state() const {
  StateDict state;
  state.put("kind", kind_);
  state.put("updates", updates_);
  state.put("parameter_updates", slice_updates_);
  for (std::size_t m = 0; m < moments_.size(); ++m)
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      state.put(fmt::format("moment{}/{}", m + 1, parameters_.slices()[i].name), parameters_.view(moments_[m], i));
  return state;
}

void Optimizer::check_state(const StateDict& state) const {
  check<CheckpointError>(
      state.text("kind") == kind_,
      "optimizer: the checkpoint was made with '{}', this run uses '{}'; use the same optimizer, or start "
      "from its weights alone",
      state.text("kind"), kind_);
  check<CheckpointError>(state.integers("parameter_updates").size() == parameters_.size(),
                         "{}: the checkpoint holds {} parameters, this model has {}", kind_,
                         state.integers("parameter_updates").size(), parameters_.size());
  read_count(state, "updates");
  read_counts(state, "parameter_updates");
  for (std::size_t m = 0; m < moments_.size(); ++m)
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::string name = fmt::format("moment{}/{}", m + 1, parameters_.slices()[i].name);
      const Tensor& saved = state.tensor(name);
      const Shape& wanted = parameters_.slices()[i].variable.shape();
      check<CheckpointError>(saved.shape() == wanted && saved.dtype() == moment_dtype_,
                             "{}: {} is {} {} in the checkpoint, {} {} here", kind_, name, name_of(saved.dtype()),
                             saved.shape(), name_of(moment_dtype_), wanted);
    }
}

void Optimizer::load_state(const StateDict& state) {
  check_state(state);
  updates_ = read_count(state, "updates");
  slice_updates_ = state.integers("parameter_updates");
  for (std::size_t m = 0; m < moments_.size(); ++m)
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_.view(moments_[m], i)
          .copy_from(state.tensor(fmt::format("moment{}/{}", m + 1, parameters_.slices()[i].name)));
  known_.clear();
  distrust_until_ = updates_ + kDistrust;
}

namespace detail {

void check_option(std::string_view kind, std::string_view option, double value, double low, double high, bool open) {
  const bool fits = value >= low && (open ? value < high : value <= high);
  check<ArgumentError>(fits, "{}: wanted {} in [{}, {}{}, got {}", kind, option, low, high, open ? ")" : "]", value);
}

void check_moment_settings(std::string_view kind, DType dtype, double eps, double beta2, double weight_decay) {
  if (!is_half(dtype)) return;
  const auto rounded = [dtype](double x) {
    const auto f = static_cast<float>(x);
    return dtype == DType::f16 ? float16::from_float(f).to_float() : bfloat16::from_float(f).to_float();
  };
  const DTypeRange range = range_of(dtype);
  const double smallest = std::ldexp(range.smallest_normal, -range.mantissa_bits);
  check<ArgumentError>(eps <= 0 || rounded(eps) > 0,
                       "{}: eps {} rounds to 0 in {} moments; use at least {}, or f32 moments", kind, eps,
                       name_of(dtype), smallest);
  check<ArgumentError>(rounded(beta2) < 1, "{}: beta2 {} rounds to 1 in {} moments; use at most {}, or f32 moments",
                       kind, beta2, name_of(dtype), 1 - std::ldexp(1.0, -range.mantissa_bits - 1));
  check<ArgumentError>(weight_decay <= 0 || rounded(weight_decay) > 0,
                       "{}: weight_decay {} rounds to 0 in {} moments; use 0 or at least {}, or f32 moments", kind,
                       weight_decay, name_of(dtype), smallest);
}

}  // namespace detail

}  // namespace binade::optim
