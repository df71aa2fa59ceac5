#include "binade/optim/lamb.h"

#include <algorithm>
#include <cmath>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"

namespace binade::optim {
namespace {

/// Returns the norm, even if the squares of elements exceed the range of f32.
double euclidean_norm(const Variable& x) {
  const double most = max(abs(x)).value().on_host().item();
  if (!(most > 0)) return most;
  const double scale = std::clamp(most, 0x1p-126, 0x1p126);  // its inverse is a normal f32
  const Variable scaled = x * (1 / scale);
  return scale * std::sqrt(sum(scaled * scaled).value().on_host().item());
}

/// Returns factor times x, even if the factor alone exceeds the range of f32.
Variable product(Variable x, double factor) {
  constexpr double kMost = 0x1p96;
  for (; factor > kMost && std::isfinite(factor); factor /= kMost) x = x * kMost;
  return x * factor;
}

}  // namespace

Lamb::Lamb(std::vector<NamedParameter> parameters, const LambOptions& options)
    : CustomOptimizer(std::move(parameters), {.kind = "lamb",
                                              .lr = options.lr,
                                              .state = {"average", "square_average"},
                                              .decays = options.decays,
                                              .groups = options.groups,
                                              .maximize = options.maximize}),
      options_(groups().options_of(options)) {
  for (const LambOptions& o : options_) {
    detail::check_option(kind(), "beta1", o.beta1, 0, 1, true);
    detail::check_option(kind(), "beta2", o.beta2, 0, 1, true);
    detail::check_option(kind(), "eps", o.eps, 0, 1);
    detail::check_option(kind(), "weight_decay", o.weight_decay, 0, 1e6);
  }
}

UpdateFacts Lamb::facts_of(std::size_t parameter_class) const {
  const LambOptions& o = options_[parameter_class];
  // Steps are relative to the weights, so that nothing is stated about their sizes.
  return {.stated = false, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .divides_by_root = true};
}

void Lamb::update(ParameterUpdate& u) const {
  const LambOptions& o = options_[u.target.parameter_class];
  const auto t = static_cast<double>(u.target.t);
  Variable &m = u.state("average"), &v = u.state("square_average");
  m = m + (1 - o.beta1) * (u.gradient - m);
  v = o.beta2 * v + (1 - o.beta2) * (u.gradient * u.gradient);
  const Variable root = sqrt(v) * (1 / std::sqrt(1 - std::pow(o.beta2, t))) + o.eps;
  Variable step = m * (1 / (1 - std::pow(o.beta1, t))) / root;
  if (u.target.decays && o.weight_decay > 0) step = step + o.weight_decay * u.weight;
  const double weight = euclidean_norm(u.weight), length = euclidean_norm(step);
  u.weight = u.weight - product(step, u.target.lr * (weight > 0 && length > 0 ? weight / length : 1));
}

Lars::Lars(std::vector<NamedParameter> parameters, const LarsOptions& options)
    : CustomOptimizer(std::move(parameters), {.kind = "lars",
                                              .lr = options.lr,
                                              .state = {"momentum"},
                                              .decays = options.decays,
                                              .groups = options.groups,
                                              .maximize = options.maximize}),
      options_(groups().options_of(options)) {
  for (const LarsOptions& o : options_) {
    detail::check_option(kind(), "momentum", o.momentum, 0, 1, true);
    detail::check_option(kind(), "trust", o.trust, 0, 1e6);
    detail::check_option(kind(), "weight_decay", o.weight_decay, 0, 1e6);
  }
}

UpdateFacts Lars::facts_of(std::size_t parameter_class) const {
  return {.stated = false, .beta1 = options_[parameter_class].momentum};
}

void Lars::update(ParameterUpdate& u) const {
  const LarsOptions& o = options_[u.target.parameter_class];
  Variable& m = u.state("momentum");
  double rate = u.target.lr;
  Variable gradient = u.gradient;
  if (u.target.decays) {
    const double weight = euclidean_norm(u.weight), length = euclidean_norm(u.gradient);
    if (weight > 0 && length > 0) rate *= o.trust * weight / (length + o.weight_decay * weight);
    gradient = gradient + o.weight_decay * u.weight;
  }
  m = o.momentum * m + product(gradient, rate);
  u.weight = u.weight - m;
}

}  // namespace binade::optim
