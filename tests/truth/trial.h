#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/truth/scenario.h"

namespace binade::truth {

/// What one planted fault was, what the report said, and which of its statements were right.
struct Record {
  std::string family{}, scenario{}, model{}, precision{}, way{};
  std::uint64_t seed = 0;
  std::int64_t step = 0;  ///< at which the fault was planted

  std::string void_because{};  ///< the fault did not turn out as meant, and nothing is judged; empty: it did
  std::string early_alarm{};   ///< an alarm before there was a fault

  std::string truth{}, said{};
  bool single_cause = false;  ///< particular samples cause it

  bool detected = false;      ///< an incident at the step
  bool aborted = false;       ///< and nothing was committed
  bool state_same = false;    ///< of an abort: byte for byte as before
  bool place_right = false;   ///< op, module and direction
  bool sample_right = false;  ///< exactly the samples that cause it; none where none does
  bool class_right = false;
  bool not_proven = false;  ///< the report says that it is not sure
  bool proven = false;
  int replays = 0;
  std::optional<bool> recovered{};
  std::string recovery{};  ///< how it went on

  bool valid() const { return void_because.empty() && early_alarm.empty(); }
  bool wrong_and_proven() const { return proven && !(place_right && sample_right && class_right); }
  bool all_right() const {
    return detected && (!aborted || state_same) && place_right && sample_right && (class_right || not_proven) &&
           recovered.value_or(true);
  }
};

Record run_trial(const Scenario& scenario, const ModelEntry& model, const std::string& precision,
                 const std::string& way, std::uint64_t seed);

/// A defect that makes no number bad: whether it was told, and by what.
struct SilentRecord {
  std::string scenario{}, model{}, precision{};
  std::uint64_t seed = 0;
  std::string void_because{};  ///< there is no such defect; empty: there is
  bool told = false;
  std::int64_t steps = 0;  ///< until it was told, or all
  std::string said{};      ///< what was told, also of other things
};

SilentRecord run_silent(const SilentScenario& scenario, const ModelEntry& model, const std::string& precision,
                        std::uint64_t seed);

}  // namespace binade::truth
