// Calls every public op, module and tensor method with hostile arguments and judges the answers
// (docs/hostile-input.md).
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>

#include "core/error.h"
#include "core/precision.h"
#include "core/runtime.h"
#include "core/step_context.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/report.h"
#include "tests/fuzz/watch.h"

namespace binade::fuzz {
namespace {

constexpr const char* kUsage =
    "usage: fuzz_ops [--seed N] [--count M] [--floor M] [--only NAME] [--input I] [--reasons K] [--list]\n\n"
    "  --seed     what the arguments are drawn from; 1 when left out\n"
    "  --count    how many calls, shared out evenly; 100000 when left out\n"
    "  --floor    fail when there were fewer\n"
    "  --only     one function, module or method; with --input I: that one call alone\n"
    "  --reasons  how many of the commonest refusals to print for each\n"
    "  --list     the names\n";

/// Room for the results of legal calls; what wants more is refused by the system and must become an OutOfMemoryError.
constexpr std::size_t kMemory = 96u << 20;
/// Of results that one second is enough for, beyond the two that every call has; a sanitizer makes it ten times as
/// long.
constexpr double kBytesPerSecond = 8 << 20;

struct Flags {
  std::string only;
  std::uint64_t seed = 1, count = 100'000, floor = 0, reasons = 0;
  std::optional<std::uint64_t> input;
  bool list = false, help = false;
};

Flags parse(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--list" || flag == "--help") {
      (flag == "--list" ? flags.list : flags.help) = true;
      continue;
    }
    check<ArgumentError>(i + 1 < argc, "fuzz_ops: {} wants a value", flag);
    const std::string value = argv[++i];
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    check<ArgumentError>(flag == "--only" || (error == std::errc() && end == value.data() + value.size()),
                         "fuzz_ops: {} wants a number, got '{}'", flag, value);
    if (flag == "--only")
      flags.only = value;
    else if (flag == "--seed")
      flags.seed = n;
    else if (flag == "--count")
      flags.count = n;
    else if (flag == "--floor")
      flags.floor = n;
    else if (flag == "--reasons")
      flags.reasons = n;
    else if (flag == "--input")
      flags.input = n;
    else
      throw ArgumentError(fmt::format("fuzz_ops: unknown flag {}; --help lists them", flag));
  }
  return flags;
}

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

char being_called[160] = "between calls";

/// What a call gave: its results, and the gradients of its arguments.
struct Result {
  std::vector<Tensor> values;
};

void check_gradients(const std::vector<Variable>& given, Result& result) {
  for (const Variable& v : given) {
    if (!v.requires_grad() || !v.grad().defined()) continue;
    if (!(v.grad().shape() == v.shape()))
      throw Unsound("a gradient of shape " + v.grad().shape().to_string() + " for an argument of shape " +
                    v.shape().to_string());
    result.values.push_back(v.grad().clone());
  }
}

/// Once through it: forward, and in half of the calls backward.
Result perform(const Call& call, std::uint64_t seed, std::uint64_t index) {
  Draws draws(seed, index);
  Arguments arguments(draws);
  const Runtime runtime({.seed = 1, .threads = 2});  // a module's first weights are the same again
  constexpr DType kLow[] = {DType::f32, DType::f32, DType::f16, DType::bf16};
  const PolicyScope policy(PrecisionPolicy{.low = draws.pick(kLow)});
  const bool runs_backward = draws.one_in(2);
  Result result;
  const std::vector<Variable> outputs = call.call(arguments);
  for (const Variable& y : outputs) {
    if (!y.defined()) throw Unsound("an undefined result");
    result.values.push_back(y.value().clone());
  }
  if (!runs_backward || outputs.empty() || !outputs[0].requires_grad() || !is_floating(outputs[0].dtype()))
    return result;
  const Tensor cotangent = Tensor::full(outputs[0].shape(), 1, outputs[0].dtype());
  backward(outputs[0], cotangent);
  check_gradients(arguments.given(), result);
  return result;
}

/// The same arguments give the same bits: no result comes of memory that nobody wrote.
void check_same(const Result& a, const Result& b) {
  if (a.values.size() != b.values.size()) throw Unsound("called again, it gave another number of results");
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const Tensor &x = a.values[i], &y = b.values[i];
    const bool same = x.shape() == y.shape() && x.dtype() == y.dtype() &&
                      (x.bytes() == 0 || std::memcmp(x.raw(), y.raw(), x.bytes()) == 0);
    if (!same) throw Unsound("called again, it gave another result");
  }
}

