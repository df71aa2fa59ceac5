#include "binade/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "binade/autograd/inference_mode.h"
#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/core/state_counts.h"
#include "binade/core/step_context.h"
#include "binade/optim/averaged_weights.h"
#include "binade/optim/registration.h"

namespace binade::optim {
namespace {

std::vector<NamedParameter>& with_filter(std::vector<NamedParameter>& parameters, const DecayFilter& decays) {
  if (decays)
    for (NamedParameter& p : parameters) p.decays = decays(p.name, p.variable);
  return parameters;
}

/// Returns the name of the rule among those that optimizers of one kind use; empty if the kind has only one.
std::string variant_of(const UpdateRule& rule) {
  struct Name {
    std::string operator()(rules::Sgd) const { return "plain"; }
    std::string operator()(rules::Momentum) const { return "momentum"; }
    std::string operator()(rules::Adam) const { return "plain"; }
    std::string operator()(rules::AmsGrad) const { return "amsgrad"; }
    std::string operator()(rules::Rmsprop<false, false>) const { return "plain"; }
    std::string operator()(rules::Rmsprop<false, true>) const { return "momentum"; }
    std::string operator()(rules::Rmsprop<true, false>) const { return "centered"; }
    std::string operator()(rules::Rmsprop<true, true>) const { return "centered, momentum"; }
  };
  return std::visit(
      [](auto one) {
        if constexpr (std::is_invocable_v<Name, decltype(one)>)
          return Name()(one);
        else
          return std::string();
      },
      rule);
}

/// Throws AutogradError if weights must not change now.
void refuse_step(const FlatParameters& parameters) {
  InferenceMode::refuse("Optimizer::step", "end it before the step");
  AveragedWeights::refuse(parameters, "Optimizer::step", "end the AveragedWeights scope before the step");
}

}  // namespace

Optimizer::Optimizer(std::vector<NamedParameter> parameters, const Settings& settings)
    : kind_(settings.kind),
      rule_(settings.rule),
      lr_(settings.lr),
      moment_dtype_(settings.moment_dtype),
      groups_(kind_, lr_, settings.groups, with_filter(parameters, settings.decays)),
      parameters_(parameters),
      bounds_(parameters_, moment_dtype_,
              [this](const Magnitudes& before, double gradient, std::size_t slice, const StepInput& input) {
                return bound(before, gradient, target_of(slice, input, 0));
              }),
      updates_per_parameter_(parameters_.size(), 0),
      maximize_(settings.maximize) {
  detail::check_option(kind_, "lr", lr_, 0, 1e6);
  check<DTypeError>(moment_dtype_ == DType::f32 || is_half(moment_dtype_),
                    "{}: wanted moments in f32, f16 or bf16, got {}", kind_, name_of(moment_dtype_));
  const int moments = std::visit([](auto rule) { return rule.kMoments; }, rule_);
  for (int i = 0; i < moments; ++i) moments_.push_back(parameters_.allocate(moment_dtype_));
}

void Optimizer::store_weights_in(DType dtype, bool stochastic) {
  AveragedWeights::refuse(parameters_, "Optimizer::store_weights_in", "end the AveragedWeights scope before it");
  parameters_.store_weights_in(dtype);
  stochastic_ = stochastic;
  bounds_.forget();
}

StepInput Optimizer::numbered(StepInput input, std::int64_t ahead) const {
  if (input.step <= 0) input.step = updates_ + ahead + 1;
  return input;
}

UpdateTarget Optimizer::target_of(std::size_t slice, const StepInput& input, std::int64_t t) const {
  const std::size_t index = groups_.class_of(slice);
  return {
      .parameter_class = index, .decays = parameters_.slices()[slice].decays, .t = t, .lr = groups_.lr(index, input)};
}

double Optimizer::lr_of(std::size_t slice, const StepInput& input) const {
  return groups_.lr(groups_.class_of(slice), numbered(input));
}

std::vector<UpdateSlice> Optimizer::update_slices(const StepInput& input, std::span<const float* const> gradients,
                                                  std::int64_t ahead) {
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
    if (moments_.size() > 2) slice.moment3 = parameters_.view(moments_[2], i).mutable_raw();
    slice.gradient_factor = static_cast<float>(input.inverse_scale * input.clip_factor);
    slice.clip_value = static_cast<float>(input.clip_value);
    const std::int64_t t = updates_per_parameter_[i] + ahead + 1;
    slice.numbers = numbers(target_of(i, input, t));
    slice.numbers.direction = maximize_ ? -1.0f : 1.0f;
    slice.numbers.first = t == 1;
  }
  return slices;
}

