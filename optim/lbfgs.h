#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "binade/core/state_dict.h"
#include "binade/optim/flat_parameters.h"

namespace binade::optim {

struct LbfgsOptions {
  double lr = 1;                    ///< length of a step along the direction; with strong_wolfe, of the first trial
  std::int64_t max_iter = 20;       ///< largest number of iterations in one step()
  std::int64_t max_eval = 0;        ///< largest number of calls of the closure in one step(); 0: 5/4 max_iter
  double tolerance_grad = 1e-7;     ///< step() ends if no element of the gradient is above it
  double tolerance_change = 1e-9;   ///< step() ends if neither weights nor loss change by more
  std::int64_t history_size = 100;  ///< number of earlier steps that approximate the curvature
  bool strong_wolfe = false;        ///< searches for a step length that satisfies the strong Wolfe conditions
};

/// L-BFGS (Liu & Nocedal, "On the limited memory BFGS method for large scale optimization", 1989), as PyTorch defines
/// it, for losses over the whole data that are computed in f32: physics-informed networks, fits, small models. One
/// step() calls the closure several times:
///
///     optim::Lbfgs optimizer(model, {.strong_wolfe = true});
///     for (int k = 0; k < 50; ++k)
///       optimizer.step([&] { return nn::mse_loss(model(x), y); });
///
/// It is no Optimizer, because each iteration needs the loss at new weights: the Trainer does not accept it, and it has
/// no loss scale. A step changes weights and history, or nothing: if the loss or a gradient is not finite, or
/// the closure throws, step() restores the weights and throws. (The line search treats a trial that is not finite as
/// too long.) Vectors are kept in f32 on the host, sums are in double; history_size * 2 + 3 numbers per weight.
class Lbfgs {
 public:
  /// Throws ArgumentError with the name of an option that is out of range.
  explicit Lbfgs(const std::vector<NamedParameter>& parameters, const LbfgsOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Lbfgs(Model& model, const LbfgsOptions& options = {}) : Lbfgs(parameters_of(model), options) {}

  const LbfgsOptions& options() const { return options_; }
  FlatParameters& parameters() { return parameters_; }
  std::int64_t iterations() const { return state_.iterations; }    ///< of all steps
  std::int64_t evaluations() const { return state_.evaluations; }  ///< calls of the closure in all steps

  /// Minimizes the loss, of one element, that `closure` returns; returns the loss before the step. step() itself calls
  /// zero_grad() and backward(). Throws NumericError if the loss or a gradient is not finite.
  double step(const std::function<Variable()>& closure);

  /// Returns the state from which a run continues with the same bits.
  StateDict state() const;
  /// Throws CheckpointError, with nothing changed, if the state belongs to another model or optimizer.
  void load_state(const StateDict& state);

 private:
  using Vector = std::vector<float>;
  /// A change of the weights and the change of the gradient that it caused.
  struct Pair {
    Vector weights, gradient;
  };
  struct State {
    std::int64_t iterations = 0, evaluations = 0;
    Vector direction{}, gradient{};  // of the last iteration; empty before the first
    double length = 0;               // of the last iteration's step along the direction
    double curvature = 1;            // first approximation of the inverse Hessian: this number times the identity
    std::deque<std::shared_ptr<const Pair>> history{};  // oldest first
  };
  /// Loss and gradient at one length of a step along the direction, and the slope of the loss there.
  struct Trial {
    double length = 0, loss = 0, slope = 0;
    Vector gradient{};
  };

  Vector weights() const;
  Vector moved(const Vector& from, double length) const;
  void put(const Vector& weights);
  Trial evaluate(const std::function<Variable()>& closure);
  Trial at(double length, const Vector& from, const std::function<Variable()>& closure);
  void remember(const Vector& gradient);
  Vector next_direction(const Vector& gradient) const;
  Trial search(double first, const Vector& from, const Trial& start, const std::function<Variable()>& closure);
  Trial zoom(Trial a, Trial b, int trials, const Vector& from, const Trial& start,
             const std::function<Variable()>& closure);
  double minimize(const std::function<Variable()>& closure);

  FlatParameters parameters_;
  LbfgsOptions options_;
  State state_;
};

}  // namespace binade::optim
