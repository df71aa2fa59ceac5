#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "binade/nn/mlp.h"
#include "binade/optim/ema.h"
#include "binade/optim/lbfgs.h"
#include "tests/optim/every_optimizer.h"

// Compiles and runs every call in the tables of docs/optimizers.md. The calls in this file and on the page must be the
// same.
namespace binade {
namespace {

/// Returns the text without white space: clang-format may break a call into lines.
std::string packed(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' && c != '\n') result += c;
  return result;
}

/// Calls `make` and discards the result.
void check(auto&& make) { [[maybe_unused]] const auto& made = make(); }

std::string read(const std::string& file) {
  const char* source = std::getenv("BINADE_SOURCE_DIR");
  std::ifstream stream((source != nullptr ? std::string(source) : std::string(".")) + "/" + file);
  EXPECT_TRUE(stream) << file << "; set BINADE_SOURCE_DIR";
  return {std::istreambuf_iterator<char>(stream), {}};
}

void make_all(nn::Mlp& model) {
  check([&] { return optim::Sgd(model, {.lr = 0.1, .momentum = 0.9, .nesterov = true}); });
  check([&] { return optim::Adam(model, {.lr = 1e-3, .amsgrad = true}); });
  check([&] { return optim::AdamW(model, {.lr = 1e-3, .weight_decay = 0.1}); });
  check([&] { return optim::Adamax(model, {.lr = 2e-3}); });
  check([&] { return optim::NAdam(model, {.decoupled_weight_decay = true}); });
  check([&] { return optim::RAdam(model, {.decoupled_weight_decay = true}); });
  check([&] { return optim::Rmsprop(model, {.momentum = 0.9, .centered = true}); });
  check([&] { return optim::Adagrad(model, {.lr_decay = 1e-3, .initial_accumulator_value = 0.1}); });
  check([&] { return optim::Adadelta(model, {.rho = 0.9}); });
  check([&] { return optim::Rprop(model, {.eta_minus = 0.5, .eta_plus = 1.2}); });
  check([&] { return optim::Asgd(model, {.lambd = 1e-4, .t0 = 1e6}); });
  check([&] { return optim::Adafactor(model, {.beta2_decay = -0.8}); });
  check([&] { return optim::Muon(model, {.lr = 0.02, .adamw_lr = 3e-4}); });
  check([&] { return optim::Lbfgs(model, {.strong_wolfe = true}); });
  check([&] { return optim::EmaOptions{.decay = 0.999}; });
  check([&] { return optim::Lion(model, {.lr = 1e-4}); });
  check([&] { return optim::ScheduleFreeAdamW(model, {.lr = 2.5e-3, .warmup = 1000}); });
  check([&] { return optim::Lamb(model, {.lr = 1e-3}); });
  check([&] { return optim::Lars(model, {.trust = 1e-3}); });

  check([&] { return optim::Schedule::lambda(1e-3, [](std::int64_t k) { return 1 / static_cast<double>(k); }); });
  check([&] { return optim::Schedule::multiplicative(1e-3, [](std::int64_t) { return 0.99; }); });
  check([&] { return optim::Schedule::step(1e-3, 1000, 0.1); });
  check([&] { return optim::Schedule::multi_step(1e-3, {1000, 3000}, 0.1); });
  check([&] { return optim::Schedule::constant_then(1e-3, 1.0 / 3, 5); });
  check([&] { return optim::Schedule::ramp(1e-3, 1.0 / 3, 1, 5); });
  check([&] { return optim::Schedule::exponential(1e-3, 0.999); });
  check([&] { return optim::Schedule::polynomial(1e-3, 5000, 2); });
  check([&] { return optim::Schedule::cosine(1e-3, 5000, 1e-5, 100); });
  check([&] { return optim::Schedule::cosine_restarts(1e-3, 1000, 2); });
  check([&] { return optim::Schedule::cyclic(1e-2, 1e-3, 2000, 0, optim::Schedule::Cycle::kTriangular2); });
  check([&] { return optim::Schedule::one_cycle(1e-2, 5000); });
  check([&] { return optim::Schedule::plateau(1e-3, 0.1, 10); });
  check([&] {
    return optim::Schedule::sequential({optim::Schedule::ramp(1e-3, 0.1), optim::Schedule::exponential(1e-3, 0.999)},
                                       {5});
  });
  check([&] {
    return optim::Schedule::chained(
        {optim::Schedule::exponential(1e-3, 0.999), optim::Schedule::constant_then(1, 0.5)});
  });
  check([&] {
    return optim::Schedule::sequential({optim::Schedule::cosine(1e-2, 5000), optim::Schedule::constant(1e-3)}, {5000});
  });
  check([&] { return optim::Schedule::wsd(1e-3, 5000, 500, 0, 100); });
  check([&] { return optim::Schedule::inverse_sqrt(1e-3, 4000); });
}

TEST(DocumentedCalls, AreThoseThatThisTestMakes) {
  const Runtime runtime;
  nn::Mlp model({.dim = 4, .hidden = 8});
  make_all(model);
  const std::string source = packed(read("tests/optim/documented_calls_test.cpp")), page = read("docs/optimizers.md");
  const std::regex call("\\| `(optim::[^`]*)` \\|"), row("(^|\n)\\| `");
  const auto count = [](const std::string& text, const std::regex& what) {
    return std::distance(std::sregex_iterator(text.begin(), text.end(), what), std::sregex_iterator());
  };
  for (auto found = std::sregex_iterator(page.begin(), page.end(), call); found != std::sregex_iterator(); ++found) {
    const std::string documented = "check([&]{return" + packed((*found)[1]) + ";});";
    EXPECT_NE(source.find(documented), std::string::npos) << (*found)[1];
  }
  EXPECT_EQ(count(page, call), count(source, std::regex("check\\(\\[&\\]\\{returnoptim::")));
  EXPECT_EQ(count(page, row), 2 + 16 + 16)
      << "two heads, and the 32 optimizers, averages and schedulers of torch.optim";
}

}  // namespace
}  // namespace binade
