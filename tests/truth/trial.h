#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/truth/scenario.h"

namespace binade::truth {

/// One planted fault, the report about it, and whether each statement of the report was right.
struct Record {
  std::string family{}, scenario{}, model{}, precision{}, way{};
  std::uint64_t seed = 0;
  std::int64_t step = 0;  ///< step at which the fault was planted

  std::string
      void_because{};         ///< why the fault did not occur as planned, so that nothing is judged; empty: it occurred
  std::string early_alarm{};  ///< an alarm before the fault was planted; empty: none

  std::string truth{}, said{};
  bool single_cause = false;  ///< particular samples cause the fault

  bool detected = false;      ///< there was an incident at the step
  bool aborted = false;       ///< the step was not committed
  bool state_same = false;    ///< the abort left the state unchanged, byte for byte
  bool place_right = false;   ///< op, module and direction
  bool sample_right = false;  ///< exactly the samples that cause it, or none if none does
  bool class_right = false;
  bool not_proven = false;  ///< the report's class is "not proven"
  bool proven = false;
  int replays = 0;
  std::optional<bool> recovered{};
  std::string recovery{};  ///< how the run continued, as text

  bool valid() const { return void_because.empty() && early_alarm.empty(); }
  bool wrong_and_proven() const { return proven && !(place_right && sample_right && class_right); }
  bool all_right() const {
    return detected && (!aborted || state_same) && place_right && sample_right && (class_right || not_proven) &&
           recovered.value_or(true);
  }
};

Record run_trial(const Scenario& scenario, const ModelEntry& model, const std::string& precision,
                 const std::string& way, std::uint64_t seed);

/// A defect that makes no result non-finite, and whether a warning reported it.
struct SilentRecord {
  std::string scenario{}, model{}, precision{};
  std::uint64_t seed = 0;
  std::string void_because{};  ///< why the defect did not occur; empty: it occurred
  bool warned = false;
  std::int64_t steps = 0;  ///< steps until the warning, or all steps
  std::string said{};      ///< all warnings, also unrelated ones
};

SilentRecord run_silent(const SilentScenario& scenario, const ModelEntry& model, const std::string& precision,
                        std::uint64_t seed);

}  // namespace binade::truth
