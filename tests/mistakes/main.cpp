#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>

#include "binade/amp/incident/report.h"
#include "tests/mistakes/mistakes.h"

/// mistakes [--only TEXT] [--verbose] [--markdown] [--check FILE]: makes every mistake and searches Binade's message
/// for the words of the list. --markdown prints docs/mistakes.md; --check compares a file with it.
namespace binade::mistakes {
namespace {

std::vector<std::string>& folders() {
  static std::vector<std::string> made;
  return made;
}

std::vector<Subject> subjects() {
  return {registration(), shapes(),         images(),     dtypes(),
          losses(),       data(),           modes(),      steps(),
          numbers(),      policies(),       optimizers(), schedules(),
          loops(),        several_models(), autograd(),   second_derivatives(),
          extensions(),   checkpoints(),    runs(),       threads()};
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

/// Returns the position after the parenthesis that is opened at `begin`.
std::size_t end_of_parenthesis(const std::string& text, std::size_t begin) {
  int open = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '(') ++open;
    if (text[i] == ')' && --open == 0) return i + 1;
  }
  return text.size();
}

/// Returns the text, and shortens numbers with more than 5 digits after the point to 4 significant digits, because the
/// other digits depend on the instruction set.
std::string with_short_numbers(const std::string& text) {
  static const std::regex long_number(R"(\d+\.\d{6,}(e[+-]?\d+)?)");
  std::string result;
  auto at = text.cbegin();
  for (std::sregex_iterator i(text.begin(), text.end(), long_number); i != std::sregex_iterator(); ++i) {
    result.append(at, (*i)[0].first);
    result += fmt::format("{:.4g}", std::stod((*i)[0].str()));
    at = (*i)[0].second;
  }
  return result.append(at, text.cend());
}

/// Returns Binade's message, without parts that differ between machines (folders, places in this program).
std::string answer(const Mistake& mistake) {
  std::string text;
  try {
    mistake.make();
    return "";
  } catch (const Error& error) {
    text = error.what();
  } catch (const std::exception& error) {
    return fmt::format("not an error of Binade: {}", error.what());
  }
  for (const std::string& folder : folders()) text = replaced(text, folder, "FOLDER");
  for (std::size_t at = text.find(" (called in "); at != text.npos; at = text.find(" (called in ", at + 1))
    text.replace(at, end_of_parenthesis(text, at + 1) - at, " (called in main.cpp:42)");
  for (std::size_t at = text.find(", called by "); at != text.npos; at = text.find(", called by ", at))
    text.erase(at, std::min(text.find("; ", at), text.size()) - at);
  if (const std::size_t at = text.find("(pid "); at != text.npos)
    text.replace(at, end_of_parenthesis(text, at) - at, "(pid 1234)");
  return with_short_numbers(text);
}

std::string missing_words(const Mistake& mistake, const std::string& said) {
  std::string missing;
  for (const std::string_view word : mistake.words)
    if (said.find(word) == said.npos) missing += fmt::format("{}'{}'", missing.empty() ? "" : ", ", word);
  return missing;
}

/// What Binade says about the mistake, as the cell of a Markdown table.
std::string cell(const Mistake& mistake) {
  const std::string text = mistake.page_text.empty() ? answer(mistake) : std::string(mistake.page_text);
  return replaced(replaced(replaced(text, "|", "\\|"), "\n", " "), "<", "&lt;");
}

/// Mistakes that the compiler reports, and the text of its static assertion (amp/step/batch_type.h).
constexpr std::pair<std::string_view, std::string_view> kStaticAssertions[] = {
    {"the closure does not take the batch",
     "Trainer::step: the closure must take the batch: `[&](const Batch& batch) { return loss; }`, with the type "
     "of the batch that is passed, by const reference or value"},
    {"the closure returns no loss", "Trainer::step: the closure must return the loss, a Variable of one element"},
    {"`origin` of a batch type is something else",
     "batch type: its member `origin` must be an io::BatchOrigin; rename it if it is something else"},
    {"`without` has other arguments",
     "batch type: its member `without` must be `Batch without(std::span<const std::int64_t> rows) const`; rename "
     "it if it is something else"},
    {"`without` and no `origin`",
     "batch type: `without(rows)` wants a member `io::BatchOrigin origin`, which names the samples of the batch"},
    {"`state` is something else",
     "batch type: its member `state` must be `StateDict state() const`; rename it if it is something else"},
    {"`from_state` and no `state`",
     "batch type: its member `from_state` must be `static Batch from_state(const StateDict&)`, beside `StateDict "
     "state() const`"},
    {"`to` is something else",
     "batch type: its member `to` must be `Batch to(Device device) const`; rename it if it is something else"},
    {"a loader without a position",
     "loader: it must have `StateDict state() const`, `void load_state(const StateDict&)` and `void commit(const "
     "io::BatchOrigin&)`, so that a step can commit the position in the data (io::Loader has them); pass batches "
     "of other sources to step() without a loader"},
    {"a data set without its size", "data set: it must have `std::int64_t size() const`, the number of its samples"},
    {"`get` of a data set is missing or not const",
     "data set: it must have `Sample get(std::int64_t index) const` or `Sample get(std::int64_t index, "
     "const io::SampleContext& context) const`; const, because several workers call it at once"},
    {"the collate function takes other samples",
     "make_loader: the collate function must take `std::vector<Sample>` with the samples of the data set, "
     "and may take a `const io::BatchOrigin&` after it; it must be callable when it is const"},
    {"a stream without `restart`",
     "stream: it must have `std::optional<Sample> next()` and `void restart(std::int64_t pass)` "
     "(io/data/stream.h)"},
    {"a sample with numbers and no `Batch`",
     "collate: a batch cannot be the same struct as this sample, for it has members that are no tensors; "
     "declare in it `struct Batch { Tensor x, y; };` with one member for each of its own (Tensor for a "
     "number), or give make_loader() a function that collates samples"},
    {"a sample of an unknown type",
     "collate: wanted samples of Tensor, number, std::string, io::Sequence, a tuple or a struct of these; "
     "give make_loader() a function that collates samples: `Batch(std::vector<Sample>)`"},
};

std::string page() {
  std::string text = R"(# Typical mistakes

This page lists typical mistakes, and what Binade says about each: search it for what you did, or for the words of an
error. Each is a tiny program in `tests/mistakes`. Its test checks that the message contains certain words, at least two
for each mistake: they name the place (the op, the module, the member or the option) and the remedy. The program
writes this page:

    build/tests/mistakes/mistakes --markdown > docs/mistakes.md

The words are those of this version and may be improved at any time (docs/compatibility.md). `FOLDER` stands for a
folder. Mistakes that the compiler reports are in [the last section](#mistakes-that-the-compiler-reports).

)";
  std::size_t count = 0;
  for (const Subject& subject : subjects()) count += subject.mistakes.size();
  text += fmt::format("There are {} mistakes:", count);
  for (const Subject& subject : subjects()) {
    std::string anchor;
    for (const char c : subject.title)
      if (std::isalnum(static_cast<unsigned char>(c)) != 0)
        anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      else if (c == ' ' || c == '-')
        anchor += '-';
    text += fmt::format("\n- [{}](#{})", subject.title, anchor);
  }
  text += "\n";
  for (const Subject& subject : subjects()) {
    text += fmt::format("\n## {}\n\n| mistake | what Binade says |\n|---|---|\n", subject.title);
    for (const Mistake& mistake : subject.mistakes) text += fmt::format("| {} | {} |\n", mistake.name, cell(mistake));
  }
  text += R"(
## Mistakes that the compiler reports

A batch type, a closure or a loader that does not fit does not compile. Instead of template errors, the compiler prints
one of these texts (`amp/step/batch_type.h`, `io/data/`; the test `batch_types` compiles one program for each). The same
holds for data sets and samples:

| mistake | text of the static assertion |
|---|---|
)";
  for (const auto& [mistake, says] : kStaticAssertions) text += fmt::format("| {} | {} |\n", mistake, says);
  return text;
}

