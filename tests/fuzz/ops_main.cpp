// Calls every public op, module and tensor method with hostile arguments and judges the answers
// (docs/hostile-input.md).
#include <CLI/CLI.hpp>
#include <cstring>

#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "binade/core/parallel.h"
#include "binade/core/precision.h"
#include "binade/core/runtime.h"
#include "binade/core/step_context.h"
#include "binade/run/command_line.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/campaign.h"
#include "tests/fuzz/heap.h"
#include "tests/fuzz/watch.h"

namespace binade::fuzz {
namespace {

/// Memory limit of a call: enough for the results of valid calls. Allocations beyond it fail and must become an
/// OutOfMemoryError.
constexpr std::size_t kMemory = 96u << 20;
/// A call may take two seconds, plus one second for each 8 MiB of its peak memory.
constexpr double kBytesPerSecond = 8 << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr double kSlowdown = 10;  ///< a sanitizer build is slower, also because it is optimized less
#else
constexpr double kSlowdown = 1;
#endif

/// The results of a call and the gradients of its arguments.
struct Result {
  std::vector<Tensor> values;
};

void check_gradients(const std::vector<Variable>& given, Result& result) {
  for (const Variable& v : given) {
    if (!v.requires_grad() || !v.grad().defined()) continue;
    if (!(v.grad().shape() == v.shape()))
      throw WrongResult("a gradient of shape " + v.grad().shape().to_string() + " for an argument of shape " +
                        v.shape().to_string());
    result.values.push_back(v.grad().clone());
  }
}

/// Limits memory during its lifetime. Empties the tensor cache first, so that earlier calls have no influence.
struct Limited {
  Limited() {
    backend_of(Device::cpu()).trim();
    heap::enforce(true);
  }
  ~Limited() { heap::enforce(false); }
  Limited(const Limited&) = delete;
};

/// Makes the call once: forward, and in half of the calls backward.
Result perform(const Call& call, std::uint64_t seed, std::uint64_t index) {
  const Limited limited;
  Draws draws(seed, index);
  Arguments arguments(draws);
  const Runtime runtime({.seed = 1, .threads = 2});  // a module starts with the same weights each time
  constexpr DType kLow[] = {DType::f32, DType::f32, DType::f16, DType::bf16};
  const PolicyScope policy(PrecisionPolicy{.low = draws.pick(kLow)});
  const bool runs_backward = draws.one_in(2);
  Result result;
  const std::vector<Variable> outputs = call.call(arguments);
  for (const Variable& y : outputs) {
    if (!y.defined()) throw WrongResult("an undefined result");
    result.values.push_back(y.value().clone());
  }
  if (!runs_backward || outputs.empty() || !outputs[0].requires_grad() || !is_floating(outputs[0].dtype()))
    return result;
  const Tensor cotangent = Tensor::full(outputs[0].shape(), 1, outputs[0].dtype());
  backward(outputs[0], cotangent);
  check_gradients(arguments.given(), result);
  return result;
}

/// The same arguments must give the same bits; otherwise a result depends on uninitialized memory.
void check_same(const Result& a, const Result& b) {
  if (a.values.size() != b.values.size()) throw WrongResult("called again, it gave another number of results");
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const Tensor &x = a.values[i], &y = b.values[i];
    const bool same = x.shape() == y.shape() && x.dtype() == y.dtype() &&
                      (x.bytes() == 0 || std::memcmp(x.raw(), y.raw(), x.bytes()) == 0);
    if (!same) throw WrongResult("called again, it gave another result");
  }
}

/// Makes call `index` twice and records the outcome in `t`. Returns the answer as text.
std::string judge(const Call& call, std::uint64_t seed, std::uint64_t index, Tally& t) {
  name_input(t.replay, index);
  std::string words = "a result";
  const MemoryWatch memory;
  const double began = processor_seconds();
  double seconds = 0;
  try {
    const Result first = perform(call, seed, index);
    seconds = processor_seconds() - began;
    check_same(first, perform(call, seed, index));
    ++t.accepted;
  } catch (const std::exception& error) {
    words = error.what();
    if (seconds == 0) seconds = processor_seconds() - began;
    if (is_one_of<WrongResult>(error))
      t.fail(index, words);
    else if (!is_one_of<ArgumentError, DataError, OutOfMemoryError>(error))
      t.fail(index, "an error of another type: " + words);
    else
      ++t.refusals[reason_of(words)];
  }
  const std::size_t bytes = memory.peak();
  t.record(seconds, bytes, index);
  if (seconds > kSlowdown * (Tally::kSlow + static_cast<double>(bytes) / kBytesPerSecond))
    t.fail(index, fmt::format("took {:.1f} s", seconds));
  if (bytes > 2 * kMemory) t.fail(index, fmt::format("took {} bytes of memory", bytes));
  return words;
}

std::vector<Subject> subjects_of(const Campaign& campaign) {
  std::vector<Subject> subjects;
  for (const auto* calls : {&elementwise_calls(), &function_calls(), &linalg_calls(), &loss_calls(), &movement_calls(),
                            &name_calls(), &signal_calls(), &module_calls(), &tensor_calls()})
    for (const Call& call : *calls)
      subjects.push_back({.name = call.name, .judge = [&call, seed = campaign.seed](std::uint64_t index, Tally& t) {
                            return judge(call, seed, index, t);
                          }});
  for (Subject& s : subjects) s.inputs = (campaign.count + subjects.size() - 1) / subjects.size();
  return subjects;
}

void prepare() {
  const Runtime runtime({.threads = 2});
  parallel_blocks(2, [](std::int64_t) {});  // starts the threads now, so that their stacks do not count for a call
  limit_memory(kMemory);
}

}  // namespace
}  // namespace binade::fuzz

int main(int argc, char** argv) {
  using namespace binade;
  CLI::App app("Calls ops, modules and tensor methods with hostile arguments and judges the answers.", "fuzz_ops");
  fuzz::Campaign campaign{.only_flag = "--only"};
  fuzz::declare(app, campaign);
  return amp::run_command_line(app, argc, argv, [&] {
    return fuzz::run(campaign, fuzz::chosen(campaign, fuzz::subjects_of(campaign)), fuzz::prepare);
  });
}
