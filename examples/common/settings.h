#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

namespace CLI {
class App;
}

namespace binade::examples {

/// How a resumed run treats a setting that is given again.
enum class OnResume {
  kMayChange,       ///< takes the new value: the steps are the same
  kReportedChange,  ///< takes the new value, and the run reports the change: the steps differ
  kFixed,           ///< another value is an ArgumentError (exit 20)
  kIncompatible,    ///< another value is a CheckpointError (exit 21): architecture, optimizer
  kByContent,       ///< a path: its content is compared later, not its name
  kNotASetting,     ///< belongs to one call (--resume, --config): neither stored nor compared
};

/// One setting: its flag, its key in config.json, its variable, its range.
struct Setting {
  using Target = std::variant<std::int64_t*, double*, bool*, std::string*, std::vector<std::string>*>;
  std::string name{};  ///< "checkpoint-every": the flag is --checkpoint-every, the key checkpoint_every
  Target target{};
  std::string help{};
  OnResume on_resume = OnResume::kReportedChange;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices{};  ///< allowed words; empty: any
  std::string bare{};   ///< the value of a flag that is given without one; empty: the flag requires a value
  std::string value{};  ///< what --help calls the value: "PATH"; empty: by its type
};

/// The settings of a program as one table, from which flags, --help, config.json, --config and the rules of --resume
/// all follow. A bool takes on|off and means on when it stands alone; one that is
/// kNotASetting takes nothing.
class Settings {
 public:
  void add(Setting setting);

  /// Declares every flag on `app`. Parsing only remembers what was given.
  void declare(CLI::App& app);
  bool given(const std::string& name) const;

  /// Writes what the command line gave into the variables. Throws ArgumentError naming flag, value, what was wanted
  /// and, for words, the nearest one.
  void apply_flags();
  /// The same from a JSON object (keys with - or _). Unknown keys are an ArgumentError, but for `environment` and
  /// `program`, so that a run's own config.json can be given as --config.
  void apply_json(const std::string& json, const std::string& origin);
  /// After apply_json() of a run's config.json: applies the flags that may change and refuses the others when their
  /// value differs. Returns what a run reports: "lr 0.001 -> 0.0005".
  std::vector<std::string> apply_flags_to_resumed();

  /// Members "name": value of every stored setting, without braces.
  std::string json_members() const;

 private:
  struct Given {
    std::string name{};
    std::vector<std::string> values{};
  };
  const Setting& find(const std::string& name) const;
  void assign(const Setting& setting, const std::vector<std::string>& values) const;

  std::vector<Setting> settings_;
  std::vector<Given> given_;
};

}  // namespace binade::examples
