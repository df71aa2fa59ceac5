#include "examples/common/settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "binade/core/did_you_mean.h"
#include "binade/core/error.h"
#include "binade/core/program_flags.h"
#include "binade/io/text/json_reader.h"
#include "binade/io/text/utf8.h"

namespace binade::examples {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostMembers =
    10'000;  // largest number of members of a JSON object; ordered_json compares each key with all earlier ones

std::string key_of(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string range_text(const Setting& s) {
  const char* kind = std::holds_alternative<std::int64_t*>(s.target) ? "a whole number" : "a number";
  if (std::isinf(s.low) && std::isinf(s.high)) return kind;
  if (std::isinf(s.high)) return fmt::format("{} >= {}", kind, s.low);
  return fmt::format("{} from {} to {}", kind, s.low, s.high);
}

/// Returns the placeholder of a value in --help: the allowed words, or its type.
std::string value_text(const Setting& s) {
  if (!s.choices.empty()) return CLI::detail::join(s.choices, "|");
  if (!s.value.empty()) return s.value;
  return std::holds_alternative<std::string*>(s.target) ? "TEXT"
         : std::holds_alternative<double*>(s.target)    ? "X"
                                                        : "N";
}

template <class T>
T parse_number(const Setting& s, const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool good = error == std::errc{} && stop == end && std::isfinite(static_cast<double>(value)) &&
                    static_cast<double>(value) >= s.low && static_cast<double>(value) <= s.high;
  check<ArgumentError>(good, "--{}: wanted {}, got '{}'", s.name, range_text(s), text);
  return value;
}

bool parse_switch(const Setting& s, const std::string& text) {
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  throw ArgumentError(fmt::format("--{}: wanted on or off, got '{}'", s.name, text));
}

void check_choice(const Setting& s, const std::string& word) {
  if (s.choices.empty() || std::ranges::count(s.choices, word) > 0) return;
  std::string wanted;
  for (const std::string& choice : s.choices) wanted += (wanted.empty() ? "" : ", ") + choice;
  throw ArgumentError(
      fmt::format("--{}: wanted one of {}, got '{}'{}", s.name, wanted, word, did_you_mean(word, s.choices)));
}

/// Converts a JSON value to the text of a flag, so that JSON and the command line share one parser.
std::string text_of(const ordered_json& value, const std::string& key, const std::string& origin) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (value.is_number()) return value.dump();
  throw ArgumentError(fmt::format("{}: '{}' wants a number, a word, true, false or a list of them", origin, key));
}

std::vector<std::string> texts_of(const ordered_json& value, const std::string& key, const std::string& origin) {
  if (!value.is_array()) return {text_of(value, key, origin)};
  std::vector<std::string> texts;
  for (const auto& item : value) texts.push_back(text_of(item, key, origin));
  return texts;
}

/// Throws ArgumentError for a path that is not UTF-8: the system accepts it, but config.json cannot store it.
void check_utf8(const Setting& s) {
  const auto check_word = [&](const std::string& word) {
    check<ArgumentError>(io::find_bad_utf8(word) == std::string::npos,
                         "--{}: wanted UTF-8, got other bytes: '{}'; rename the file or folder", s.name, word);
  };
  if (auto* const* word = std::get_if<std::string*>(&s.target)) check_word(**word);
  if (auto* const* list = std::get_if<std::vector<std::string>*>(&s.target)) std::ranges::for_each(**list, check_word);
}

ordered_json json_of(const Setting& s) {
  return std::visit([](auto* target) { return ordered_json(*target); }, s.target);
}

/// Returns a value as text for messages, strings without quotes.
std::string plain_text(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

void Settings::add(std::string name, Setting::Target target, std::string help, SettingRules rules) {
  settings_.push_back({std::move(rules), std::move(name), target, std::move(help)});
}

void Settings::declare(CLI::App& app) {
  for (const Setting& s : settings_) {
    add_program_flag(s.name);  // so that advice in messages can name the flag
    const std::string flag = "--" + s.name;
    const bool is_switch = std::holds_alternative<bool*>(s.target);
    const std::string bare = is_switch ? "on" : s.bare;  // `--state-hash` alone means on
    const auto remember = [this, bare, name = s.name](const CLI::results_t& values) {
      const bool alone = !bare.empty() && (values.empty() || values.front().empty());
      given_.push_back({name, alone ? CLI::results_t{bare} : values});
      return true;
    };
    if (is_switch && s.on_resume == OnResume::kNotASetting) {
      app.add_flag_callback(
          flag,
          [this, name = s.name] {
            given_.push_back({name, {"on"}});
          },
          s.help);
      continue;
    }
    CLI::Option* option = app.add_option(flag, remember, s.help);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // so that later flags override a script's defaults
    if (auto* const* on = std::get_if<bool*>(&s.target)) {
      option->expected(0, 1)->type_name(**on ? "[on|off]=on" : "[on|off]=off");
      continue;
    }
    if (!bare.empty()) {
      option->expected(0, 1)->type_name("[" + value_text(s) + "]");
      continue;
    }
    if (std::holds_alternative<std::vector<std::string>*>(s.target))
      option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->type_name(s.value + " (repeatable)");
    else
      option->expected(1)->type_name(value_text(s));
    const ordered_json value = json_of(s);
    option->default_str(value.is_string() ? value.get<std::string>() : value.is_array() ? "" : value.dump());
  }
}

bool Settings::given(const std::string& name) const {
  return std::ranges::any_of(given_, [&](const Given& g) { return g.name == name; });
}

const Setting& Settings::find(const std::string& name) const {
  const auto it = std::ranges::find(settings_, name, &Setting::name);
  check<ArgumentError>(it != settings_.end(), "--{}: there is no such setting", name);
  return *it;
}

void Settings::assign(const Setting& s, const std::vector<std::string>& values) const {
  if (auto* const* list = std::get_if<std::vector<std::string>*>(&s.target)) {
    **list = values;
    return;
  }
  check<ArgumentError>(values.size() == 1, "--{}: wanted one value, got {}", s.name, values.size());
  const std::string& text = values.front();
  if (auto* const* word = std::get_if<std::string*>(&s.target)) {
    check_choice(s, text);
    **word = text;
  } else if (auto* const* whole = std::get_if<std::int64_t*>(&s.target)) {
    **whole = parse_number<std::int64_t>(s, text);
  } else if (auto* const* real = std::get_if<double*>(&s.target)) {
    **real = parse_number<double>(s, text);
  } else {
    *std::get<bool*>(s.target) = parse_switch(s, text);
  }
}

void Settings::apply_flags() {
  for (const Given& g : given_) assign(find(g.name), g.values);
}

void Settings::apply_json(const std::string& json, const std::string& origin) {
  const auto object = io::parse_json<ordered_json>(json, origin, {.members = kMostMembers});
  check<ArgumentError>(object.is_object(), "{}: wanted a JSON object of settings", origin);
  for (const auto& [key, value] : object.items()) {
    if (key == "environment" || key == "program") continue;
    const auto it = std::ranges::find_if(settings_, [&, k = key_of(key)](const Setting& s) {
      return key_of(s.name) == k && s.on_resume != OnResume::kNotASetting;
    });
    if (it == settings_.end()) {
      std::vector<std::string> keys;
      for (const Setting& s : settings_) keys.push_back(key_of(s.name));
      const std::string word = key.substr(0, 60);  // a file's key may be as long as the file
      throw ArgumentError(fmt::format("{}: unknown setting '{}'{}", origin, word, did_you_mean(key_of(word), keys)));
    }
    assign(*it, texts_of(value, key, origin));
  }
}

std::vector<std::string> Settings::apply_flags_to_resumed() {
  std::vector<std::string> reported;
  for (const Setting& s : settings_) {
    const auto last = std::ranges::find(given_.rbegin(), given_.rend(), s.name, &Given::name);
    if (last == given_.rend()) continue;
    const ordered_json before = json_of(s);
    assign(s, last->values);
    const ordered_json after = json_of(s);
    if (before == after) continue;
    if (s.on_resume == OnResume::kReportedChange)
      reported.push_back(fmt::format("{} {} -> {}", s.name, plain_text(before), plain_text(after)));
    if (s.on_resume != OnResume::kFixed && s.on_resume != OnResume::kIncompatible) continue;
    const std::string text = fmt::format(
        "--{}: the run was started with {}, and a resume cannot change it to {}; leave the flag out, or start a new "
        "run",
        s.name, before.dump(), after.dump());
    if (s.on_resume == OnResume::kIncompatible) throw CheckpointError(text);
    throw ArgumentError(text);
  }
  return reported;
}

std::string Settings::json_members() const {
  ordered_json object;
  for (const Setting& s : settings_) {
    if (s.on_resume == OnResume::kNotASetting) continue;
    check_utf8(s);
    object[key_of(s.name)] = json_of(s);
  }
  const std::string text = object.dump(2);
  return text.substr(2, text.size() - 4);  // without "{\n" and "\n}"
}

}  // namespace binade::examples