UpdateArguments Optimizer::update_arguments() const {
  UpdateArguments arguments{.rule = rule_, .blocks = parameters_.blocks()};
  arguments.stochastic = stochastic_;
  arguments.rounding = {current_seed(), RngPurpose::kRounding, static_cast<std::uint64_t>(updates_ + 1), 0, 0};
  return arguments;
}

Optimizer::Pass Optimizer::prepared(const StepInput& input) {
  const std::vector<const float*> gradients = parameters_.gradients();
  parameters_.adopt_low_copies();
  Pass pass{.slices = update_slices(numbered(input), gradients)};
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
    if (!pass.updated[i] && !bounds_.known().empty()) pass.magnitudes[i] = bounds_.known()[i];
  }
}

void Optimizer::step(const StepInput& input) {
  if (!input.commit) return;
  const ExclusiveUse::Call call(use_, "step");
  refuse_step(parameters_);
  check_step(input);
  write(prepared(input));
}

/// Throws the errors of step(), except those of the learning rate.
void Optimizer::check_step(const StepInput& input) {
  Optimizer* const self = this;
  check_registration({&self, 1});
  const GradientScan scan = scan_gradients(parameters_);
  check<AutogradError>(scan.gradients > 0,
                       "{}: step() found no gradient in any of its {} parameters; call backward(loss) before it, on a "
                       "loss that depends on them, and zero_grad() only after it",
                       kind_, parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const FlatParameters::Slice& slice = parameters_.slices()[i];
    const double scale = parameters_.has_gradient(i) ? slice.variable.state()->loss_scale : 1;
    check<AutogradError>(scale == 1 || input.inverse_scale != 1,
                         "{}: the gradient of {} is multiplied by the loss scale {} of LossScaler::backward, and "
                         "Optimizer::step does not divide by it; call scaler.step(optimizer) instead",
                         kind_, slice.name, scale);
    check<NumericError>(
        scan.words[i] < 0x7f800000u,
        "{}: the gradient of {} is {}; nothing was changed; leave the batch out (zero_grad()), or train "
        "with amp::Trainer, which finds the cause",
        kind_, slice.name, std::abs(magnitude_of(scan.words[i])));
  }
  check_update(kind_, prove_finite(input, scan));
}

void Optimizer::step_together(std::span<Optimizer* const> optimizers, std::span<const StepInput> inputs) {
  check<ArgumentError>(optimizers.size() == inputs.size(), "optimizers: wanted an input for each of {}, got {}",
                       optimizers.size(), inputs.size());
  std::deque<ExclusiveUse::Call> calls;
  std::vector<std::pair<Optimizer*, Pass>> passes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].commit) continue;
    calls.emplace_back(optimizers[i]->use_, "step_together");
    refuse_step(optimizers[i]->parameters_);
    passes.emplace_back(optimizers[i], optimizers[i]->prepared(inputs[i]));
  }
  for (auto& [optimizer, pass] : passes) optimizer->write(std::move(pass));
}

void Optimizer::write(Pass pass) {
  run(pass, true);
  had_gradient_ = std::move(pass.updated);
  written();
  count_update(std::move(pass.magnitudes));
}

/// Counts the update that was just written for the parameters in had_gradient_. `magnitudes`: the largest ones after
/// it.
void Optimizer::count_update(std::vector<Magnitudes> magnitudes) {
  // A parameter without a gradient keeps its known magnitudes. If these are unknown, no magnitudes are stored, and the
  // next prove_finite() needs a dry run.
  const bool all_known = !bounds_.known().empty() || std::ranges::find(had_gradient_, false) == had_gradient_.end();
  bounds_.remember(all_known ? std::move(magnitudes) : std::vector<Magnitudes>{});
  for (std::size_t i = 0; i < had_gradient_.size(); ++i) updates_per_parameter_[i] += had_gradient_[i] ? 1 : 0;
  ++updates_;
  parameters_.values_written(true);
}

UpdateProof Optimizer::prove_finite(const StepInput& input, const GradientScan& scan) {
  const auto first_beyond_limit = [&](const std::vector<Magnitudes>& after) {
    for (std::size_t i = 0; i < after.size(); ++i)
      if (parameters_.has_gradient(i) && !bounds_.within(after[i], i)) return i;
    return after.size();
  };
  bounds_.accept_writes();
  if (bounds_.apply(updates_)) {
    parameters_.adopt_low_copies();
    std::vector<Magnitudes> after(parameters_.size());
    for (std::size_t i = 0; i < after.size(); ++i)
      after[i] = bounds_.after(bounds_.known()[i], i,
                               magnitude_of(scan.words[i]) * input.inverse_scale * input.clip_factor, numbered(input));
    if (first_beyond_limit(after) == after.size()) return {.finite = true, .by_bound = true};
  }
  Pass pass = prepared(input);
  run(pass, false);
  const std::vector<Magnitudes>& after = pass.magnitudes;
  const std::size_t i = first_beyond_limit(after);
  if (i == after.size()) return {};
  const bool by_value = !(after[i].value <= bounds_.value_limit(i));
  const double largest = by_value ? after[i].value : std::max(after[i].moment1, after[i].moment2);
  return {false, false, parameters_.slices()[i].name, largest,
          by_value ? bounds_.value_limit(i) : bounds_.moment_limit()};
}

