#include <algorithm>
#include <cmath>
#include <span>

#include "binade/amp/preflight/rules.h"

namespace binade::amp {
namespace {

/// The settings of one parameter class (optim::ParameterGroups).
struct Settings {
  std::string op{};  ///< "adamw", or "adamw, group 'head.*'"
  optim::UpdateFacts facts{};
  double lr = 0;  ///< highest learning rate
};

Settings settings_of(const Inspection& in, std::size_t parameter_class) {
  const optim::ParameterGroups& groups = in.optimizer.groups();
  const std::string group = groups.name_of(parameter_class);
  return {in.optimizer.kind() + (group.empty() ? "" : ", " + group), in.optimizer.facts_of(parameter_class),
          groups.peak_lr(parameter_class, in.lr)};
}

PreflightFinding optimizer_finding(std::string op, std::string rule, std::string what, std::string advice) {
  return {.rule = std::move(rule),
          .severity = Severity::kPossible,
          .op = std::move(op),
          .what = std::move(what),
          .advice = std::move(advice)};
}

double smallest_cause_in(DType dtype) {
  return std::ldexp(range_of(dtype).smallest_normal, -range_of(dtype).mantissa_bits);
}

/// Returns the largest gradient whose contribution to the second moment, (1 - beta2) x gradient^2, rounds to 0.
double vanishing_gradient(DType dtype, double beta2) { return std::sqrt(smallest_cause_in(dtype) / 4 / (1 - beta2)); }

/// Reports an eps that is too small: a gradient whose square underflows in f32, the dtype of updates, is divided by eps
/// alone.
void judge_eps(const Settings& settings, Findings& findings) {
  const optim::UpdateFacts& facts = settings.facts;
  if (!facts.divides_by_root) return;
  const double gradient = vanishing_gradient(DType::f32, facts.beta2);
  const bool gone = rounded(facts.eps, DType::f32) == 0;
  if (!gone && gradient <= facts.eps) return;
  PreflightFinding f = optimizer_finding(
      settings.op, "optimizer-eps",
      gone ? fmt::format("its eps of {:g} is 0 in f32: a gradient of 0 is divided by 0", facts.eps)
           : fmt::format("its eps of {:g} is too small: a gradient whose square vanishes is divided by it alone",
                         facts.eps),
      "use an eps of 1e-8");
  const double at = gone ? 0 : rounded(gradient, DType::f32);
  f.trigger = value_trigger("a gradient", at, DType::f32, at,
                            gone ? "a gradient of 0 gives nan"
                                 : fmt::format("a gradient of {:.2g} gives an update of {:.2g} learning rates", at,
                                               at / facts.eps));
  findings.push_back(std::move(f));
}

/// Reports 16-bit second moments that stay 0 for the measured gradients.
void judge_moments(const Inspection& in, Findings& findings) {
  const optim::UpdateFacts facts = in.optimizer.facts();
  const DType dtype = facts.moment_dtype;
  if (!facts.divides_by_root || !is_half(dtype) || in.scan.words.empty() || !in.scan.finite()) return;
  std::int64_t idle = 0, all = 0;
  double largest = 0, beta2 = 0;
  for (std::size_t i = 0; i < in.scan.words.size(); ++i) {
    const double gradient = optim::magnitude_of(in.scan.words[i]) / in.measured_at;
    const std::int64_t count = in.optimizer.parameters().slices()[i].count;
    if (gradient > 0) all += count;
    const double own_beta2 = in.optimizer.facts_of(in.optimizer.groups().class_of(i)).beta2;
    if (gradient == 0 || gradient > vanishing_gradient(dtype, own_beta2)) continue;
    idle += count;
    if (gradient > largest) largest = gradient, beta2 = own_beta2;
  }
  if (2 * idle <= all || idle == 0) return;
  PreflightFinding f = optimizer_finding(in.optimizer.kind(), "moments-vanish",
                                         fmt::format("second moments of gradients up to {:.2g} round to 0 in {}",
                                                     largest, name_of(dtype)),
                                         "keep moments in f32 or bf16");
  f.severity = Severity::kMeasured;
  f.trigger = value_trigger("a gradient", largest, DType::f32, largest,
                            fmt::format("{:.2g} x {:.2g}^2 is 0 in {}", 1 - beta2, largest, name_of(dtype)));
  findings.push_back(std::move(f));
}

void judge_betas(const Settings& settings, Findings& findings) {
  for (const auto& [name, beta] : {std::pair("beta1", settings.facts.beta1), {"beta2", settings.facts.beta2}}) {
    if (rounded(beta, DType::f32) < 1) continue;
    PreflightFinding f = optimizer_finding(settings.op, "beta-rounds-to-one",
                                           fmt::format("{} {:.12g} rounds to 1 in f32: that moment never moves", name,
                                                       beta),
                                           fmt::format("use {} <= 0.9999999", name));
    f.trigger = value_trigger(name, beta, DType::f32, 1, fmt::format("{:.12g} is 1 in f32", beta));
    findings.push_back(std::move(f));
  }
}

void judge_averages(const Inspection& in, Findings& findings) {
  if (in.ema_decay > 0 && rounded(in.ema_decay, DType::f32) >= 1)
    findings.push_back(optimizer_finding(
        in.optimizer.kind(), "beta-rounds-to-one",
        fmt::format("the decay {:.12g} of averaged weights rounds to 1 in f32: they never move", in.ema_decay),
        "use a decay <= 0.9999999"));
}

/// Returns the largest relative change of a weight that rounding to nearest in `dtype` undoes.
double lost_share(DType dtype) { return std::ldexp(1.0, -range_of(dtype).mantissa_bits - 2); }

void judge_decay(const Inspection& in, const Settings& settings, Findings& findings) {
  const double decay = settings.facts.decoupled_decay;
  if (decay <= 0 || settings.lr <= 0) return;
  const DType held = in.policy.master_weights ? DType::f32 : in.policy.low;
  const double share = settings.lr * decay;
  const bool in_f32 = rounded(1 - share, DType::f32) == 1;
  const bool rounds_to_nearest = is_half(held) && !in.policy.stochastic_rounding;
  if (!in_f32 && !(rounds_to_nearest && share < lost_share(held))) return;
  const DType dtype = in_f32 ? DType::f32 : held;
  PreflightFinding f = optimizer_finding(
      settings.op, "decay-vanishes",
      fmt::format("1 - lr x weight_decay = 1 - {:.2g} rounds to 1 in {}: weights never decay", share, name_of(dtype)),
      is_half(dtype) ? "round stochastically, or keep f32 masters" : "raise weight_decay, or set it to 0");
  f.trigger = value_trigger("1 - lr x weight_decay", 1 - share, dtype, 1, fmt::format("it is 1 in {}", name_of(dtype)));
  findings.push_back(std::move(f));
}

double root_mean_square(const Tensor& tensor) {
  double sum = 0;
  for (const float x : tensor.to_vector<float>()) sum += static_cast<double>(x) * x;
  return tensor.numel() > 0 ? std::sqrt(sum / static_cast<double>(tensor.numel())) : 0;
}

/// Reports weights that do not change because their updates are lost in rounding.
void judge_updates(const Inspection& in, std::span<const Settings> settings, Findings& findings) {
  if (in.policy.stochastic_rounding) return;
  std::int64_t idle = 0, all = 0;
  double update = 0, weight = 0;
  DType dtype = DType::f32;
  for (std::size_t i = 0; i < in.optimizer.parameters().size(); ++i) {
    const optim::FlatParameters::Slice& slice = in.optimizer.parameters().slices()[i];
    const auto& [op, facts, lr] = settings[in.optimizer.groups().class_of(i)];
    if (!facts.stated || lr <= 0) continue;
    if (!facts.unit_steps && (in.scan.words.empty() || !in.scan.finite())) continue;
    const double gradient = facts.unit_steps ? 1 : optim::magnitude_of(in.scan.words[i]) / in.measured_at;
    const double typical = root_mean_square(slice.variable.value());
    all += slice.count;
    if (gradient == 0 || lr * gradient >= lost_share(slice.variable.dtype()) * typical) continue;
    if (slice.count > idle) update = in.lr * gradient, weight = typical, dtype = slice.variable.dtype();
    idle += slice.count;
  }
  if (2 * idle <= all) return;
  PreflightFinding f = optimizer_finding(
      in.optimizer.kind(), "update-vanishes",
      fmt::format("updates of {:.2g} are lost in {} weights of about {:.2g}: most weights never move", update,
                  name_of(dtype), weight),
      is_half(dtype) ? "round stochastically, keep f32 masters, or raise the learning rate"
                     : "raise the learning rate");
  f.trigger = Trigger{"a weight and its update",
                      {weight, update},
                      dtype,
                      weight,
                      fmt::format("{:.3g} - {:.2g} is {:.3g} in {}", weight, update, weight, name_of(dtype))};
  findings.push_back(std::move(f));
}

}  // namespace

void find_idle_updates(const Inspection& in, Findings& findings) {
  std::vector<Settings> settings;
  for (std::size_t c = 0; c < in.optimizer.groups().classes(); ++c) settings.push_back(settings_of(in, c));
  std::vector<Settings> judged;
  for (std::size_t c = 0; c < settings.size(); ++c) {
    if (in.optimizer.groups().parameters_of(c) == 0) continue;
    // If several classes have the same settings, judges them once.
    const auto same = [&](auto... members) {
      return std::ranges::any_of(judged,
                                 [&](const Settings& s) { return ((s.*members == settings[c].*members) && ...); });
    };
    if (!same(&Settings::facts)) {
      judge_eps(settings[c], findings);
      judge_betas(settings[c], findings);
    }
    if (!same(&Settings::facts, &Settings::lr)) judge_decay(in, settings[c], findings);
    judged.push_back(settings[c]);
  }
  judge_averages(in, findings);
  judge_moments(in, findings);
  judge_updates(in, settings, findings);
}

}  // namespace binade::amp
