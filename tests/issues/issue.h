#pragma once

#include <binade.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Training faults from public issue threads, rebuilt as small programs against Binade's public API, with the cause
/// that each thread settled on. `public_issues` trains each and compares what Binade reports with that cause.
namespace binade::issues {

/// Up to three tensors with one row per sample, so that samples can be left out.
struct Batch {
  Tensor x{}, y{}, z{};
  io::BatchOrigin origin{};
  Batch without(std::span<const std::int64_t> rows) const;
};

/// A module made of named parts.
struct Net : nn::Module {
  std::vector<std::pair<std::string, std::unique_ptr<nn::Module>>> parts{};

  void visit(nn::Visitor& v) override {
    for (auto& [name, part] : parts) v(name, *part);
  }
  template <class M, class Options>
  M& add(const std::string& name, const Options& options) {
    auto part = std::make_unique<M>(options);
    M& added = *part;
    parts.emplace_back(name, std::move(part));
    return added;
  }
  nn::Linear& linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias = true) {
    return add<nn::Linear>(name, nn::LinearOptions{.in = in, .out = out, .bias = bias});
  }
  /// A part without parameters, to give a formula its module path.
  nn::Module& formula(const std::string& name);
  /// A part with a single parameter.
  nn::Parameter& parameter(const std::string& name, const Tensor& value);
};

/// Evaluates `f` as the forward of `module`.
template <class F>
Variable inside(nn::Module& module, F&& f) {
  const nn::ModuleScope scope(module);
  return f();
}

/// The cause that the thread settled on, expressed as the reports that name it correctly. An empty list accepts
/// anything.
struct Truth {
  std::vector<std::string> ops{}, modules{};
  std::string direction = "forward";
  std::optional<std::int64_t> sample{};  ///< row of the faulty batch, if that sample alone causes the fault
  std::vector<amp::CauseClass> classes{};
  std::string remedy{};
  std::vector<amp::WarningKind> warnings{};  ///< kinds of warning that name the cause
  std::vector<std::string> refusal{};        ///< words of an error that names the cause
  bool silent = false;                       ///< no number goes bad: only a warning or an error can name the cause
};

/// A training run of the rebuilt program, and its results.
struct Run {
  Net net{};
  amp::TrainerOptions options{};
  std::function<std::unique_ptr<optim::Optimizer>(Net&)> optimizer{};  ///< empty: Adam, lr 1e-3
  std::function<Variable(const Batch&)> loss{};
  std::vector<amp::MicroBatches<Batch>> steps{};
  std::function<void(amp::Trainer&)> afterwards{};

  // ---- results
  std::vector<std::string> failed_checks{};  ///< checks that the program reproduces the thread's mechanism
  std::vector<amp::Incident> incidents{};
  std::vector<amp::Warning> warnings{};
  std::string error{};
  std::int64_t committed = 0;
  bool state_finite = true;
  bool last_committed = false;

  void check(bool holds, const std::string& what) {
    if (!holds) failed_checks.push_back(what);
  }
  /// Two healthy steps, a faulty one, and two healthy ones.
  void fault_between(const std::function<Batch(std::uint64_t seed)>& healthy, const Batch& faulty);
  /// `count` steps of batches drawn by `draw`.
  void repeat(std::int64_t count, const std::function<Batch(std::uint64_t seed)>& draw);
  /// The loss with parameters and batch in f64, before training.
  double loss_in_double(const Batch& batch);
  void train(Runtime& runtime);
};

struct Issue {
  std::string_view name, url, cause, precision;
  Truth truth{};
  void (*build)(Run& run);  ///< may throw, as the program of the thread would
};

std::vector<Issue> rounded_constants();
std::vector<Issue> masks();
std::vector<Issue> overflows();
std::vector<Issue> range_of_f32();
std::vector<Issue> singularities();
std::vector<Issue> losses();
std::vector<Issue> data_faults();
std::vector<Issue> silent_faults();

/// N(0, scale) with the given shape.
Tensor normal(std::uint64_t seed, const Shape& shape, double scale = 1);
/// Class ids below `classes`.
Tensor labels(std::uint64_t seed, const Shape& shape, std::int64_t classes);
Batch batch_of(Tensor x, Tensor y, Tensor z = {});
/// Overwrites row `row` of dimension 0 (f32) with `value`.
void fill_row(Tensor& tensor, std::int64_t row, double value);
/// The fp16 policy with modules that also compute and store their elementwise ops and reductions in f16, as
/// `model.half()` does in PyTorch.
amp::Policy half_in(const std::string& glob);
/// `value` rounded to f16.
double to_half(double value);

}  // namespace binade::issues