StateDict Optimizer::state() const {
  StateDict state;
  state.put("kind", kind_);
  if (const std::string variant = variant_of(rule_); !variant.empty()) state.put("rule", variant);
  state.put("updates", updates_);
  state.put("parameter_updates", updates_per_parameter_);
  groups_.put_state(state);
  for (std::size_t m = 0; m < moments_.size(); ++m)
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      state.put(fmt::format("moment{}/{}", m + 1, parameters_.slices()[i].name), parameters_.view(moments_[m], i));
  put_own_state(state);
  if (averages_weights()) {
    const Tensor averages = averaged_weights();
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      state.put("ema/average/" + parameters_.slices()[i].name, parameters_.view(averages, i));
  }
  return state;
}

Tensor Optimizer::averaged_weights() const {
  Tensor averages = moments_.front().clone();
  if (AveragedWeights::in_place(parameters_)) {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_.view(averages, i).copy_from(parameters_.slices()[i].variable.value());
    return averages;
  }
  std::vector<float*> to;
  std::vector<const void*> values;
  std::vector<DType> dtypes;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& value = parameters_.slices()[i].variable.value();
    // Before its first update a parameter has no average.
    if (updates_per_parameter_[i] == 0) parameters_.view(averages, i).copy_from(value);
    to.push_back(parameters_.view(averages, i).mutable_data<float>());
    values.push_back(value.raw());
    dtypes.push_back(value.dtype());
  }
  for (std::size_t index = 0; index < groups_.classes(); ++index) {
    std::vector<FlatBlock> blocks;
    for (const FlatBlock& block : parameters_.blocks()) {
      const auto slice = static_cast<std::size_t>(block.slice);
      if (groups_.class_of(slice) == index && updates_per_parameter_[slice] > 0) blocks.push_back(block);
    }
    const auto share = static_cast<float>(average_share(index).value_or(0));
    if (share != 0 && !blocks.empty()) kernels(parameters_.device()).average({blocks, to, values, dtypes, share});
  }
  return averages;
}

void Optimizer::check_state(const StateDict& state) const {
  check<CheckpointError>(
      state.text("kind") == kind_,
      "optimizer: the checkpoint was made with '{}', this run uses '{}'; use the same optimizer, or start "
      "from its weights alone",
      state.text("kind"), kind_);
  // Without this check, the moments of another rule with as many moments could be loaded. Older checkpoints do not
  // name the rule.
  const std::string variant = variant_of(rule_);
  check<CheckpointError>(variant.empty() || !state.contains("rule") || state.text("rule") == variant,
                         "{}: the checkpoint was made with the rule '{}', the options of this run give '{}'; use the "
                         "same options, or start from its weights alone",
                         kind_, state.contains("rule") ? state.text("rule") : "", variant);
  check<CheckpointError>(state.integers("parameter_updates").size() == parameters_.size(),
                         "{}: the checkpoint holds {} parameters, this model has {}", kind_,
                         state.integers("parameter_updates").size(), parameters_.size());
  read_count(state, "updates");
  read_counts(state, "parameter_updates");
  groups_.check_state(state);
  for (std::size_t m = 0; m < moments_.size(); ++m)
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::string name = fmt::format("moment{}/{}", m + 1, parameters_.slices()[i].name);
      const Tensor& saved = state.tensor(name);
      const Shape& wanted = parameters_.slices()[i].variable.shape();
      check<CheckpointError>(saved.shape() == wanted && saved.dtype() == moment_dtype_,
                             "{}: {} is {} {} in the checkpoint, {} {} here", kind_, name, name_of(saved.dtype()),
                             saved.shape(), name_of(moment_dtype_), wanted);
    }
  check_own_state(state);
}

void Optimizer::load_state(const StateDict& state) {
  const ExclusiveUse::Call call(use_, "load_state");
  check_state(state);
  updates_ = read_count(state, "updates");
  updates_per_parameter_ = state.integers("parameter_updates");
  groups_.load_state(state);
  for (std::size_t m = 0; m < moments_.size(); ++m)
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_.view(moments_[m], i)
          .copy_from(state.tensor(fmt::format("moment{}/{}", m + 1, parameters_.slices()[i].name)));
  load_own_state(state);
  bounds_.distrust_moments(updates_);
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
