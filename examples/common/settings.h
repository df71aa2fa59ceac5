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

/// How a resumed run treats a setting that the command line gives again.
enum class OnResume {
  kMayChange,       ///< the new value applies; it does not affect the steps
  kReportedChange,  ///< the new value applies, and the run reports the change; it affects the steps
  kFixed,           ///< a different value is an ArgumentError (exit 20)
  kIncompatible,    ///< a different value is a CheckpointError (exit 21); for architecture and optimizer
  kByContent,       ///< a path, whose content is compared later instead of its name
  kNotASetting,     ///< belongs to one start of the program (--resume, --config) and is neither stored nor compared
};

/// The values that a setting accepts, and how --help and a resumed run treat it.
struct SettingRules {
  OnResume on_resume = OnResume::kReportedChange;
  double low = -std::numeric_limits<double>::infinity();  ///< numbers must be in [low, high]
  double high = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices{};  ///< allowed words; empty: any
  std::string bare{};   ///< the value of a flag that is given without one; empty: the flag requires a value
  std::string value{};  ///< placeholder for the value in --help: "PATH"; empty: chosen by type
};

/// One setting: its name, the variable that it sets, and its rules.
struct Setting : SettingRules {
  using Target = std::variant<std::int64_t*, double*, bool*, std::string*, std::vector<std::string>*>;
  std::string name{};
  Target target{};  ///< the variable that holds the value
  std::string help{};
};

/// The settings of a program in one table, which defines the flags, --help, config.json, --config and the rules of
/// --resume. A bool takes on|off; its flag without a value means on. A bool that is kNotASetting takes no value.
class Settings {
 public:
  /// Adds the setting `name` ("checkpoint-every": the flag is --checkpoint-every, the key in config.json
  /// checkpoint_every), which is stored in `target`.
  void add(std::string name, Setting::Target target, std::string help, SettingRules rules = {});

  /// Declares every flag on `app`. Parsing only records the values; apply_flags() assigns them.
  void declare(CLI::App& app);
  /// Returns true if the command line has the flag of the setting `name`.
  bool given(const std::string& name) const;

  /// Assigns the command line's values to the targets. Throws ArgumentError that names the flag, the value, the allowed
  /// values and, for words, the nearest one.
  void apply_flags();
  /// Assigns values from a JSON object (keys with - or _). Throws ArgumentError for an unknown key, except
  /// `environment` and `program`, so that a run's config.json is valid for --config. Error texts name `origin`.
  void apply_json(const std::string& json, const std::string& origin);
  /// Applies the flags to a resumed run, after apply_json() of its config.json. Throws if a flag changes a setting that
  /// must not change (see OnResume). Returns the changes to report: "lr 0.001 -> 0.0005".
  std::vector<std::string> apply_flags_to_resumed();

  /// Returns the members "name": value of every stored setting, without braces.
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
