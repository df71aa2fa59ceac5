#pragma once

#include <binade.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// Typical mistakes of users as tiny programs, and words that Binade's message must contain: the place (an op, a module
/// path, a member or an option) and the remedy. docs/mistakes.md lists them.
namespace binade::mistakes {

struct Mistake {
  std::string_view name;                ///< the mistake, in the words of a user who searches for it
  std::vector<std::string_view> words;  ///< all must appear in the error or in the warnings
  std::function<void()> make;           ///< throws an Error, or calls tell()
  std::string_view page_text{};         ///< text for the page if the message depends on the machine; empty: the message
};
struct Subject {
  std::string_view title;
  std::vector<Mistake> mistakes;
};

Subject shapes();
Subject images();
Subject dtypes();
Subject autograd();
Subject second_derivatives();
Subject registration();
Subject modes();
Subject loops();
Subject optimizers();
Subject schedules();
Subject steps();
Subject losses();
Subject numbers();
Subject several_models();
Subject policies();
Subject data();
Subject checkpoints();
Subject runs();
Subject extensions();
Subject threads();

/// A warning or an incident, thrown by tell() so that the list handles it like an error.
struct Told : Error {
  using Error::Error;
};
/// Throws the warnings and incidents of a step as Told; does nothing if there are none.
void tell(const amp::StepResult& result);

/// N(0, spread) with the given shape.
Tensor normal(const Shape& shape, std::uint64_t seed = 1, double spread = 1);
/// Class ids below `classes`, i32.
Tensor labels(const Shape& shape, std::int64_t classes);
/// A leaf that requires a gradient.
Variable leaf(const Shape& shape, std::uint64_t seed = 1);
/// A new folder, which is removed at the end of the process.
std::string temporary_folder();
void write_file(const std::string& path, std::string_view content);

struct Batch {
  Tensor x{}, y{};
  io::BatchOrigin origin{};
  Batch without(std::span<const std::int64_t> rows) const {
    return {io::without_rows(x, rows), io::without_rows(y, rows), origin.without(rows)};
  }
};
/// 8 samples: x (8, 4), and class ids y (8) below 3.
Batch batch();

/// (N, 4) -> (N, 3)
struct Net : nn::Module {
  nn::Linear first{{.in = 4, .out = 8}}, head{{.in = 8, .out = 3}};
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("head", head);
  }
  Variable forward(const Variable& x) override { return head(relu(first(x))); }
};

template <class Model>
auto loss_of(Model& model) {
  return [&model](const Batch& b) { return nn::cross_entropy(model(b.x), b.y); };
}

/// A runtime with one thread, a model, an optimizer and a trainer.
template <class Model = Net>
struct Training {
  Runtime runtime{{.seed = 1, .threads = 1}};
  Model model{};
  optim::Adam optimizer{model, {.lr = 1e-2}};
  amp::Trainer trainer;
  explicit Training(amp::TrainerOptions options = {}) : trainer(runtime, model, optimizer, std::move(options)) {}
  amp::StepResult step(const Batch& b = batch()) { return trainer.step(b, loss_of(model)); }
};

}  // namespace binade::mistakes
