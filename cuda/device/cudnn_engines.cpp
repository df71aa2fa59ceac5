#include <algorithm>
#include <array>

#include "binade/cuda/device/cudnn_graph.h"
#include "binade/cuda/device/failure.h"

/// Finds cuDNN's engines for a graph, selects those that keep Binade's guarantees, and makes their plans.
namespace binade::cuda {
namespace {

/// Returns true if an engine that has this numerical note is not admissible.
bool breaks_a_guarantee(cudnnBackendNumericalNote_t note, const EngineRequirements& requirements,
                        const EngineTarget& target) {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return requirements.tensor_cores == TensorCores::kNone;
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return !target.any_order;
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: return false;
    default: return true;
  }
}

bool keeps_guarantees(const Descriptor& engine, const EngineRequirements& requirements, const EngineTarget& target) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(engine.raw(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                 static_cast<std::int64_t>(notes.size()), &count, notes.data()),
        "an engine's notes");
  const auto end = notes.begin() + count;
  if (requirements.tensor_cores == TensorCores::kOnly &&
      std::find(notes.begin(), end, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) == end)
    return false;
  return std::none_of(notes.begin(), end, [&](auto note) { return breaks_a_guarantee(note, requirements, target); });
}

/// Returns true if the engine's kernel is compiled when a plan is made, false if cuDNN contains it.
bool is_compiled(const Descriptor& engine) {
  std::array<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> notes{};
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(engine.raw(), CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                 static_cast<std::int64_t>(notes.size()), &count, notes.data()),
        "an engine's notes");
  return std::find(notes.begin(), notes.begin() + count, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) !=
         notes.begin() + count;
}

/// Fills the descriptors in `to`, which must exist before the call. Returns the number of filled descriptors.
std::int64_t get_descriptors(const Descriptor& from, cudnnBackendAttributeName_t name, std::vector<Descriptor>& to) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Descriptor& d : to) raw.push_back(d.raw());
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(from.raw(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()),
                                 &count, raw.data()),
        "cudnnBackendGetAttribute");
  return std::min(count, static_cast<std::int64_t>(raw.size()));
}

std::vector<Descriptor> make(cudnnBackendDescriptorType_t type, std::int64_t count) {
  std::vector<Descriptor> all;
  for (std::int64_t i = 0; i < count; ++i) all.emplace_back(type);
  return all;
}

/// Returns the engine configurations that heuristics of `mode` propose, the fastest first.
std::vector<Descriptor> proposals(const Descriptor& graph, cudnnBackendHeurMode_t mode, const EngineTarget& target) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set_one(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (target.device != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  if (!heuristics.finalized()) return {};
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                 &count, nullptr),
        "heuristics");
  std::vector<Descriptor> all = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count);
  const std::int64_t filled = get_descriptors(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, all);
  while (static_cast<std::int64_t>(all.size()) > filled) all.pop_back();
  return all;
}

/// Returns the engine of a configuration: its number and knobs (tuning parameters).
EngineChoice choice_of(const Descriptor& engine, const Descriptor& config, int form) {
  EngineChoice choice{.library = true,
                      .form = form,
                      .engine = engine.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
                      .knobs = {},
                      .is_compiled = is_compiled(engine)};
  std::vector<Descriptor> knobs = make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS);
  const std::int64_t count = get_descriptors(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  for (std::int64_t i = 0; i < count; ++i) {
    const Descriptor& knob = knobs[static_cast<std::size_t>(i)];
    cudnnBackendKnobType_t type{};
    std::int64_t one = 0;
    check(cudnnBackendGetAttribute(knob.raw(), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &one, &type),
          "a knob");
    choice.knobs.emplace_back(type, knob.integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  return choice;
}

std::optional<Descriptor> plan_of(const Descriptor& config, const EngineTarget& target) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (target.device != nullptr)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device);
  else
    plan.set_one(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  if (!plan.finalized()) return {};
  return plan;
}

std::int64_t workspace_of(const Descriptor& plan) { return plan.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE); }

/// Returns engine `index` of a graph if it supports the graph and keeps Binade's guarantees.
std::optional<Descriptor> engine_of(const OperationGraph& graph, std::int64_t index,
                                    const EngineRequirements& requirements, const EngineTarget& target) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.graph);
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {index});
  if (target.device != nullptr) engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *target.device);
  if (!engine.finalized() || !keeps_guarantees(engine, requirements, target)) return {};
  return engine;
}

