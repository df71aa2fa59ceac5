#include "binade/optim/custom_optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/functions/elementwise.h"
#include "binade/core/error.h"
#include "binade/optim/device_updates.h"
#include "tests/optim/muon.h"
#include "tests/optim/rmsprop.h"
#include "tests/optim/toy.h"

namespace binade::optim {
namespace {

class CustomOptimizerTest : public ::testing::Test {
 protected:
  void set_gradients(int t, float factor = 1) {
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      std::vector<float> g = toy::gradient(parameters_[p].variable.value().numel(), static_cast<std::uint32_t>(p), t);
      for (float& x : g) x *= factor;
      toy::set_gradient(parameters_[p].variable, g);
    }
  }
  std::vector<float> weights(std::size_t p) const { return parameters_[p].variable.value().to_vector<float>(); }
  UpdateProof prove(Optimizer& optimizer, const StepInput& input) {
    return optimizer.prove_finite(input, scan_gradients(optimizer.parameters()));
  }

  Runtime runtime_{{.seed = 3, .threads = 2}};
  std::vector<NamedParameter> parameters_ = toy::parameters();
};

/// Counts calls of update() and writes the values that a test sets.
struct Probe final : CustomOptimizer {
  Probe(std::vector<NamedParameter> parameters, std::function<void(ParameterUpdate&)> f, StateList state = {"s"})
      : CustomOptimizer(std::move(parameters), {.kind = "probe", .lr = 0.1, .state = std::move(state)}),
        f_(std::move(f)) {}
  void update(ParameterUpdate& u) const override {
    ++computed;
    f_(u);
  }
  mutable int computed = 0;

 private:
  std::function<void(ParameterUpdate&)> f_;
};

using Matrix = std::vector<double>;  // row-major

Matrix product(const Matrix& a, const Matrix& b, std::size_t rows, std::size_t inner, std::size_t cols) {
  Matrix y(rows * cols);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < inner; ++k)
      for (std::size_t j = 0; j < cols; ++j) y[i * cols + j] += a[i * inner + k] * b[k * cols + j];
  return y;
}

/// Returns the result of Newton-Schulz iterations in double, for a matrix with rows <= cols.
Matrix orthogonal(Matrix x, std::size_t rows, std::size_t cols) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::sqrt(squares) + 1e-7;
  for (int i = 0; i < 5; ++i) {
    Matrix turned(x.size());
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) turned[c * rows + r] = x[r * cols + c];
    const Matrix a = product(x, turned, rows, cols, rows), aa = product(a, a, rows, rows, rows);
    Matrix b(a.size());
    for (std::size_t k = 0; k < b.size(); ++k) b[k] = 2.0315 * aa[k] - 4.775 * a[k];
    const Matrix bx = product(b, x, rows, rows, cols);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = 3.4445 * x[k] + bx[k];
  }
  return x;
}

TEST_F(CustomOptimizerTest, MuonMatchesItsFormulaInDouble) {
  const std::vector<NamedParameter> list{{"wide", toy::variable({3, 7}, 1)}, {"bias", toy::variable({5}, 2), false}};
  user::Muon muon(list, {.lr = 0.05, .weight_decay = 0.1, .vector_lr_factor = 0.5});
  std::vector<double> w = toy::widened(list[0].variable.value().to_vector<float>()), m(21);
  std::vector<double> b = toy::widened(list[1].variable.value().to_vector<float>()), m1(5), v1(5);
  for (int t = 1; t <= 10; ++t) {
    const std::vector<float> g = toy::gradient(21, 0, t), h = toy::gradient(5, 1, t);
    toy::set_gradient(list[0].variable, g);
    toy::set_gradient(list[1].variable, h);
    muon.step({.inverse_scale = 0.5, .lr = 0.05});
    Matrix direction(21);
    for (std::size_t i = 0; i < 21; ++i) {
      m[i] = 0.95 * m[i] + 0.5 * g[i];
      direction[i] = 0.5 * g[i] + 0.95 * m[i];
    }
    direction = orthogonal(direction, 3, 7);
    for (std::size_t i = 0; i < 21; ++i) w[i] = w[i] * (1 - 0.05 * 0.1) - 0.05 * direction[i];
    for (std::size_t i = 0; i < 5; ++i) {
      m1[i] = 0.9 * m1[i] + 0.1 * 0.5 * h[i];
      v1[i] = 0.95 * v1[i] + 0.05 * 0.25 * h[i] * h[i];
      b[i] -= 0.025 * (m1[i] / (1 - std::pow(0.9, t))) / (std::sqrt(v1[i] / (1 - std::pow(0.95, t))) + 1e-8);
    }
  }
  for (std::size_t i = 0; i < 21; ++i) EXPECT_NEAR(list[0].variable.value().to_vector<float>()[i], w[i], 2e-5) << i;
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(list[1].variable.value().to_vector<float>()[i], b[i], 2e-5) << i;
}

