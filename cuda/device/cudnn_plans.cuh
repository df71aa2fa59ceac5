#pragma once

#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/device/context.cuh"
#include "cuda/device/cudnn_graph.h"
#include "cuda/device/libraries.cuh"

/// Plans of cuDNN's. One is made once for each key and kept; making one and running one are two things, so that nothing
/// is made while a graph is captured.
namespace binade::cuda {

/// The cuDNN of this process and the device that is open.
struct CudnnFacts {
  std::size_t version = 0;    ///< 10000 major + 100 minor + patch
  int major = 0, minor = 0;   ///< of the device's architecture
  std::string title() const;  ///< the line above its plans in a text of plans
};
CudnnFacts cudnn_facts();

/// On the context's stream. Made at the first call, kept for the process; used under cudnn_mutex().
cudnnHandle_t cudnn_handle();
std::mutex& cudnn_mutex();

/// A tensor of a plan that is run: device memory, or the number itself for one that is given by value.
struct PlanTensor {
  std::int64_t id;
  const void* data;
};
void execute(const EnginePlan& plan, const std::vector<PlanTensor>& tensors, const char* what);

/// How one family of keys is planned. A key has text(), which no two share, and numbers().
template <class Key>
struct Planner {
  const char* what;         ///< "a convolution"
  std::string_view family;  ///< the first word of a key's text
  int forms;
  std::string (*no_library)(const Key& key);  ///< why cuDNN is not asked; empty where it is
  std::vector<EngineChoice> (*propose)(const Key& key, const EngineTarget& target);
  std::optional<EnginePlan> (*restore)(const Key& key, const EngineChoice& choice, const EngineTarget& target);
};

template <class Key>
class PlanCache {
 public:
  explicit PlanCache(const Planner<Key>& planner) : planner_(planner), title_(cudnn_facts().title()) {}

  /// Runs use(plan) and returns true where cuDNN has a plan for `key`.
  template <class Use>
  bool with_plan(const Key& key, Use&& use) {
    const std::lock_guard lock(cudnn_mutex());
    const std::optional<EnginePlan>& plan = plan_of(key);
    if (plan) use(*plan);
    return plan.has_value();
  }

  std::string text() {
    const std::lock_guard lock(cudnn_mutex());
    std::set<std::string> lines;
    for (const auto& [key, plan] : plans_) lines.insert(engine_line(key.text(), plan ? plan->choice : EngineChoice{}));
    for (const auto& [key, choice] : taken_over_) lines.insert(engine_line(key, choice));
    return plans_text(title_, lines);
  }

  int use(const std::string& text) {
    const std::lock_guard lock(cudnn_mutex());
    const auto parse = [this](const std::string& line) {
      return parse_engine_line(line, planner_.family, planner_.forms);
    };
    const int taken = take_plans(text, title_, parse, [this](const EngineLine& plan) {
      taken_over_.insert_or_assign(plan.key, plan.choice);
      return true;
    });
    // What was planned in another way before is planned again when it is asked for.
    std::erase_if(plans_, [this](const auto& plan) { return taken_over_.contains(plan.first.text()); });
    return taken;
  }

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const { return hash_of(key.numbers()); }
  };

  const std::optional<EnginePlan>& plan_of(const Key& key) {
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
    require_no_capture((std::string(planner_.what) + " of new sizes (run the step once before)").c_str());
    return plans_.emplace(key, make(key)).first->second;
  }

  std::optional<EnginePlan> make(const Key& key) {
    const std::string name = key.text();
    if (const std::string why = planner_.no_library(key); !why.empty()) return note_own(name, why);
    const EngineTarget target{.handle = cudnn_handle(), .multiprocessors = context().multiprocessors};
    if (const auto earlier = taken_over_.extract(name); !earlier.empty()) {
      if (!earlier.mapped().library) return note_own(name, "it was when the run began");
      if (std::optional<EnginePlan> plan = planner_.restore(key, earlier.mapped(), target)) return plan;
      add_note(name + ": cuDNN no longer has the engine of an earlier run and chooses again");
    }
    for (const EngineChoice& choice : planner_.propose(key, target))
      if (std::optional<EnginePlan> plan = planner_.restore(key, choice, target)) return plan;
    return note_own(name, "cuDNN has no deterministic engine for it");
  }

  static std::nullopt_t note_own(const std::string& name, const std::string& why) {
    add_note(name + ": computed by Binade's own kernel: " + why);
    return std::nullopt;
  }

  Planner<Key> planner_;
  std::string title_;
  std::unordered_map<Key, std::optional<EnginePlan>, Hash> plans_;
  std::unordered_map<std::string, EngineChoice> taken_over_;  // by name of their key, until it is asked for
};

}  // namespace binade::cuda