/// Returns the configuration of an engine with these knobs (tuning parameters), or std::nullopt if the engine does not
/// accept them.
std::optional<Descriptor> config_of(const Descriptor& engine, const Knobs& values) {
  std::vector<Descriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& [type, value] : values) {
    Descriptor& knob = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set_one(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type));
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {value});
    if (!knob.finalized()) return {};
    raw.push_back(knob.raw());
  }
  Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!raw.empty())
    config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()),
               raw.data());
  if (!config.finalized()) return {};
  return config;
}

bool has_knob(const Descriptor& engine, cudnnBackendKnobType_t wanted) {
  std::vector<Descriptor> knobs = make(CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS);
  const std::int64_t count = get_descriptors(engine, CUDNN_ATTR_ENGINE_KNOB_INFO, knobs);
  return std::any_of(knobs.begin(), knobs.begin() + count, [=](const Descriptor& knob) {
    cudnnBackendKnobType_t type{};
    std::int64_t one = 0;
    check(cudnnBackendGetAttribute(knob.raw(), CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &one, &type),
          "a knob");
    return type == wanted;
  });
}

/// Adds engines that cut long sums into slices, which the heuristics propose for few graphs only. Each engine is added
/// with its default kernel, whose tiles are 128 x 128, and with three kernels of smaller tiles, which suit a result of
/// 64 filters. There are too many kernels to time all of them, and cuDNN only numbers them. Their tiles were inferred
/// from the workspace of a configuration, since a slice consists of whole tiles (cuDNN 9.19, for the description of an
/// H100).
void add_sliced(const OperationGraph& graph, int form, const EngineRequirements& requirements,
                const EngineTarget& target, std::vector<EngineChoice>& all) {
  constexpr std::optional<std::int64_t> kKernels[] = {
      std::nullopt,
      11,  // 64 x 64
      10,  // 64 x 128
      19,  // 64 x 64 with twice the shared memory, for deeper tiles or more tiles that are loaded in advance
  };
  const std::int64_t engines = graph.graph.integer(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
  for (std::int64_t index = 0; index < engines; ++index) {
    const std::optional<Descriptor> engine = engine_of(graph, index, requirements, target);
    if (!engine || !has_knob(*engine, CUDNN_KNOB_TYPE_SPLIT_K_SLC)) continue;
    for (const std::optional<std::int64_t> kernel : kKernels) {
      EngineChoice choice{.library = true,
                          .form = form,
                          .engine = index,
                          .knobs = {{CUDNN_KNOB_TYPE_SPLIT_K_SLC, requirements.slices}},
                          .is_compiled = is_compiled(*engine)};
      if (kernel) choice.knobs.emplace_back(CUDNN_KNOB_TYPE_KERNEL_CFG, *kernel);
      if (config_of(*engine, choice.knobs)) all.push_back(choice);
    }
  }
}

}  // namespace

std::vector<EngineChoice> proposed_engines(const OperationGraph& graph, int form,
                                           const EngineRequirements& requirements, const EngineTarget& target) {
  std::vector<EngineChoice> all;
  if (requirements.slices > 1) add_sliced(graph, form, requirements, target, all);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    if (mode == CUDNN_HEUR_MODE_B && !target.mode_b) continue;
    for (const Descriptor& config : proposals(graph.graph, mode, target)) {
      std::vector<Descriptor> engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
      if (get_descriptors(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine) != 1 ||
          !keeps_guarantees(engine[0], requirements, target))
        continue;
      EngineChoice choice = choice_of(engine[0], config, form);
      if (std::find(all.begin(), all.end(), choice) == all.end()) all.push_back(std::move(choice));
    }
  }
  return all;
}

std::optional<EnginePlan> restore_engine(OperationGraph graph, const EngineChoice& choice,
                                         const EngineRequirements& requirements, const EngineTarget& target) {
  const std::optional<Descriptor> engine = engine_of(graph, choice.engine, requirements, target);
  if (!engine) return {};
  const std::optional<Descriptor> config = config_of(*engine, choice.knobs);
  std::optional<Descriptor> plan = config ? plan_of(*config, target) : std::nullopt;
  const std::int64_t workspace = plan ? workspace_of(*plan) : 0;
  if (!plan || workspace > target.most_workspace) return {};
  return EnginePlan{choice, std::move(graph), std::move(*plan), workspace};
}

}  // namespace binade::cuda
