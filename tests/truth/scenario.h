#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/truth/evidence.h"

namespace binade::truth {

/// How a scenario's claim about its own fault is verified before the report is judged (trial.cpp).
enum class Proof {
  kSingular,  ///< in f64 the same op is not finite either
  kOverflow,  ///< in f64 the op's result is beyond the range of the dtype that it is stored in
  kRounded,   ///< in f64 the step is finite and the op's result is within that range
  kInput,     ///< the batch holds the bad value, by construction
  kRefused,   ///< the closure throws: an index out of range
  kMask,      ///< a softmax reads a row of -inf, by construction; the same op fails in f64
  kState,     ///< the state holds the bad value, by construction
  kScale,     ///< not finite at the step's loss scale, finite at 1
};

/// The truth about a fault: the statements of a correct report.
struct Truth {
  Proof proof = Proof::kSingular;
  std::vector<std::string> ops{};      ///< names of the first bad op; empty: the op that evidence.h finds
  std::vector<std::string> modules{};  ///< its acceptable module paths; empty: the path that evidence.h finds
  std::string state_path{};            ///< kState: path of the parameter or buffer
  std::vector<std::int64_t> rows{};    ///< samples that cause it, ascending; empty: no single sample does
  std::vector<std::string> classes{};  ///< acceptable classes, by name or part of a name
  bool recovers = true;                ///< after a correct remedy, the loss equals that of a run without the fault
  bool must_fail = true;               ///< false: the step may be finite; the fault must be detected also then
};

/// A fault that a scenario plants into a model that fits.
struct Scenario {
  std::string family{}, name{};
  std::vector<std::string> precisions{"fp32", "bf16", "fp16"};
  std::function<bool(const ModelEntry&)> fits = [](const ModelEntry&) { return true; };
  std::function<void(SessionOptions&, Draw&)> configure = [](SessionOptions&, Draw&) {};
  bool from_the_start = false;  ///< the fault is present from the first step
  /// Code that is part of the program from its first step on.
  std::function<void(Session&, Draw&)> prepare = [](Session&, Draw&) {};
  /// Plants the fault into the batch of the step to come, or into the state.
  std::function<Truth(Session&, Batch&, Draw&)> strike{};
};

/// How a silent fault is verified: by one forward and backward outside of the trainer.
enum class Silence {
  kSwallowed,   ///< an op overflows, and loss and gradients are finite
  kNoGradient,  ///< parameters without a gradient, or with a gradient of exactly 0
  kUpdate,      ///< by construction of the learning rate
};

/// A fault that makes no result non-finite. A right warning names its place: the op that overflows, or a module that
/// learns nothing. A fault of the updates has no place, and any warning is right.
struct SilentScenario {
  std::string family{}, name{};
  std::vector<std::string> precisions{"fp32", "bf16", "fp16"};
  std::function<bool(const ModelEntry&)> fits = [](const ModelEntry&) { return true; };
  std::function<void(SessionOptions&, Draw&)> configure = [](SessionOptions&, Draw&) {};
  std::function<void(Session&, Draw&)> prepare = [](Session&, Draw&) {};
  Silence silence = Silence::kUpdate;
  std::int64_t steps = 200;
};

std::vector<Scenario> scenarios();
std::vector<SilentScenario> silent_scenarios();

/// The families, one file of faults/ each.
std::vector<Scenario> singularity_faults();
std::vector<Scenario> rounding_faults();
std::vector<Scenario> overflow_faults();
std::vector<Scenario> mask_faults();
std::vector<Scenario> sample_faults();
std::vector<Scenario> norm_faults();
std::vector<Scenario> state_faults();
std::vector<Scenario> update_faults();
std::vector<Scenario> user_op_faults();

/// One row at random, or two with probability 0.15.
std::vector<std::int64_t> some_rows(const Batch& batch, Draw& draw);
/// Sets the gate of each row to `value`, now and whenever its sample is loaded again.
void set_gates(Session& session, Batch& batch, std::span<const std::int64_t> rows, double value);

}  // namespace binade::truth