TEST_F(CustomOptimizerTest, AProvedUpdateIsCommittedWithoutASecondComputation) {
  Probe probe(parameters_, [](ParameterUpdate& u) {
    u.state("s") = u.state("s") + u.gradient;
    u.weight = u.weight - u.target.lr * u.state("s");
  });
  set_gradients(1);
  const std::vector<float> before = weights(2);
  const UpdateProof proof = prove(probe, {.lr = 0.1});
  EXPECT_TRUE(proof.finite);
  EXPECT_FALSE(proof.by_bound);
  EXPECT_EQ(weights(2), before);
  EXPECT_EQ(probe.computed, 5);
  probe.step({.lr = 0.1});
  EXPECT_EQ(probe.computed, 5);
  EXPECT_NE(weights(2), before);
  prove(probe, {.lr = 0.1});
  probe.step({.lr = 0.2});
  EXPECT_EQ(probe.computed, 15) << "another input is another update";
  prove(probe, {.lr = 0.1});
  set_gradients(2);
  probe.step({.lr = 0.1});
  EXPECT_EQ(probe.computed, 25) << "so are other gradients";
  prove(probe, {.lr = 0.1});
  Tensor value = parameters_[0].variable.state()->value;
  value.fill(1);
  probe.step({.lr = 0.1});
  EXPECT_EQ(probe.computed, 35) << "and other weights";
  EXPECT_FALSE(DeviceUpdates(probe).possible());
}

/// The second gradient has the same norm and largest magnitude as the first, for which the update was proved finite.
TEST_F(CustomOptimizerTest, AProvedUpdateIsNotCommittedWithAGradientOfOtherSignsOrInAnotherOrder) {
  const Variable x = parameters_[1].variable;
  Probe probe({{"x", x}}, [](ParameterUpdate& u) { u.weight = u.weight - u.target.lr * u.gradient; });
  const std::vector<float> first{4, 1, 1, 1, 1, 1, 1};
  for (const std::vector<float>& second :
       {std::vector<float>{-4, -1, -1, -1, -1, -1, -1}, std::vector<float>{1, 4, 1, 1, 1, 1, 1}}) {
    std::vector<float> wanted = x.value().to_vector<float>();
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] -= 0.5f * second[i];
    toy::set_gradient(x, first);
    EXPECT_TRUE(prove(probe, {.lr = 0.5}).finite);
    toy::set_gradient(x, second);
    probe.step({.lr = 0.5});
    EXPECT_EQ(x.value().to_vector<float>(), wanted);
  }
}

TEST_F(CustomOptimizerTest, AnUpdateThatIsNotFiniteIsRefused) {
  bool in_state = false;
  double factor = 1;
  Probe probe(parameters_, [&](ParameterUpdate& u) {
    if (u.name != "p2.weight") return;
    (in_state ? u.state("s") : u.weight) = u.gradient * factor;
  });
  set_gradients(1);
  for (const bool state : {false, true})
    for (const double bad : {1e38, std::nan("")}) {
      in_state = state, factor = 1;
      probe.step({.lr = 0.1});
      const StateDict good = probe.state();
      const std::vector<float> before = weights(2);
      factor = bad;
      const UpdateProof proof = prove(probe, {.inverse_scale = 1e3, .lr = 0.1});
      EXPECT_FALSE(proof.finite);
      EXPECT_EQ(proof.parameter, "p2.weight");
      EXPECT_EQ(weights(2), before);
      EXPECT_EQ(probe.state().tensor("s/p2.weight").to_vector<float>(), good.tensor("s/p2.weight").to_vector<float>());
    }
}

