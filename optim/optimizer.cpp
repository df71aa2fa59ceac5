#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/step_context.h"

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

bool Optimizer::within(const Magnitudes& m, std::size_t slice) const {
  return m.value <= value_limit(slice) && m.moment1 <= moment_limit() && m.moment2 <= moment_limit();
}

std::vector<UpdateSlice> Optimizer::update_slices(const StepInput& input) {
  check<ArgumentError>(std::isfinite(input.lr) && input.lr >= 0, "{}: wanted a finite learning rate >= 0, got {}",
                       kind_, input.lr);
  const std::vector<const float*> gradients = parameters_.gradients();
  parameters_.adopt_low_copies();
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
    slice.first = slice_updates_[i] == 0;
    fill(slice, parameter.decays, slice_updates_[i] + 1, input.lr);
  }
  return slices;
}

std::vector<Optimizer::Magnitudes> Optimizer::run(const StepInput& input, bool write) {
  const std::vector<UpdateSlice> slices = update_slices(input);
  const std::vector<FlatBlock>& blocks = parameters_.blocks();
  std::vector<BlockExtremes> extremes(blocks.size());
  UpdateArguments arguments{.rule = rule_, .blocks = blocks, .slices = slices, .extremes = extremes};
  arguments.write = write;
  arguments.stochastic = stochastic_;
  arguments.rounding = {step_context().seed, RngPurpose::kRounding, static_cast<std::uint64_t>(updates_ + 1), 0, 0};
  optimizer_kernels().on(parameters_.device(), kind_).update(arguments);

  std::vector<BlockExtremes> largest(slices.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    BlockExtremes& slice = largest[static_cast<std::size_t>(blocks[b].slice)];
    slice.value = std::max(slice.value, extremes[b].value);
    slice.moment1 = std::max(slice.moment1, extremes[b].moment1);
    slice.moment2 = std::max(slice.moment2, extremes[b].moment2);
  }
  std::vector<Magnitudes> magnitudes(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    magnitudes[i] = {magnitude_of(largest[i].value), magnitude_of(largest[i].moment1),
                     magnitude_of(largest[i].moment2)};
    if (slices[i].gradient == nullptr && !known_.empty()) magnitudes[i] = known_[i];
  }
  return magnitudes;
}

void Optimizer::step(const StepInput& input) {
  if (!input.commit) return;
  std::vector<bool> updated(parameters_.size());
  for (std::size_t i = 0; i < updated.size(); ++i) updated[i] = parameters_.has_gradient(i);
  std::vector<Magnitudes> magnitudes = run(input, true);
  // Parameters without a gradient keep what was known of them; with nothing known, the next proof is a dry pass.
  const bool all_known = !known_.empty() || std::ranges::find(updated, false) == updated.end();
  known_ = all_known ? std::move(magnitudes) : std::vector<Magnitudes>{};
  for (std::size_t i = 0; i < updated.size(); ++i) slice_updates_[i] += updated[i] ? 1 : 0;
  ++updates_;
  parameters_.values_written(true);
}

UpdateProof Optimizer::prove_finite(const StepInput& input, const GradientScan& scan) {
  const auto fails = [&](const std::vector<Magnitudes>& after) {
    for (std::size_t i = 0; i < after.size(); ++i)
      if (parameters_.has_gradient(i) && !within(after[i], i)) return i;
    return after.size();
  };
  if (!known_.empty() && moment_dtype_ == DType::f32 && updates_ >= distrust_until_) {
    parameters_.adopt_low_copies();
    std::vector<Magnitudes> after(parameters_.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      double gradient = magnitude_of(scan.words[i]) * input.inverse_scale * input.clip_factor;
      if (input.clip_value > 0) gradient = std::min(gradient, input.clip_value);
      after[i] = bound(known_[i], gradient, parameters_.slices()[i].decays, slice_updates_[i] + 1, input.lr);
      // A margin for the roundings of float and of the 16-bit copy.
      for (double* x : {&after[i].value, &after[i].moment1, &after[i].moment2}) *x *= 1.001;
    }
    if (fails(after) == after.size()) return {.finite = true, .by_bound = true};
  }
  const std::vector<Magnitudes> after = run(input, false);
  const std::size_t i = fails(after);
  if (i == after.size()) return {};
  const bool by_value = !(after[i].value <= value_limit(i));
  const double largest = by_value ? after[i].value : std::max(after[i].moment1, after[i].moment2);
  return {false, false, parameters_.slices()[i].name, largest, by_value ? value_limit(i) : moment_limit()};
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
  state.integer("updates");
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
  updates_ = state.integer("updates");
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
