#include "binade/run/command_line.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <new>

#include "binade/core/did_you_mean.h"
#include "binade/core/error.h"
#include "binade/core/standard_descriptors.h"
#include "binade/io/terminal/console.h"

namespace binade::amp {
namespace {

constexpr int kBadArguments = 20;
constexpr int kNoMemory = 50;
constexpr int kInternalError = 70;

int fail(const std::string& text, int code) {
  io::say_error(text);
  return code;
}

/// Returns the innermost parsed sub-command.
CLI::App& innermost(CLI::App& app) {
  CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

/// Returns the program with its sub-command: "binade-gpt train".
std::string full_name(CLI::App& app) {
  const CLI::App& at = innermost(app);
  return &at == &app ? app.get_name() : app.get_name() + " " + at.get_name();
}

std::string subcommands_of(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> spellings(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  for (const CLI::App* sub : app.get_subcommands({})) words.push_back(sub->get_name());
  return words;
}

std::string unknown_word_text(CLI::App& app) {
  CLI::App& at = innermost(app);
  std::string word = app.remaining(true).empty() ? "?" : app.remaining(true).front();
  word = word.substr(0, word.find('='));
  const std::string near = nearest_word(word, spellings(at));
  const std::string what = word.starts_with("-") ? "unknown flag" : "unknown word";
  return fmt::format("{0}: {1} {2}{3}; see {0} --help", full_name(app), what, word,
                     near.empty() ? "" : ", did you mean " + near + "?");
}

/// Returns the first flag or word with an empty value, for example from an unset variable in a script; empty if there
/// is none. CLI11 itself treats an empty value as a missing flag.
std::string given_empty(CLI::App& app) {
  for (const CLI::Option* option : innermost(app).get_options()) {
    const bool bare = option->get_expected_min() == 0;  // a flag with an optional value
    if (!bare && std::ranges::count(option->results(), "") > 0) return option->get_name();
  }
  return "";
}

int parse_and_run(CLI::App& app, int argc, const char* const* argv, const std::function<int()>& body) {
  try {
    open_standard_descriptors();
    app.parse(argc, argv);
    if (const std::string flag = given_empty(app); !flag.empty())
      return fail(
          fmt::format("{0}: {1}: wanted a value, got an empty text; leave {1} out for its default; see {0} --help",
                      full_name(app), flag),
          kBadArguments);
    return body();
  } catch (const CLI::CallForHelp&) {
    io::print(innermost(app).help(&innermost(app) == &app ? "" : app.get_name()));
    return 0;
  } catch (const CLI::CallForVersion& version) {
    io::print(std::string(version.what()) + "\n");
    return 0;
  } catch (const CLI::ExtrasError&) {
    return fail(unknown_word_text(app), kBadArguments);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string flag = std::string(error.what()).substr(0, std::string(error.what()).find(':'));
    return fail(fmt::format("{0}: {1} wants a value; see {0} --help", full_name(app), flag), kBadArguments);
  } catch (const CLI::ParseError& error) {
    // CLI11 reports a misspelled sub-command as a missing one.
    if (app.get_subcommands().empty() && !app.remaining(true).empty())
      return fail(unknown_word_text(app), kBadArguments);
    if (app.get_subcommands().empty() && !app.get_subcommands({}).empty())
      return fail(fmt::format("{0}: wanted one of {1}; see {0} --help", app.get_name(), subcommands_of(app)),
                  kBadArguments);
    return fail(fmt::format("{0}: {1}; see {0} --help", full_name(app), error.what()), kBadArguments);
  } catch (const Error& error) {
    return fail(error.what(), error.exit_code());
  } catch (const std::bad_alloc&) {
    return fail("out of memory: use smaller batches, images or contexts", kNoMemory);
  } catch (const std::exception& error) {
    return fail(fmt::format("internal error, please report it: {}", error.what()), kInternalError);
  }
}

}  // namespace

int run_command_line(CLI::App& app, int argc, const char* const* argv, const std::function<int()>& body) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return parse_and_run(app, argc, argv, body);
  } catch (const Error& error) {  // thrown if the help cannot be printed
    return fail(error.what(), error.exit_code());
  }
}

}  // namespace binade::amp