int check_page(const char* path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  if (content.str() == page()) return 0;
  std::cerr << path << " is not what `mistakes --markdown` prints; write it again\n";
  return 1;
}

int run(std::string_view only, bool verbose) {
  int count = 0, bad = 0;
  for (const Subject& subject : subjects())
    for (const Mistake& mistake : subject.mistakes) {
      if (mistake.name.find(only) == mistake.name.npos && subject.title.find(only) == subject.title.npos) continue;
      ++count;
      const std::string said = answer(mistake), missing = missing_words(mistake, said);
      const bool fails = !missing.empty() || said.empty() || mistake.words.size() < 2;
      bad += fails ? 1 : 0;
      if (fails)
        std::cout << fmt::format("FAIL [{}] {}\n  says: {}\n  lacks: {}\n", subject.title, mistake.name,
                                 said.empty() ? "nothing" : said, missing);
      else if (verbose)
        std::cout << fmt::format("ok [{}] {}\n  says: {}\n", subject.title, mistake.name, said);
    }
  std::cout << fmt::format("{} mistakes, {} without the words they need\n", count, bad);
  return bad == 0 && count > 0 && (!only.empty() || count >= 150) ? 0 : 1;
}

}  // namespace

void tell(const amp::StepResult& result) {
  std::string text;
  for (const amp::Warning& warning : result.warnings)
    text += fmt::format("{}warning `{}`: {} {}; {}", text.empty() ? "" : "; ", amp::name_of(warning.kind),
                        amp::location_of(warning), warning.what, warning.advice);
  for (const amp::Incident* incident : result.incidents())
    text += fmt::format("{}incident: {}; {}; {}; {}", text.empty() ? "" : "; ", incident->what,
                        amp::location_of(incident->diagnosis), amp::name_of(incident->diagnosis.cause),
                        incident->remedy.what);
  if (!text.empty()) throw Told(text);
}

