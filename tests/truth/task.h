#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/truth/batch.h"

namespace binade::truth {

/// A place in a model where a scenario can insert user code; without code, the activation passes unchanged.
struct Tap {
  /// User code that reads an activation h and a gate: one number per sample, in a shape that broadcasts to h.
  using Code = std::function<Variable(const Variable& h, const Variable& gate)>;
  Code code{};
  Variable gate{};
  Variable operator()(const Variable& h) const { return code ? code(h, gate) : h; }
};

struct TaskOptions {
  std::uint64_t seed = 0;          ///< of the data set
  bool spare_layer = false;        ///< adds a layer "spare" that forward never calls, in models that support it
  bool tied = false;               ///< the head of the GPT uses the token table as its weight
  bool linear_recurrence = false;  ///< no tanh between the steps of a recurrent model
};

/// A model, its data and its loss, as a user would write them.
///
/// Every batch has the fields "gate" (for `inner`) and "gate_out" (for `outer`). Both hold the same number per sample.
class Task {
 public:
  explicit Task(const TaskOptions& options) : options_(options) {}
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  virtual nn::Module& net() = 0;
  virtual Batch batch(const io::BatchOrigin& origin) const = 0;
  /// The closure of a step.
  Variable run(const Batch& b) {
    inner.gate = b["gate"];
    outer.gate = b["gate_out"];
    return loss(b);
  }
  /// A module that the model does not contain and the loss calls (a teacher, a target network); null: none.
  virtual nn::Module* outside() { return nullptr; }

  Tap inner;  ///< inside the module at inner_path, before layers with weights
  Tap outer;  ///< in the loss, on the model's prediction; outside of every module
  std::string inner_path;

 protected:
  virtual Variable loss(const Batch& b) = 0;
  std::uint64_t seed() const { return options_.seed; }
  const TaskOptions& options() const { return options_; }

 private:
  TaskOptions options_;
};

/// Describes a model, so that scenarios can choose those that fit.
struct ModelEntry {
  std::string name{};
  std::unique_ptr<Task> (*make)(const TaskOptions&) = nullptr;
  std::string input{};       ///< a floating field that an op reads; empty: none
  std::string target{};      ///< a floating target; empty: none
  std::string labels{};      ///< a field of class ids; empty: none
  std::int64_t classes = 0;  ///< number of legal values of `labels`
  std::string tokens{};      ///< a field of table indices; empty: none
  std::int64_t rows = 0;     ///< of that table
  std::string mask{};        ///< an additive attention mask; empty: none
  double lr = 3e-3;
};

std::span<const ModelEntry> models();
const ModelEntry& model_named(const std::string& name);

template <class T>
std::unique_ptr<Task> make_task(const TaskOptions& options) {
  return std::make_unique<T>(options);
}

}  // namespace binade::truth
