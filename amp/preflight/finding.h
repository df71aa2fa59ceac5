#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "binade/core/dtype.h"

namespace binade::amp {

/// An input that makes a risky place go wrong.
struct Trigger {
  std::string of{};              ///< the tensor that takes `values`: "the input of 'sigmoid' in head"
  std::vector<double> values{};  ///< one for every element alike, or a row
  DType dtype = DType::f32;      ///< in which they are given
  double operand = 0;            ///< the resulting operand of the finding's op, if it is one number
  std::string chain{};           ///< how: "sigmoid of 17.3287 is 1 in f32"
};

enum class Severity : std::uint8_t {
  kPossible,  ///< an input exists that makes it go wrong
  kMeasured,  ///< the measured batch, or the settings alone, already do
};
std::string_view name_of(Severity severity);

/// A risky place.
struct PreflightFinding {
  std::string rule{};  ///< "bce-after-sigmoid"; docs/preflight.md lists them
  Severity severity = Severity::kPossible;
  std::string module{};          ///< path; empty at the root, and if no op is concerned
  std::int64_t tape_index = -1;  ///< of the op; -1: no op is meant
  std::string op{};              ///< its name; "optimizer", "loss scale", "step" if no op is concerned
  std::string what{};            ///< what goes wrong there
  std::string advice{};          ///< what to change
  std::optional<Trigger> trigger{};
  std::vector<std::string> also{};  ///< paths of modules where the same was found
};

struct PreflightReport {
  std::vector<PreflightFinding> findings{};
  double loss = 0;     ///< of the measured batch; NaN where there was none
  double seconds = 0;  ///< that it took
};

/// For people: where and what, then the input and what to do.
std::ostream& operator<<(std::ostream& out, const PreflightFinding& finding);

/// {"findings":1,"seconds":0.2,"loss":0.69,"list":[{"rule":…}]}
std::string preflight_json(const PreflightReport& report);

}  // namespace binade::amp