Tensor normal(const Shape& shape, std::uint64_t seed, double spread) {
  const RandomStream draws{seed, RngPurpose::kData};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(spread * draws.normal(i));
  return Tensor::from(values, shape);
}

Tensor labels(const Shape& shape, std::int64_t classes) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % classes);
  return Tensor::from(ids, shape);
}

Variable leaf(const Shape& shape, std::uint64_t seed) { return Variable(normal(shape, seed), true); }

Batch batch() {
  Batch b{normal({8, 4}), labels({8}, 3), {}};
  for (std::int64_t i = 0; i < 8; ++i) b.origin.samples.push_back(i);
  return b;
}

std::string temporary_folder() {
  const std::string folder = (std::filesystem::temp_directory_path() /
                              fmt::format("mistakes-{}-{:03}", ::getpid(), folders().size()))
                                 .string();
  std::filesystem::create_directories(folder);
  folders().push_back(folder);
  return folder;
}

void write_file(const std::string& path, std::string_view content) { std::ofstream(path, std::ios::binary) << content; }

}  // namespace binade::mistakes

int main(int count, char** words) {
  using namespace binade::mistakes;
  std::string_view only;
  bool verbose = false;
  int result = -1;
  for (int i = 1; i < count && result < 0; ++i) {
    const std::string_view word = words[i];
    if (word == "--only" && i + 1 < count)
      only = words[++i];
    else if (word == "--verbose")
      verbose = true;
    else if (word == "--markdown")
      result = (std::cout << page(), 0);
    else if (word == "--check" && i + 1 < count)
      result = check_page(words[++i]);
    else
      result = (std::cerr << "mistakes [--only TEXT] [--verbose] [--markdown] [--check FILE]\n", 20);
  }
  if (result < 0) result = run(only, verbose);
  for (const std::string& folder : folders()) std::filesystem::remove_all(folder);
  return result;
}
