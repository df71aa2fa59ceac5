#include "binade/amp/step/recorder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "binade/amp/step/attempt.h"
#include "binade/amp/step/transaction.h"
#include "binade/autograd/observer.h"
#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "binade/core/kernels/table.h"

namespace binade::amp {
namespace {

constexpr std::size_t kMostSpecializations = 8;  // four sizes of batches, with probes and without
constexpr std::size_t kAligned = 256;

/// Lays out arrays in one block of memory, each aligned to 256 bytes.
class Layout {
 public:
  template <class T>
  std::size_t add(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += (count * sizeof(T) + kAligned - 1) / kAligned * kAligned;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// Everything that a graph is specialized to.
std::string key_of(const RecordedStep& step, bool training) {
  std::string key = fmt::format("{}; {}; {}; {}", step.closure, step.policy.to_string(), step.telemetry, training);
  if (step.telemetry) key += fmt::format("; {} {} {}", step.probes.zeros, step.probes.limits, step.probes.libraries);
  for (const StateDict& part : step.batch)
    for (const auto& [name, value] : part.values())
      if (const auto* tensor = std::get_if<Tensor>(&value))
        key += fmt::format("; {} {} {}", name, name_of(tensor->dtype()), tensor->shape());
  return key;
}

std::size_t parameters_of(const Transaction& transaction) { return transaction.optimizer().parameters().size(); }

/// The same step, which the device does not commit.
RecordedStep uncommitted(RecordedStep step) {
  step.loss_bound = -std::numeric_limits<double>::infinity();
  return step;
}

}  // namespace

/// The numbers that host and device exchange at every step: one block each way, on the device and, for each step in
/// flight, in pinned memory.
struct StepRecorder::Exchange {
  static constexpr std::size_t kMicroBatches = 1024;
  /// Of one step.
  struct Here {
    std::byte *in = nullptr, *out = nullptr, *seen = nullptr;
    std::size_t seen_bytes = 0;
  };

