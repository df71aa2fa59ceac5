#include "binade/optim/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "binade/autograd/inference_mode.h"
#include "binade/core/error.h"
#include "binade/core/state_counts.h"
#include "binade/optim/optimizer.h"

namespace binade::optim {
namespace {

constexpr double kDecrease = 1e-4;  // Wolfe: share of the slope by which the loss must fall
constexpr double kCurvature = 0.9;  // Wolfe: share of the slope that may be left
constexpr double kShortest = 1e-9;  // a bracket is not divided if no weight changes by more in it
constexpr int kTrials = 25;         // largest number of trials of one line search
constexpr double kLeastCurvature = 1e-10;

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

double largest(const std::vector<float>& x) {
  double most = 0;
  for (const float v : x) most = std::max<double>(most, std::abs(v));
  return most;
}

bool all_finite(const std::vector<float>& x) {
  return std::ranges::all_of(x, [](float v) { return std::isfinite(v); });
}

/// Returns the length in [low, high] at which the cubic through losses and slopes of both trials is least; the middle
/// of the interval if it has no minimum.
template <class Trial>
double cubic_minimum(const Trial& one, const Trial& other, double low, double high) {
  const Trial& a = one.length <= other.length ? one : other;
  const Trial& b = one.length <= other.length ? other : one;
  const double middle = low + (high - low) / 2;
  if (!std::isfinite(a.loss) || !std::isfinite(b.loss) || a.length == b.length) return middle;
  const double secant = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length);
  const double square = secant * secant - a.slope * b.slope;
  if (!(square >= 0)) return middle;
  const double root = std::sqrt(square);
  const double at = b.length - (b.length - a.length) * ((b.slope + root - secant) / (b.slope - a.slope + 2 * root));
  return std::isfinite(at) ? std::clamp(at, low, high) : middle;
}

}  // namespace

Lbfgs::Lbfgs(const std::vector<NamedParameter>& parameters, const LbfgsOptions& options)
    : parameters_(parameters), options_(options) {
  detail::check_option("lbfgs", "lr", options.lr, 0, 1e6);
  detail::check_option("lbfgs", "tolerance_grad", options.tolerance_grad, 0, 1e6);
  detail::check_option("lbfgs", "tolerance_change", options.tolerance_change, 0, 1e6);
  check<ArgumentError>(options.max_iter >= 1 && options.max_eval >= 0 && options.history_size >= 1,
                       "lbfgs: wanted max_iter >= 1, max_eval >= 0 and history_size >= 1, got {}, {} and {}",
                       options.max_iter, options.max_eval, options.history_size);
  if (options_.max_eval == 0) options_.max_eval = options_.max_iter * 5 / 4;
}