void fail(Tally& t, std::uint64_t index, const std::string& what) {
  if (t.failures.size() < 5)
    t.failures.push_back(fmt::format("FAILED {}: {}; replay: fuzz_ops --seed {} --only {} --input {}", t.target, what,
                                     t.seed, t.target, index));
}

std::string judge(const Call& call, std::uint64_t index, Tally& t) {
  std::snprintf(being_called, sizeof being_called, "died of %s; replay: fuzz_ops --seed %llu --only %s --input %llu",
                t.target.c_str(), static_cast<unsigned long long>(t.seed), t.target.c_str(),
                static_cast<unsigned long long>(index));
  std::string words = "a result";
  const MemoryWatch memory;
  const double began = processor_seconds();
  double seconds = 0;
  try {
    const Result first = perform(call, t.seed, index);
    seconds = processor_seconds() - began;
    check_same(first, perform(call, t.seed, index));
    ++t.accepted;
  } catch (const std::exception& error) {
    words = error.what();
    if (seconds == 0) seconds = processor_seconds() - began;
    if (is_one_of<Unsound>(error))
      fail(t, index, words);
    else if (!is_one_of<ArgumentError, DataError, OutOfMemoryError>(error))
      fail(t, index, "an error of another type: " + words);
    else
      ++t.refusals[reason_of(words)];
  }
  ++t.executions;
  t.took(seconds, index);
  const std::size_t bytes = memory.peak();
  if (seconds > Tally::kSlow + static_cast<double>(bytes) / kBytesPerSecond)
    fail(t, index, fmt::format("took {:.1f} s", seconds));
  if (bytes > 2 * kMemory) fail(t, index, fmt::format("took {} bytes of memory", bytes));
  if (bytes > t.most_memory) {
    t.most_memory = bytes;
    t.greediest_input = index;
  }
  return words;
}

std::vector<Call> all_calls() {
  std::vector<Call> all = function_calls();
  for (const auto* more : {&module_calls(), &tensor_calls()}) all.insert(all.end(), more->begin(), more->end());
  return all;
}

int run(const Flags& flags) {
  if (flags.help) return std::fputs(kUsage, stdout) < 0 ? 1 : 0;
  std::vector<Call> calls = all_calls();
  std::erase_if(calls, [&](const Call& c) { return !flags.only.empty() && c.name != flags.only; });
  check<ArgumentError>(!calls.empty(), "fuzz_ops: there is no {}; --list names what there is", flags.only);
  if (flags.list) {
    for (const Call& c : calls) std::printf("%s\n", c.name.c_str());
    return 0;
  }
  { const Runtime threads({.threads = 2}); }  // their stacks are no call's memory
  watch_for_death([] { return static_cast<const char*>(being_called); }, 300);
  limit_memory(kMemory);
  std::vector<Tally> tallies;
  std::uint64_t executions = 0, failures = 0;
  for (const Call& call : calls) {
    Tally& t = tallies.emplace_back(Tally{.target = call.name, .seed = flags.seed});
    const double began = processor_seconds();
    if (flags.input) {
      std::printf("%s\n", judge(call, *flags.input, t).c_str());
    } else {
      const std::uint64_t count = (flags.count + calls.size() - 1) / calls.size();
      for (std::uint64_t index = 0; index < count; ++index) {
        if (index % 64 == 0) alive();
        judge(call, index, t);
      }
    }
    t.seconds = processor_seconds() - began;
    executions += static_cast<std::uint64_t>(t.executions);
    failures += t.failures.size();
  }
  std::fputs(to_text(tallies, flags.reasons).c_str(), stdout);
  if (executions < flags.floor)
    std::printf("FAILED: %llu calls are fewer than the floor of %llu\n", static_cast<unsigned long long>(executions),
                static_cast<unsigned long long>(flags.floor));
  return failures > 0 || executions < flags.floor ? 1 : 0;
}

}  // namespace
}  // namespace binade::fuzz

int main(int argc, char** argv) {
  try {
    return binade::fuzz::run(binade::fuzz::parse(argc, argv));
  } catch (const binade::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