TEST_F(CustomOptimizerTest, SixteenBitWeightsAndCopiesAreWritten) {
  const auto f = [](ParameterUpdate& u) { u.weight = u.gradient * 3.0; };
  Probe masters(parameters_, f);
  parameters_[2].variable.state()->low_copy(DType::f16);
  set_gradients(1);
  EXPECT_TRUE(prove(masters, {.lr = 1}).finite);
  masters.step({.lr = 1});
  const Variable::State& state = *parameters_[2].variable.state();
  EXPECT_EQ(state.low.to_vector<float>(), state.value.to(DType::f16).to_vector<float>());
  set_gradients(1, 60000);
  EXPECT_FALSE(prove(masters, {.lr = 1}).finite) << "the f16 copy cannot hold it";
  masters.store_weights_in(DType::bf16, true);
  masters.step({.lr = 1});
  EXPECT_EQ(parameters_[2].variable.dtype(), DType::bf16);
  for (std::size_t i = 0; i < weights(2).size(); ++i) {
    const double wanted = 180000.0 * toy::gradient(130 * 65, 2, 1)[i];
    ASSERT_NEAR(weights(2)[i], wanted, std::abs(wanted) / 128);
  }
}

TEST_F(CustomOptimizerTest, AStateResumesToTheSameBits) {
  user::Rmsprop whole(parameters_, {.momentum = 0.9, .centered = true});
  for (int t = 1; t <= 3; ++t) set_gradients(t), whole.step();
  StateDict saved;
  const StateDict state = whole.state();
  for (const auto& [name, value] : state.values()) {
    const auto* tensor = std::get_if<Tensor>(&value);
    saved.put(name, tensor != nullptr ? StateDict::Value(tensor->clone()) : value);
  }
  std::vector<NamedParameter> others = toy::parameters();
  for (std::size_t p = 0; p < others.size(); ++p) {
    Tensor value = others[p].variable.state()->value;
    value.copy_from(parameters_[p].variable.value());
  }
  user::Rmsprop resumed(others, {.momentum = 0.9, .centered = true});
  resumed.load_state(saved);
  set_gradients(4), whole.step();
  for (std::size_t p = 0; p < others.size(); ++p)
    toy::set_gradient(others[p].variable, toy::gradient(others[p].variable.value().numel(), unsigned(p), 4));
  resumed.step();
  for (std::size_t p = 0; p < others.size(); ++p)
    EXPECT_EQ(weights(p), others[p].variable.value().to_vector<float>()) << p;
  user::Muon muon(toy::parameters());
  EXPECT_THROW(muon.load_state(saved), CheckpointError);
  StateDict lacking;
  for (const auto& [name, value] : saved.values())
    if (name != "momentum/p0.weight") lacking.put(name, value);
  EXPECT_THROW(resumed.load_state(lacking), CheckpointError);
}

TEST_F(CustomOptimizerTest, MistakesInAnUpdateAreErrors) {
  const auto error_of = [&](std::function<void(ParameterUpdate&)> f) -> std::string {
    Probe probe(toy::parameters(), std::move(f));
    Variable v = probe.parameters().slices()[0].variable;
    toy::set_gradient(v, toy::gradient(15, 0, 1));
    try {
      probe.step({.lr = 0.1});
    } catch (const Error& error) {
      EXPECT_EQ(probe.updates(), 0);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of([](ParameterUpdate& u) {
              u.weight = Tensor::zeros({3, 5});
            }),
            "probe: update() of p0.weight wanted a new weight in f32 (5, 3), got f32 (3, 5)");
  EXPECT_EQ(error_of([](ParameterUpdate& u) { u.state("s") = Variable(); }),
            "probe: update() of p0.weight wanted a new s in f32 (5, 3), got none");
  EXPECT_EQ(error_of([](ParameterUpdate& u) { u.state("v") = u.gradient; }),
            "optimizer: p0.weight has no state tensor 'v'; list it in the settings");
  EXPECT_THROW(Probe(toy::parameters(), nullptr, {"groups"}), ArgumentError);
  EXPECT_THROW(Probe(toy::parameters(), nullptr, {"a/b"}), ArgumentError);
}

}  // namespace
}  // namespace binade::optim