Lbfgs::Vector Lbfgs::weights() const {
  Vector all;
  for (const FlatParameters::Slice& slice : parameters_.slices()) {
    const Vector one = slice.variable.value().to_vector<float>();
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

void Lbfgs::put(const Vector& weights) {
  auto next = weights.begin();
  for (const FlatParameters::Slice& slice : parameters_.slices()) {
    Tensor value = slice.variable.state()->value;
    value.copy_from(Tensor::from(std::span<const float>(next, next + slice.count), value.shape()));
    next += slice.count;
  }
  parameters_.values_written(false);
}

/// Returns the loss and its gradient at the current weights.
Lbfgs::Trial Lbfgs::evaluate(const std::function<Variable()>& closure) {
  parameters_.zero_grad();
  const Variable loss = closure();
  ++state_.evaluations;
  check<ArgumentError>(loss.defined() && loss.value().numel() == 1, "lbfgs: wanted a loss of one element, got {}",
                       loss.defined() ? loss.shape().to_string() : "none");
  Trial trial{.loss = loss.value().on_host().item()};
  if (!std::isfinite(trial.loss)) return trial;
  backward(loss);
  const std::vector<const float*> gradients = parameters_.gradients();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto count = static_cast<std::size_t>(parameters_.slices()[i].count);
    const Vector one = gradients[i] != nullptr ? parameters_.gradient_of(i).to_vector<float>() : Vector(count);
    trial.gradient.insert(trial.gradient.end(), one.begin(), one.end());
  }
  parameters_.zero_grad();
  return trial;
}

/// Returns from + length direction.
Lbfgs::Vector Lbfgs::moved(const Vector& from, double length) const {
  Vector to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    to[i] = static_cast<float>(from[i] + length * static_cast<double>(state_.direction[i]));
  check<NumericError>(all_finite(to), "lbfgs: a step of length {} makes a weight that is not finite", length);
  return to;
}

/// Moves the weights to from + length direction, and evaluates there. If loss or gradient is not finite, the loss of
/// the trial is infinity.
Lbfgs::Trial Lbfgs::at(double length, const Vector& from, const std::function<Variable()>& closure) {
  put(moved(from, length));
  Trial trial = evaluate(closure);
  trial.length = length;
  if (!std::isfinite(trial.loss) || !all_finite(trial.gradient)) {
    trial.loss = std::numeric_limits<double>::infinity();
    trial.gradient.assign(from.size(), 0.0f);
  }
  trial.slope = dot(trial.gradient, state_.direction);
  return trial;
}

/// Adds the last step to the history.
void Lbfgs::remember(const Vector& gradient) {
  auto pair = std::make_shared<Pair>();
  pair->weights.resize(gradient.size());
  pair->gradient.resize(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    pair->weights[i] = static_cast<float>(state_.length * static_cast<double>(state_.direction[i]));
    pair->gradient[i] = gradient[i] - state_.gradient[i];
  }
  const double curvature = dot(pair->weights, pair->gradient);
  if (curvature <= kLeastCurvature) return;
  state_.curvature = curvature / dot(pair->gradient, pair->gradient);
  if (static_cast<std::int64_t>(state_.history.size()) == options_.history_size) state_.history.pop_front();
  state_.history.push_back(std::move(pair));
}

/// Multiplies the negative gradient by the approximate inverse Hessian (two-loop recursion).
Lbfgs::Vector Lbfgs::next_direction(const Vector& gradient) const {
  std::vector<double> d(gradient.begin(), gradient.end());
  for (double& x : d) x = -x;
  const auto& history = state_.history;
  const auto product = [&](const Vector& v) {
    double sum = 0;
    for (std::size_t i = 0; i < d.size(); ++i) sum += d[i] * v[i];
    return sum;
  };
  std::vector<double> shares(history.size());
  for (std::size_t k = history.size(); k-- > 0;) {
    const auto& [s, y] = *history[k];
    shares[k] = product(s) / dot(s, y);
    for (std::size_t i = 0; i < d.size(); ++i) d[i] -= shares[k] * y[i];
  }
  for (double& x : d) x *= state_.curvature;
  for (std::size_t k = 0; k < history.size(); ++k) {
    const auto& [s, y] = *history[k];
    const double share = shares[k] - product(y) / dot(s, y);
    for (std::size_t i = 0; i < d.size(); ++i) d[i] += share * s[i];
  }
  return {d.begin(), d.end()};
}

/// Searches for a length that satisfies the strong Wolfe conditions (Nocedal & Wright, "Numerical optimization",
/// algorithm 3.5): first brackets it by longer and longer trials, then divides the bracket.
Lbfgs::Trial Lbfgs::search(double first, const Vector& from, const Trial& start,
                           const std::function<Variable()>& closure) {
  Trial before = start, now = at(first, from, closure);
  for (int trial = 0; trial < kTrials; ++trial) {
    const bool too_long = now.loss > start.loss + kDecrease * now.length * start.slope;
    if (too_long || (trial > 1 && now.loss >= before.loss)) return zoom(before, now, trial, from, start, closure);
    if (std::abs(now.slope) <= -kCurvature * start.slope) return now;
    if (now.slope >= 0) return zoom(before, now, trial, from, start, closure);
    const double least = now.length + 0.01 * (now.length - before.length);
    const double next = cubic_minimum(before, now, least, 10 * now.length);
    before = std::exchange(now, Trial{});
    now = at(next, from, closure);
  }
  return now.loss < start.loss ? now : start;
}

/// Algorithm 3.6 of the same book: divides the bracket until a trial satisfies the conditions. Returns the best trial.
Lbfgs::Trial Lbfgs::zoom(Trial a, Trial b, int trials, const Vector& from, const Trial& start,
                         const std::function<Variable()>& closure) {
  const double size = largest(state_.direction);
  bool slow = false;  // the last trial was near an end of the bracket
  Trial *low = a.loss <= b.loss ? &a : &b, *high = low == &a ? &b : &a;
  for (; trials < kTrials; ++trials) {
    const double left = std::min(a.length, b.length), right = std::max(a.length, b.length);
    if ((right - left) * size < kShortest) break;
    double length = cubic_minimum(a, b, left, right);
    const double margin = 0.1 * (right - left);
    const bool near_end = std::min(right - length, length - left) < margin;
    if (near_end && (slow || length >= right || length <= left)) {
      length = std::abs(length - right) < std::abs(length - left) ? right - margin : left + margin;
      slow = false;
    } else {
      slow = near_end;
    }
    Trial trial = at(length, from, closure);
    if (trial.loss > start.loss + kDecrease * length * start.slope || trial.loss >= low->loss) {
      *high = std::move(trial);
      low = a.loss <= b.loss ? &a : &b;
      high = low == &a ? &b : &a;
      continue;
    }
    if (std::abs(trial.slope) <= -kCurvature * start.slope) return trial;
    if (trial.slope * (high->length - low->length) >= 0) *high = *low;
    *low = std::move(trial);
  }
  return *low;
}

double Lbfgs::step(const std::function<Variable()>& closure) {
  InferenceMode::refuse("Lbfgs::step", "end it before the step");
  check<ArgumentError>(closure != nullptr, "lbfgs: step() wants a closure that returns the loss");
  const Vector before = weights();
  const State state = state_;
  try {
    return minimize(closure);
  } catch (...) {
    state_ = state;
    put(before);
    parameters_.zero_grad();
    throw;
  }
}

double Lbfgs::minimize(const std::function<Variable()>& closure) {
  constexpr const char* kNotFinite =
      "lbfgs: the loss ({}) or its gradient is not finite after {} iterations; the weights are those from before this "
      "step(). A smaller lr, or strong_wolfe, makes shorter steps";
  const std::int64_t evaluations = state_.evaluations;
  Trial now = evaluate(closure);
  check<NumericError>(std::isfinite(now.loss) && all_finite(now.gradient), kNotFinite, now.loss, state_.iterations);
  const double first_loss = now.loss;
  if (largest(now.gradient) <= options_.tolerance_grad) return first_loss;
  for (std::int64_t iteration = 1; iteration <= options_.max_iter; ++iteration) {
    if (state_.direction.empty())
      state_.history.clear(), state_.curvature = 1;
    else
      remember(now.gradient);
    state_.direction = next_direction(now.gradient);
    ++state_.iterations;
    double absolute = 0;
    for (const float g : now.gradient) absolute += std::abs(static_cast<double>(g));
    state_.length = state_.gradient.empty() ? std::min(1.0, 1 / absolute) * options_.lr : options_.lr;
    state_.gradient = now.gradient;
    const double loss = now.loss;
    now.length = 0;
    now.slope = dot(now.gradient, state_.direction);
    if (now.slope > -options_.tolerance_change) {  // no descent
      state_.length = 0;
      break;
    }

    const Vector from = weights();
    if (options_.strong_wolfe) {
      now = search(state_.length, from, now, closure);
      state_.length = now.length;
      put(moved(from, state_.length));
    } else if (iteration < options_.max_iter) {
      now = at(state_.length, from, closure);
      check<NumericError>(std::isfinite(now.loss), kNotFinite, now.loss, state_.iterations);
    } else {
      put(moved(from, state_.length));  // the next step() computes the loss there
    }
    if (state_.evaluations - evaluations >= options_.max_eval || largest(now.gradient) <= options_.tolerance_grad)
      break;
    if (largest(state_.direction) * state_.length <= options_.tolerance_change) break;
    if (std::abs(now.loss - loss) < options_.tolerance_change) break;
  }
  return first_loss;
}

// ---- state --------------------------------------------------------------------------------------

StateDict Lbfgs::state() const {
  const auto tensor = [](const Vector& v) { return Tensor::from(v, Shape{static_cast<std::int64_t>(v.size())}); };
  StateDict state;
  state.put("kind", std::string("lbfgs"));
  state.put("iterations", state_.iterations);
  state.put("evaluations", state_.evaluations);
  state.put("length", state_.length);
  state.put("curvature", state_.curvature);
  state.put("pairs", static_cast<std::int64_t>(state_.history.size()));
  if (state_.direction.empty()) return state;
  state.put("direction", tensor(state_.direction));
  state.put("gradient", tensor(state_.gradient));
  for (std::size_t k = 0; k < state_.history.size(); ++k) {
    state.put(fmt::format("history/{}/weights", k), tensor(state_.history[k]->weights));
    state.put(fmt::format("history/{}/gradient", k), tensor(state_.history[k]->gradient));
  }
  return state;
}

void Lbfgs::load_state(const StateDict& saved) {
  check<CheckpointError>(saved.text("kind") == "lbfgs", "lbfgs: the checkpoint was made with '{}'", saved.text("kind"));
  const auto vector = [&](const std::string& name) {
    const Tensor& tensor = saved.tensor(name);
    check<CheckpointError>(tensor.shape() == Shape{parameters_.count()} && tensor.dtype() == DType::f32,
                           "lbfgs: {} is {} {} in the checkpoint, f32 {} here", name, binade::name_of(tensor.dtype()),
                           tensor.shape(), Shape{parameters_.count()});
    return tensor.to_vector<float>();
  };
  State state{.iterations = read_count(saved, "iterations"),
              .evaluations = read_count(saved, "evaluations"),
              .length = saved.number("length"),
              .curvature = saved.number("curvature")};
  const std::int64_t pairs = read_count(saved, "pairs");
  check<CheckpointError>(pairs == 0 || saved.contains("direction"),
                         "lbfgs: the checkpoint has a history, no direction");
  if (saved.contains("direction")) {
    state.direction = vector("direction");
    state.gradient = vector("gradient");
  }
  for (std::int64_t k = 0; k < pairs; ++k) {
    Pair pair{vector(fmt::format("history/{}/weights", k)), vector(fmt::format("history/{}/gradient", k))};
    check<CheckpointError>(dot(pair.weights, pair.gradient) > 0, "lbfgs: history/{} in the checkpoint is no step", k);
    state.history.push_back(std::make_shared<const Pair>(std::move(pair)));
    if (static_cast<std::int64_t>(state.history.size()) > options_.history_size) state.history.pop_front();
  }
  state_ = std::move(state);
}

}  // namespace binade::optim