  Exchange(Backend& b, Stream s, std::size_t parameters) : backend(b), stream(s) {
    Layout in, out;
    numbers = in.add<StepNumbers>(1);
    slices = in.add<UpdateSlice>(parameters);
    limits = in.add<double>(parameters);
    outcome = out.add<StepOutcome>(1);
    words = out.add<std::uint32_t>(parameters);
    extremes = out.add<BlockExtremes>(parameters);
    losses = out.add<float>(kMicroBatches);
    in_bytes = in.bytes();
    out_bytes = out.bytes();
    const auto bytes = [&](std::size_t count) {
      return Tensor::zeros(Shape{static_cast<std::int64_t>(count)}, DType::u8, stream.device);
    };
    in_there = bytes(in_bytes);
    out_there = bytes(out_bytes);
    seed = Tensor::zeros(Shape{1}, DType::f32, stream.device);
    halted = bytes(sizeof(std::uint32_t));
  }
  ~Exchange() {
    for (const Here& one : here)
      for (std::byte* const memory : {one.in, one.out, one.seen}) backend.release_pinned(memory);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  template <class T>
  static T* at(std::byte* memory, std::size_t offset) {
    return reinterpret_cast<T*>(memory + offset);
  }
  template <class T>
  static T* there(Tensor& block, std::size_t at) {
    return reinterpret_cast<T*>(static_cast<std::byte*>(block.mutable_raw()) + at);
  }

  StepPlaces places(std::size_t parameters, std::size_t micro_batches) {
    return {.numbers = there<StepNumbers>(in_there, numbers),
            .slices = there<UpdateSlice>(in_there, slices),
            .gradient_limits = there<double>(in_there, limits),
            .seed = seed.mutable_data<float>(),
            .losses = there<float>(out_there, losses),
            .outcome = there<StepOutcome>(out_there, outcome),
            .words = there<std::uint32_t>(out_there, words),
            .extremes = there<BlockExtremes>(out_there, extremes),
            .halted = there<std::uint32_t>(halted, 0),
            .parameters = static_cast<std::int64_t>(parameters),
            .micro_batches = static_cast<std::int64_t>(micro_batches)};
  }
  /// Room for the next step's.
  Here& next() {
    last = (last + 1) % here.size();
    Here& one = here[last];
    if (one.in == nullptr) one.in = static_cast<std::byte*>(backend.allocate_pinned(in_bytes));
    if (one.out == nullptr) one.out = static_cast<std::byte*>(backend.allocate_pinned(out_bytes));
    return one;
  }
  /// And for `bytes` of what it saw.
  void make_room(Here& one, std::size_t bytes) const {
    if (bytes <= one.seen_bytes) return;
    backend.release_pinned(std::exchange(one.seen, nullptr));
    one.seen_bytes = 0;
    one.seen = static_cast<std::byte*>(backend.allocate_pinned(bytes));
    one.seen_bytes = bytes;
  }

  Backend& backend;
  Stream stream;
  std::size_t numbers, slices, limits, outcome, words, extremes, losses, in_bytes, out_bytes;
  Tensor in_there, out_there, seed, halted;
  std::array<Here, kMostInFlight + 1> here{};  // in turn; one more than are read at once
  std::size_t last = 0;
};

struct StepRecorder::Specialization {
  std::string key;
  bool ran_before = false;
  bool unsupported = false, validated = false;
  std::vector<StateDict> batch;  // the tensors that the graph reads
  Telemetry telemetry;           // observed the capture
  std::unique_ptr<CapturedGraph> recording;
  std::int64_t recorded_step = 0;
};

struct StepRecorder::InFlight {
  Specialization* graph = nullptr;
  Exchange::Here* here = nullptr;
  optim::DeviceUpdate update;
  std::size_t words = 0, found_at = 0, found = 0;  // of its telemetry
  std::uint64_t mark = 0;                          // reached when all results are on the host
};

StepRecorder::StepRecorder(Transaction& transaction, AttemptRunner& runner)
    : transaction_(transaction), runner_(runner) {}
StepRecorder::~StepRecorder() { discard_in_flight(); }

/// Discards the results of in-flight steps.
void StepRecorder::discard_in_flight() noexcept {
  if (in_flight_.empty()) return;
  try {
    exchange_->backend.wait_for(in_flight_.back().mark);
    exchange_->halted.fill(0);
  } catch (const std::exception&) {  // the device is lost, and the steps with it
  }
  in_flight_.clear();
}

StepRecorder::Specialization& StepRecorder::specialization_of(const RecordedStep& step) {
  const std::string key = key_of(step, transaction_.model().training());
  auto found = std::ranges::find_if(specializations_, [&](const auto& graph) { return graph->key == key; });
  if (found == specializations_.end()) {
    if (specializations_.size() >= kMostSpecializations) specializations_.pop_back();
    specializations_.push_back(std::make_unique<Specialization>());
    specializations_.back()->key = key;
    found = std::prev(specializations_.end());
  }
  std::rotate(specializations_.begin(), found, std::next(found));
  return *specializations_.front();
}

/// Whether the step can be captured. Prepares all that the graph needs.
bool StepRecorder::prepare(Specialization& graph, const RecordedStep& step) {
  const Device device = transaction_.device();
  if (graph.unsupported || !kernels(device).decide || !transaction_.device_updates().possible()) return false;
  if (step.batch.size() > Exchange::kMicroBatches) return false;
  if (!std::exchange(graph.ran_before, true)) {  // libraries choose their algorithms in the first
    if (specializations_.size() < kMostSpecializations)
      backend_of(device).trim();  // frees blocks of other sizes; not if specializations take turns for ever
    return false;
  }
  if (!exchange_)
    exchange_ = std::make_unique<Exchange>(backend_of(device), Stream{device}, parameters_of(transaction_));
  if (graph.batch.empty())
    for (const StateDict& part : step.batch) {
      StateDict& slots = graph.batch.emplace_back();
      for (const auto& [name, value] : part.values()) {
        const auto* tensor = std::get_if<Tensor>(&value);
        slots.put(name, tensor != nullptr ? StateDict::Value(Tensor::empty(tensor->shape(), tensor->dtype(), device))
                                          : value);
      }
    }
  return true;
}

/// Whether graphs may run: nothing else uses their arena. If it is in use at two steps in a row, drops the graphs and
/// leaves the arena to its users.
bool StepRecorder::clear_arena() {
  const Backend& backend = exchange_->backend;
  if (backend.bytes_lent() > 0) transaction_.optimizer().zero_grad();
  const std::size_t held = backend.bytes_lent();
  if (held == 0) {
    arena_was_in_use_ = false;
    return true;
  }
  if (!std::exchange(arena_was_in_use_, true)) return false;
  arena_was_in_use_ = false;
  notes_.push_back(fmt::format("steps are recorded anew: {} bytes that a step made op by op outlive it", held));
  forget();
  return false;
}

/// Drops the graphs whose arena is too small for a step that allocates as `trace` does.
void StepRecorder::drop_smaller(const Specialization& graph, const MemoryTrace& trace) {
  std::size_t largest = 0;
  for (const auto& other : specializations_)
    if (other->recording) largest = std::max(largest, other->recording->arena_bytes());
  if (largest == 0 || plan_memory(trace, kAligned).bytes <= largest) return;
  for (const auto& other : specializations_) {
    if (other.get() == &graph) continue;
    other->recording.reset();
    other->validated = false;
  }
}

/// Into the next block of the exchange.
void StepRecorder::write_numbers(const Specialization& graph, const RecordedStep& step,
                                 const optim::DeviceUpdate& update) {
  Exchange& e = *exchange_;
  const Exchange::Here& here = e.next();
  const auto ahead = static_cast<std::int64_t>(in_flight_.size());
  *e.at<StepNumbers>(here.in, e.numbers) = {
      .step_offset = graph.recording ? step.number - graph.recorded_step : 0,
      .inverse_scale = step.input.inverse_scale,
      .clip_norm = step.clip_norm,
      .loss_bound = step.loss_bound,
      .seed = static_cast<float>(step.loss_scale),
      .average_weight = transaction_.ema() != nullptr ? transaction_.ema()->next_weight(ahead) : 0};
  std::ranges::copy(update.slices, e.at<UpdateSlice>(here.in, e.slices));
  std::ranges::copy(update.gradient_limits, e.at<double>(here.in, e.limits));
  e.backend.copy_later(e.in_there.mutable_raw(), here.in, e.in_bytes, CopyKind::kHostToDevice, e.stream);
}

void StepRecorder::write_batch(Specialization& graph, const RecordedStep& step) const {
  for (std::size_t i = 0; i < step.batch.size(); ++i)
    for (const auto& [name, value] : step.batch[i].values())
      if (const auto* tensor = std::get_if<Tensor>(&value)) {
        Tensor slot = graph.batch[i].tensor(name);
        slot.copy_from(*tensor);
      }
}

/// Queues the whole step: the content of a graph.
void StepRecorder::launch(Specialization& graph, const RecordedStep& step) {
  std::optional<ObserverScope> watching;
  std::optional<OwnKernelsOnly> without_library_probes;
  if (!step.probes.libraries) without_library_probes.emplace();
  if (step.telemetry) {
    graph.telemetry.begin(step.probes);
    watching.emplace(graph.telemetry);
  }
  runner_.launch({.policy = step.policy,
                  .micro_batches = static_cast<int>(step.batch.size()),
                  .loss = [&](int i) { return step.loss(i, graph.batch[static_cast<std::size_t>(i)]); },
                  .places = exchange_->places(parameters_of(transaction_), step.batch.size()),
                  .seed = exchange_->seed});
}

/// Rehearses the step, without a commit, and captures it. `observed` watched an eager step of the specialization.
void StepRecorder::capture(Specialization& graph, const RecordedStep& step, const Telemetry& observed) {
  Backend& backend = exchange_->backend;
  if (step.probes.zeros || step.probes.limits) graph.telemetry.keep_room(observed);
  const auto whole = [&] {
    launch(graph, step);
    transaction_.roll_back();  // of the host's copies; the device decides about its own
  };
  try {
    write_numbers(graph, uncommitted(step), transaction_.device_updates().next(step.input));
    const MemoryTrace trace = [&] {
      const ArenaLoan lent(backend);
      return backend.trace(whole);
    }();
    const auto kept = std::ranges::count(trace.blocks, MemoryTrace::kKept, &MemoryTrace::Block::released);
    check<DeviceError>(kept == 0, "{} tensors that the closure makes outlive the step", kept);
    drop_smaller(graph, trace);
    backend.trim();  // eager steps took as much again
    graph.recording = backend.capture(whole, trace);
    graph.recorded_step = step.number;
  } catch (...) {
    transaction_.roll_back();
    exchange_->halted.fill(0);
    throw;
  }
  exchange_->halted.fill(0);
}

/// Submits the graph, and the copies of its results behind it.
void StepRecorder::replay(Specialization& graph, const RecordedStep& step, optim::DeviceUpdate update) {
  Exchange& e = *exchange_;
  write_numbers(graph, step, update);
  Exchange::Here& here = e.here[e.last];
  const std::span words(graph.recording->observations(),
                        2 * static_cast<std::size_t>(graph.recording->observation_count()));
  const std::span<const double> found = graph.telemetry.found();
  Layout seen;
  seen.add<std::uint32_t>(words.size());
  const std::size_t found_at = seen.add<double>(found.size());
  e.make_room(here, seen.bytes());
  graph.recording->run();
  const auto copy_to_host = [&](std::byte* to, const void* from, std::size_t bytes) {
    if (bytes > 0) e.backend.copy_later(to, from, bytes, CopyKind::kDeviceToHost, e.stream);
  };
  copy_to_host(here.out, e.out_there.raw(), e.out_bytes);
  copy_to_host(here.seen, words.data(), words.size_bytes());
  copy_to_host(here.seen + found_at, found.data(), found.size_bytes());
  in_flight_.push_back({.graph = &graph,
                        .here = &here,
                        .update = std::move(update),
                        .words = words.size(),
                        .found_at = found_at,
                        .found = found.size(),
                        .mark = e.backend.mark(e.stream)});
}

DeviceOutcome StepRecorder::collect(Telemetry& observed) {
  Exchange& e = *exchange_;
  const InFlight& oldest = in_flight_.front();
  e.backend.wait_for(oldest.mark);
  const std::size_t parameters = parameters_of(transaction_);
  const StepOutcome& outcome = *e.at<StepOutcome>(oldest.here->out, e.outcome);
  DeviceOutcome result{.cause = outcome.cause};
  const float* losses = e.at<float>(oldest.here->out, e.losses);
  for (std::size_t i = 0; i < oldest.graph->batch.size(); ++i) result.loss += losses[i];
  result.loss /= static_cast<double>(oldest.graph->batch.size());
  const auto* largest = e.at<std::uint32_t>(oldest.here->out, e.words);
  result.scan.words.assign(largest, largest + parameters);
  result.scan.largest = std::ranges::max(result.scan.words);
  result.scan.sum_squares = outcome.sum_squares;
  const auto* extremes = e.at<BlockExtremes>(oldest.here->out, e.extremes);
  result.extremes.assign(extremes, extremes + parameters);
  result.scan.gradients = transaction_.device_updates().updated_parameters();
  observed.replay(oldest.graph->telemetry, {e.at<std::uint32_t>(oldest.here->seen, 0), oldest.words},
                  {e.at<double>(oldest.here->seen, oldest.found_at), oldest.found});
  in_flight_.erase(in_flight_.begin());
  if (!result.commits()) {  // the steps behind it are void
    in_flight_.clear();
    e.halted.fill(0);
  }
  return result;
}

bool StepRecorder::submit(const RecordedStep& step) {
  if (!exchange_ || in_flight_.size() >= kMostInFlight || !transaction_.device_updates().possible()) return false;
  const std::string key = key_of(step, transaction_.model().training());
  const auto found = std::ranges::find_if(specializations_, [&](const auto& graph) { return graph->key == key; });
  if (found == specializations_.end() || !(*found)->validated || exchange_->backend.bytes_lent() > 0) return false;
  std::vector<const optim::DeviceUpdate*> before;
  for (const InFlight& one : in_flight_) before.push_back(&one.update);
  std::optional<optim::DeviceUpdate> update = transaction_.device_updates().next_after(before, step.input);
  if (!update) return false;
  std::rotate(specializations_.begin(), found, std::next(found));
  Specialization& graph = *specializations_.front();
  write_batch(graph, step);
  replay(graph, step, *std::move(update));
  return true;
}

std::optional<DeviceOutcome> StepRecorder::run(const RecordedStep& step, Telemetry& observed) {
  discard_in_flight();
  to_compare_.reset();
  Specialization& graph = specialization_of(step);
  if (!prepare(graph, step)) return std::nullopt;
  if (step.compare && !graph.recording) return std::nullopt;
  if (!clear_arena()) return std::nullopt;
  write_batch(graph, step);
  if (!graph.recording) {
    try {
      capture(graph, step, observed);
    } catch (const DeviceLostError&) {
      throw;
    } catch (const Error& error) {
      give_up(graph, error.what());
      return std::nullopt;
    }
    if (!graph.recording) {
      give_up(graph, "the device records nothing");
      return std::nullopt;
    }
  }
  optim::DeviceUpdate update = transaction_.device_updates().next(step.input);
  if (graph.validated && !step.compare) {
    replay(graph, step, std::move(update));
    return collect(observed);
  }
  Telemetry unused;
  replay(graph, uncommitted(step), std::move(update));
  to_compare_ = collect(unused);
  return std::nullopt;
}

void StepRecorder::ran_eagerly(double loss, const optim::GradientScan& scan) {
  if (!to_compare_) return;
  const DeviceOutcome recorded = *std::exchange(to_compare_, std::nullopt);
  Specialization& graph = *specializations_.front();
  if (recorded.loss == loss && recorded.scan.sum_squares == scan.sum_squares && recorded.scan.words == scan.words) {
    graph.validated = true;
    return;
  }
  const bool changed = graph.validated;
  graph.recording.reset();
  give_up(graph, fmt::format("recorded it comes to loss {:.9g} and squares of gradients {:.9g}, op by op to {:.9g} and "
                             "{:.9g}{}",
                             recorded.loss, recorded.scan.sum_squares, loss, scan.sum_squares,
                             changed ? "; the closure reads something besides its batch and the model that has changed "
                                       "since, which steps have not seen: hand it over with the batch"
                                     : ""));
}

void StepRecorder::give_up(Specialization& graph, std::string_view why) {
  graph.unsupported = true;
  graph.batch.clear();
  notes_.push_back(fmt::format("steps are sent op by op, not recorded: {}", why));
}

void StepRecorder::forget() {
  discard_in_flight();
  specializations_.clear();
  to_compare_.reset();
}

bool StepRecorder::holds_graphs() const {
  return std::ranges::any_of(specializations_, [](const auto& graph) { return graph->recording != nullptr; });
}

}  // namespace binade::amp
