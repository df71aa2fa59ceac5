#pragma once

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "binade/cuda/device/cudnn_graph.h"
#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/plan_timing.cuh"

/// Plans of cuDNN. A plan is made once per key and stored. Making a plan and running it are separate steps, so that no
/// plan is made during graph capture.
namespace binade::cuda {

/// Returns cuDNN's handle for the context's stream, which is created at the first call. REQUIRES that the caller holds
/// cudnn_mutex().
cudnnHandle_t cudnn_handle();
/// Returns the mutex that guards cuDNN's handle and plans.
std::mutex& cudnn_mutex();

/// The data of one tensor of a plan: device memory, or the address of a number in host memory that is passed by value.
struct PlanTensor {
  std::int64_t id;
  const void* data;
};
/// Runs a plan on the context's stream. Throws Failure, with `what`, if cuDNN refuses.
void execute(const EnginePlan& plan, const std::vector<PlanTensor>& tensors, const char* what);

/// The functions that make plans for the keys of one family (convolution, attention). A Key must have a unique text(),
/// and numbers().
template <class Key>
struct Planner {
  const char* what;                           ///< the family in error texts, such as "a convolution"
  std::string_view family;                    ///< the first word of a key's text
  int forms;                                  ///< number of forms (graphs that compute a key)
  std::string (*no_library)(const Key& key);  ///< returns why cuDNN is not used for a key; empty if it is used
  std::vector<EngineChoice> (*propose)(const Key& key, const EngineTarget& target);
  std::optional<EnginePlan> (*restore)(const Key& key, const EngineChoice& choice, const EngineTarget& target);
};

/// The cuDNN plans of one family, by key. Thread-safe.
template <class Key>
class PlanCache {
 public:
  explicit PlanCache(const Planner<Key>& planner) : planner_(planner) {}

  /// Calls use(plan) and returns true if cuDNN has a plan for `key`, otherwise returns false. use(plan) may be called
  /// with several plans, because plans are timed, or because cuDNN made a plan that it cannot run. It must therefore
  /// write all of its results, and not read them.
  template <class Use>
  bool with_plan(const Key& key, Use&& use) {
    if (is_for_own_kernels([&] { return key.text(); })) return false;
    const std::lock_guard lock(cudnn_mutex());
    while (const std::optional<EnginePlan>& plan = plan_of(key, use)) {
      try {
        use(*plan);
        return true;
      } catch (const Failure& failure) {
        if (failure.status() != Status::kUnsupported) throw;
        refuse(key, plan->choice, failure.what());
      }
    }
    return false;
  }
  /// Returns true if cuDNN has a plan for `key`.
  bool has_plan(const Key& key) {
    if (is_for_own_kernels([&] { return key.text(); })) return false;
    const std::lock_guard lock(cudnn_mutex());
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second.has_value();
    if (!adopted_.contains(key.text()) && plan_chooser().settings().timed) {
      const auto [open, added] = proposals_.try_emplace(key);
      if (added) open->second = proposals(key);
      return !open->second.empty();
    }
    return plan_of(key, [](const EnginePlan&) {}).has_value();
  }

  /// Returns the plans as text: a title with versions and device, then one line per key.
  std::string text() {
    const std::lock_guard lock(cudnn_mutex());
    std::set<std::string> lines;
    for (const auto& [key, plan] : plans_) lines.insert(engine_line(key.text(), plan ? plan->choice : EngineChoice{}));
    for (const auto& [key, choice] : adopted_) lines.insert(engine_line(key, choice));
    return plans_text(title(), lines);
  }

  /// Adopts the plans of a text() with the same title. Returns their number.
  int use(const std::string& text) {
    const std::lock_guard lock(cudnn_mutex());
    const int taken = take_plans(
        text, title(), [this](const std::string& line) { return parse(line); },
        [this](const EngineLine& plan) {
          adopted_.insert_or_assign(plan.key, plan.choice);
          return true;
        });
    // A key that already has another plan gets the one from the text on its next use.
    std::erase_if(plans_, [this](const auto& plan) { return adopted_.contains(plan.first.text()); });
    return taken;
  }

