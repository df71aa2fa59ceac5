#pragma once

#include <algorithm>
#include <cmath>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/optim/custom_optimizer.h"

namespace user {

namespace optim = binade::optim;
using binade::Shape;
using binade::Variable;

struct MuonOptions {
  double lr = 0.02;
  double momentum = 0.95;
  double weight_decay = 0;      ///< decoupled
  double vector_lr_factor = 1;  ///< factor of lr for parameters that are not matrices
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  std::vector<optim::ParameterGroup> groups{};
};

/// Muon (Jordan et al., 2024). The update of a matrix is its momentum after five Newton-Schulz iterations, which bring
/// it near the closest matrix with orthonormal rows or columns. Other parameters are updated by Adam.
class Muon final : public optim::CustomOptimizer {
 public:
  explicit Muon(std::vector<optim::NamedParameter> parameters, const MuonOptions& o = {})
      : CustomOptimizer(std::move(parameters),
                        {.kind = "muon", .lr = o.lr, .state = &Muon::state_of, .groups = o.groups}),
        options_(groups().options_of(o)) {}
  template <class Model>
  requires requires(Model& model) { optim::parameters_of(model); }
  explicit Muon(Model& model, const MuonOptions& o = {}) : Muon(optim::parameters_of(model), o) {}

  void update(optim::ParameterUpdate& u) const override {
    const MuonOptions& o = options_[u.target.parameter_class];
    if (u.target.decays) u.weight = u.weight * (1 - u.target.lr * o.weight_decay);
    if (u.weight.shape().rank() != 2) return update_vector(u, o);
    Variable& m = u.state("momentum");
    m = o.momentum * m + u.gradient;
    const double longer = std::max(1.0, static_cast<double>(m.dim(0)) / static_cast<double>(m.dim(1)));
    u.weight = u.weight - (u.target.lr * std::sqrt(longer)) * orthogonal(u.gradient + o.momentum * m);
  }

  static Variable orthogonal(Variable x) {
    const bool tall = x.dim(0) > x.dim(1);
    if (tall) x = transpose(x, 0, 1);
    x = x / (sqrt(sum(x * x)) + 1e-7);
    for (int i = 0; i < 5; ++i) {
      const Variable a = matmul(x, x, {.transpose_b = true});
      x = 3.4445 * x + matmul(2.0315 * matmul(a, a) - 4.7750 * a, x);
    }
    return tall ? transpose(x, 0, 1) : x;
  }

 private:
  static std::vector<optim::StateTensor> state_of(const std::string&, const Shape& shape) {
    if (shape.rank() == 2) return {{"momentum", shape}};
    return {{"average", shape}, {"square_average", shape}};
  }

  static void update_vector(optim::ParameterUpdate& u, const MuonOptions& o) {
    Variable &m = u.state("average"), &v = u.state("square_average");
    m = o.beta1 * m + (1 - o.beta1) * u.gradient;
    v = o.beta2 * v + (1 - o.beta2) * (u.gradient * u.gradient);
    const auto t = static_cast<double>(u.target.t);
    const Variable root = sqrt(v * (1 / (1 - std::pow(o.beta2, t)))) + o.eps;
    u.weight = u.weight - (o.vector_lr_factor * u.target.lr / (1 - std::pow(o.beta1, t))) * (m / root);
  }

  std::vector<MuonOptions> options_;
};

}  // namespace user
