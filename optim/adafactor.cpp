#include "binade/optim/adafactor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"

namespace binade::optim {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::vector<StateTensor> state_of(const std::string&, const Shape& shape) {
  const int rank = shape.rank();
  if (rank < 2) return {{"squares", shape}};
  return {{"row_squares", shape.with_dim(rank - 1, 1)}, {"column_squares", shape.with_dim(rank - 2, 1)}};
}

Variable root_mean_square(const Variable& x) { return sqrt(mean(x * x)); }

/// Moves an average towards `newest` by `share`.
void average(Variable& old, const Variable& newest, double share) { old = old + share * (newest - old); }

}  // namespace

Adafactor::Adafactor(std::vector<NamedParameter> parameters, const AdafactorOptions& options)
    : CustomOptimizer(std::move(parameters), {.kind = "adafactor",
                                              .lr = options.lr,
                                              .state = &state_of,
                                              .decays = options.decays,
                                              .groups = options.groups,
                                              .maximize = options.maximize}),
      options_(groups().options_of(options)) {
  for (const AdafactorOptions& o : options_) {
    detail::check_option(kind(), "beta2_decay", o.beta2_decay, -10, 0);
    detail::check_option(kind(), "eps1", o.eps1, 1e-18, 1);
    detail::check_option(kind(), "eps2", o.eps2, 0, 1e6);
    check<ArgumentError>(o.d >= 1 && o.d <= 1e6, "{}: wanted d in [1, 1e6], got {}", kind(), o.d);
    detail::check_option(kind(), "weight_decay", o.weight_decay, 0, 1e6);
  }
}

UpdateFacts Adafactor::facts_of(std::size_t parameter_class) const {
  // Steps are relative to the weights, so that nothing is stated about their sizes.
  return {.stated = false, .decoupled_decay = options_[parameter_class].weight_decay};
}

void Adafactor::update(ParameterUpdate& u) const {
  const AdafactorOptions& o = options_[u.target.parameter_class];
  const auto t = static_cast<double>(u.target.t);
  const double share = std::pow(t, o.beta2_decay);
  const Variable squares = u.gradient * u.gradient;
  Variable estimate;
  if (u.weight.shape().rank() < 2) {
    average(u.state("squares"), squares, share);
    estimate = u.state("squares");
  } else {
    Variable &rows = u.state("row_squares"), &columns = u.state("column_squares");
    average(rows, mean(squares, {-1}, true), share);
    average(columns, mean(squares, {-2}, true), share);
    estimate = rows / clamp(mean(rows, {-2}, true), o.eps1, kNoLimit) * columns;
  }
  const Variable scale = clamp(root_mean_square(u.weight), o.eps2, kNoLimit) * std::min(u.target.lr, 1 / std::sqrt(t));
  const Variable step = u.gradient / sqrt(clamp(estimate, o.eps1 * o.eps1, kNoLimit));
  const Variable limited = step * (scale / clamp(root_mean_square(step) / o.d, 1, kNoLimit));
  if (u.target.decays) u.weight = u.weight * (1 - u.target.lr * o.weight_decay);
  u.weight = u.weight - limited;
}

}  // namespace binade::optim