  /// Drops all plans.
  void forget() {
    const std::lock_guard lock(cudnn_mutex());
    plans_.clear();
    proposals_.clear();
    adopted_.clear();
    refused_.clear();
  }

 private:
  /// Hash function of the map of plans.
  struct Hash {
    std::size_t operator()(const Key& key) const { return hash_of(key.numbers()); }
  };
  static constexpr std::size_t kMostTimed = 12;  ///< most plans timed for one key
  /// A plan with more bytes of workspace is not timed once another plan has worked.
  static constexpr std::int64_t kMostTried = std::int64_t{256} << 20;

  /// Returns the title of text(): versions, device, and whether the order of additions is free.
  static std::string title() {
    return "cudnn " + std::to_string(cudnnGetVersion()) + device_title() +
           (plan_chooser().settings().any_order ? " in any order" : "");
  }
  /// Returns the device and the conditions for which engines are chosen.
  static EngineTarget target() {
    const PlanSettings& settings = plan_chooser().settings();
    return {.handle = cudnn_handle(),
            .multiprocessors = context().multiprocessors,
            .any_order = settings.any_order,
            .mode_b = settings.timed};
  }
  /// Parses a line of text(). Returns std::nullopt for a line that is damaged or of another family.
  std::optional<EngineLine> parse(const std::string& line) const {
    return parse_engine_line(line, planner_.family, planner_.forms);
  }

  /// Throws Failure if a graph is being captured, because choosing a plan runs kernels.
  void refuse_in_capture() const {
    require_no_capture((std::string(planner_.what) + " of new sizes (run the step once before)").c_str());
  }

  /// Drops the plan of a key, which is then chosen again among the other engines.
  void refuse(const Key& key, const EngineChoice& choice, const char* why) {
    const std::string line = engine_line(key.text(), choice);
    add_note(line + ": cuDNN made this plan and cannot run it: " + why);
    refused_.insert(line);
    plans_.erase(key);
  }
  /// Returns true if refuse() was called for this key and engine.
  bool is_refused(const Key& key, const EngineChoice& choice) const {
    return !refused_.empty() && refused_.contains(engine_line(key.text(), choice));
  }
  /// Makes the plan of a known choice. Returns std::nullopt if cuDNN cannot, or if the engine was refused.
  std::optional<EnginePlan> restored(const Key& key, const EngineChoice& choice) const {
    return is_refused(key, choice) ? std::nullopt : planner_.restore(key, choice, target());
  }

  /// Returns the plan of an operation, which is chosen at the first call; std::nullopt if our own kernel runs it.
  template <class Use>
  const std::optional<EnginePlan>& plan_of(const Key& key, Use&& use) {
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
    return plans_.emplace(key, make(key, use)).first->second;
  }

  /// Returns the engines that may run the operation; none, with a note, if our own kernel runs it.
  std::vector<EngineChoice> proposals(const Key& key) {
    refuse_in_capture();
    if (const std::string why = planner_.no_library(key); !why.empty()) {
      note_own(key.text(), why);
      return {};
    }
    std::vector<EngineChoice> all = planner_.propose(key, target());
    std::erase_if(all, [&](const EngineChoice& choice) { return !choice.library || is_refused(key, choice); });
    std::ranges::stable_partition(all, [](const EngineChoice& choice) { return !choice.is_compiled; });
    if (all.empty()) note_own(key.text(), "cuDNN has no engine for it");
    return all;
  }

  /// Makes the plan of a key: that of an earlier run, or a new choice.
  template <class Use>
  std::optional<EnginePlan> make(const Key& key, Use&& use) {
    refuse_in_capture();
    const std::string name = key.text();
    if (const auto earlier = adopted_.extract(name); !earlier.empty()) {
      if (!earlier.mapped().library) {
        note_own(name, "it was when the run began");
        return {};
      }
      if (std::optional<EnginePlan> plan = restored(key, earlier.mapped())) return plan;
      add_note(name + ": cuDNN no longer has the engine of an earlier run and chooses again");
    }
    const auto open = proposals_.extract(key);
    const std::vector<EngineChoice> all = open.empty() ? proposals(key) : open.mapped();
    if (all.empty()) return {};
    std::optional<EnginePlan> plan = choose(key, name, all, use);
    if (!plan) note_own(name, "cuDNN can make a plan for none of its engines");
    return plan;
  }

  /// Chooses among the engines `all`: the choice that this machine has stored or, if there is none, the fastest.
  template <class Use>
  std::optional<EnginePlan> choose(const Key& key, const std::string& name, const std::vector<EngineChoice>& all,
                                   Use&& use) {
    const auto kept_choice = [&](const PlanChooser::Selection& selection) -> std::optional<EngineChoice> {
      const std::optional<std::string> line = selection.line();
      const std::optional<EngineLine> kept = line ? parse(*line) : std::nullopt;
      if (!kept || kept->key != name || !kept->choice.library) return {};
      return kept->choice;
    };
    if (const auto kept = kept_choice(PlanChooser::Selection(plan_chooser(), name)))
      if (std::optional<EnginePlan> plan = restored(key, *kept)) return plan;
    std::vector<std::optional<EnginePlan>> plans(all.size());
    const auto planned = [&](std::size_t i) {
      plans[i].reset();
      if (std::optional<EnginePlan> plan = restored(key, all[i])) plans[i].emplace(std::move(*plan));
      return plans[i].has_value();
    };
    double best = 0;
    const auto time = [&](std::size_t i) -> std::optional<double> {
      // Workspace never shrinks, so a plan that is only tried must not enlarge it much.
      if (!planned(i) || (best > 0 && plans[i]->workspace > kMostTried)) return {};
      return seconds_of([&] { use(*plans[i]); }, best);
    };
    // Engines that cuDNN must compile come last, and only the first of them that works is used, because making a plan
    // of such an engine takes about a second, in every process.
    const auto contained = static_cast<std::size_t>(
        std::ranges::count_if(all, [](const EngineChoice& choice) { return !choice.is_compiled; }));
    std::optional<std::size_t> found;
    if (contained == 0)  // before the lock is taken, so that other processes do not wait while cuDNN compiles
      for (std::size_t i = 0; !found && i < all.size(); ++i)
        if (planned(i)) found = i;
    PlanChooser::Selection selection(plan_chooser(), name);
    if (const auto kept = kept_choice(selection))  // another process chose meanwhile
      if (std::optional<EnginePlan> plan = restored(key, *kept)) return plan;
    if (contained > 0) found = selection.fastest(contained < kMostTimed ? contained : kMostTimed, time, planned);
    for (std::size_t i = contained; !found && i < all.size(); ++i)
      if (planned(i)) found = i;
    if (!found) return {};
    selection.keep(engine_line(name, all[*found]));
    return std::move(*plans[*found]);
  }

  /// Adds a note that our own kernel computes a key.
  static void note_own(const std::string& name, const std::string& why) {
    add_note(name + ": computed by Binade's own kernel: " + why);
  }

  Planner<Key> planner_;
  std::unordered_map<Key, std::optional<EnginePlan>, Hash> plans_;
  std::unordered_map<Key, std::vector<EngineChoice>, Hash>
      proposals_;                                          // proposals of has_plan() for keys without a plan yet
  std::set<std::string> refused_;                          // lines of engines whose plans could not be run
  std::unordered_map<std::string, EngineChoice> adopted_;  // choices from use(), by their key's text, until used
};

}  // namespace binade::cuda
