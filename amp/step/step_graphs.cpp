#include "binade/amp/step/step_graphs.h"

#include <cstring>

#include "binade/amp/step/attempt.h"
#include "binade/amp/step/transaction.h"
#include "binade/core/backend.h"
#include "binade/core/kernels/table.h"

namespace binade::amp {
namespace {

constexpr std::size_t kMaxSpecializations = 8;  // enough for four batch shapes, each with and without probes
constexpr std::size_t kAlignment = 256;

/// Lays out arrays in one block of memory, each aligned to 256 bytes.
class Layout {
 public:
  template <class T>
  std::size_t add(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// Returns a text that identifies the specialization of a step. `training`: mode of the model.
std::string key_of(const GraphStep& step, bool training) {
  std::string key = fmt::format("{}; {}; {}; {}; {} hooks", step.closure, step.policy.to_string(), step.telemetry,
                                training, live_hooks());
  if (step.telemetry) key += fmt::format("; {} {} {}", step.probes.zeros, step.probes.limits, step.probes.libraries);
  for (const StateDict& micro_batch : step.batch)
    for (const auto& [name, value] : micro_batch.values())
      if (const auto* tensor = std::get_if<Tensor>(&value))
        key += fmt::format("; {} {} {}", name, name_of(tensor->dtype()), tensor->shape());
  return key;
}

std::size_t parameters_of(const Transaction& transaction) { return transaction.parameters().size(); }

/// Returns the step with a loss bound that prevents the commit.
GraphStep uncommitted(GraphStep step) {
  step.loss_bound = -std::numeric_limits<double>::infinity();
  return step;
}

}  // namespace

/// The memory for the numbers that host and device exchange in every step: on the device, one block for inputs and one
/// for results; on the host, pinned memory for each step in flight.
struct StepGraphs::Exchange {
  static constexpr std::size_t kMicroBatches = 1024;
  /// The pinned memory of one step, for its inputs, its results and its telemetry.
  struct Pinned {
    std::byte *in = nullptr, *out = nullptr, *telemetry = nullptr;
    std::size_t telemetry_bytes = 0;
  };

  Exchange(Backend& b, Stream s, std::size_t parameters, std::size_t optimizers) : backend(b), stream(s) {
    Layout in, out;
    numbers = in.add<StepNumbers>(1 + optimizers);
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
    device_in = bytes(in_bytes);
    device_out = bytes(out_bytes);
    seed = Tensor::zeros(Shape{1}, DType::f32, stream.device);
    halted = bytes(sizeof(std::uint32_t));
  }
  ~Exchange() {
    for (const Pinned& one : pinned)
      for (std::byte* const memory : {one.in, one.out, one.telemetry}) backend.release_pinned(memory);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  template <class T>
  static T* at(std::byte* memory, std::size_t offset) {
    return reinterpret_cast<T*>(memory + offset);
  }
  template <class T>
  static T* on_device(Tensor& block, std::size_t at) {
    return reinterpret_cast<T*>(static_cast<std::byte*>(block.mutable_raw()) + at);
  }

  StepAddresses addresses(std::size_t parameters, std::size_t micro_batches) {
    return {.numbers = on_device<StepNumbers>(device_in, numbers),
            .slices = on_device<UpdateSlice>(device_in, slices),
            .gradient_limits = on_device<double>(device_in, limits),
            .seed = seed.mutable_data<float>(),
            .losses = on_device<float>(device_out, losses),
            .outcome = on_device<StepOutcome>(device_out, outcome),
            .words = on_device<std::uint32_t>(device_out, words),
            .extremes = on_device<BlockExtremes>(device_out, extremes),
            .halted = on_device<std::uint32_t>(halted, 0),
            .parameters = static_cast<std::int64_t>(parameters),
            .micro_batches = static_cast<std::int64_t>(micro_batches)};
  }
  /// Returns the memory for the next step.
  Pinned& next() {
    last = (last + 1) % pinned.size();
    Pinned& one = pinned[last];
    if (one.in == nullptr) one.in = static_cast<std::byte*>(backend.allocate_pinned(in_bytes));
    if (one.out == nullptr) one.out = static_cast<std::byte*>(backend.allocate_pinned(out_bytes));
    return one;
  }
  /// Grows the memory for telemetry to `bytes`.
  void reserve_telemetry(Pinned& one, std::size_t bytes) const {
    if (bytes <= one.telemetry_bytes) return;
    backend.release_pinned(std::exchange(one.telemetry, nullptr));
    one.telemetry_bytes = 0;
    one.telemetry = static_cast<std::byte*>(backend.allocate_pinned(bytes));
    one.telemetry_bytes = bytes;
  }

  Backend& backend;
  Stream stream;
  std::size_t numbers, slices, limits, outcome, words, extremes, losses, in_bytes, out_bytes;
  Tensor device_in, device_out, seed, halted;
  std::array<Pinned, kMaxInFlight + 1> pinned{};  // each step uses the next one
  std::size_t last = 0;                           // index of the one that the latest step uses
};

struct StepGraphs::Specialization {
  std::string key;
  bool ran_before = false;
  bool unsupported = false, validated = false;
  std::vector<StateDict> batch;              // the tensors that the graph reads
  Telemetry telemetry;                       // observed the capture
  std::unique_ptr<CapturedGraph> recording;  // null before the capture
  std::int64_t graph_step = 0;               // number of the step that was captured
  std::vector<std::int64_t> updates;         // number of updates of each optimizer before the capture
  std::vector<bool> gradients;               // per parameter: the captured step has a gradient
};

struct StepGraphs::InFlight {
  Specialization* graph = nullptr;
  Exchange::Pinned* pinned = nullptr;
  optim::DeviceUpdate update;
  std::size_t words = 0, probes_at = 0, probes = 0;  // sizes and offset in Pinned::telemetry
  std::uint64_t mark = 0;                            // Backend::wait_for(mark) returns when all results are on the host
};

StepGraphs::StepGraphs(Transaction& transaction, AttemptRunner& runner) : transaction_(transaction), runner_(runner) {}
StepGraphs::~StepGraphs() { discard_in_flight(); }

/// Discards the results of in-flight steps.
void StepGraphs::discard_in_flight() noexcept {
  if (in_flight_.empty()) return;
  try {
    exchange_->backend.wait_for(in_flight_.back().mark);
    exchange_->halted.fill(0);
  } catch (const std::exception&) {  // the device is lost, and the steps in flight with it
  }
  in_flight_.clear();
}

StepGraphs::Specialization& StepGraphs::specialization_of(const GraphStep& step) {
  const std::string key = key_of(step, transaction_.model().training());
  auto found = std::ranges::find_if(specializations_, [&](const auto& graph) { return graph->key == key; });
  if (found == specializations_.end()) {
    if (specializations_.size() >= kMaxSpecializations) specializations_.pop_back();
    specializations_.push_back(std::make_unique<Specialization>());
    specializations_.back()->key = key;
    found = std::prev(specializations_.end());
  }
  std::rotate(specializations_.begin(), found, std::next(found));
  return *specializations_.front();
}

/// If the step can be captured, prepares the graph's inputs and returns true.
bool StepGraphs::prepare(Specialization& graph, const GraphStep& step) {
  const Device device = transaction_.device();
  const auto& optimizers = transaction_.optimizers();
  const auto other = std::ranges::find_if_not(optimizers, &optim::Optimizer::device_can_decide);
  if (!graph.unsupported && kernels(device).decide && other != optimizers.end())
    mark_unsupported(graph, fmt::format("a device cannot decide about the updates of {}, a rule outside of Binade",
                                        (*other)->kind()));
  if (!graph.unsupported && kernels(device).decide && live_hooks() > 0)
    mark_unsupported(graph,
                     "there are hooks (Module::register_forward_hook, Variable::register_hook), which run on the "
                     "host");
  if (graph.unsupported || !kernels(device).decide || !transaction_.device_updates().possible()) return false;
  if (step.batch.size() > Exchange::kMicroBatches) return false;
  if (!std::exchange(graph.ran_before, true)) {  // the first step runs eagerly: libraries choose their algorithms
    if (specializations_.size() < kMaxSpecializations)
      backend_of(device)
          .trim();  // frees cached blocks of other sizes, except while specializations replace each other all the time
    return false;
  }
  if (!exchange_)
    exchange_ = std::make_unique<Exchange>(backend_of(device), Stream{device}, parameters_of(transaction_),
                                           optimizers.size());
  if (graph.batch.empty())
    for (const StateDict& micro_batch : step.batch) {
      StateDict& inputs = graph.batch.emplace_back();
      for (const auto& [name, value] : micro_batch.values()) {
        const auto* tensor = std::get_if<Tensor>(&value);
        inputs.put(name, tensor != nullptr ? StateDict::Value(Tensor::empty(tensor->shape(), tensor->dtype(), device))
                                           : value);
      }
    }
  return true;
}

/// Returns true if graphs may run, because no tensor of an eager step is in their arena. If there are such tensors in
/// two steps in a row, drops the graphs, so that they no longer need the arena.
bool StepGraphs::clear_arena() {
  const Backend& backend = exchange_->backend;
  if (backend.bytes_lent() > 0) transaction_.discard_gradients();
  const std::size_t held = backend.bytes_lent();
  if (held == 0) {
    arena_was_in_use_ = false;
    return true;
  }
  if (!std::exchange(arena_was_in_use_, true)) return false;
  arena_was_in_use_ = false;
  notes_.push_back(fmt::format("graphs must be captured again: {} bytes of an eager step outlive it", held));
  clear();
  return false;
}

/// If the shared arena is too small for a step with the allocations `trace`, drops all graphs except `graph`.
void StepGraphs::drop_smaller(const Specialization& graph, const MemoryTrace& trace) {
  std::size_t largest = 0;
  for (const auto& other : specializations_)
    if (other->recording) largest = std::max(largest, other->recording->arena_bytes());
  if (largest == 0 || plan_memory(trace, kAlignment).bytes <= largest) return;
  for (const auto& other : specializations_) {
    if (other.get() == &graph) continue;
    other->recording.reset();
    other->validated = false;
  }
}

/// Sends the numbers of the step (loss scale, bounds, …), of each optimizer and of each parameter (learning rate, …) to
/// the device.
void StepGraphs::write_numbers(const Specialization& graph, const GraphStep& step, const optim::DeviceUpdate& update) {
  Exchange& e = *exchange_;
  const Exchange::Pinned& pinned = e.next();
  const auto ahead = static_cast<std::int64_t>(in_flight_.size());
  StepNumbers* numbers = e.at<StepNumbers>(pinned.in, e.numbers);
  StepNumbers common{.step_offset = graph.recording ? step.number - graph.graph_step : 0,
                     .inverse_scale = step.inputs.front().inverse_scale,
                     .clip_norm = step.clip_norm,
                     .loss_bound = step.loss_bound,
                     .seed = static_cast<float>(step.loss_scale)};
  *numbers++ = common;
  // Counts an optimizer's updates, not steps: a step with phases may leave an optimizer out or update it twice.
  const std::vector<std::int64_t> updates = transaction_.device_updates().counts();
  const std::vector<optim::Ema*> averages = transaction_.averages();
  for (std::size_t i = 0; i < updates.size(); ++i) {
    common.step_offset = graph.recording ? updates[i] + ahead - graph.updates[i] : 0;
    common.average_weight = averages[i] != nullptr ? averages[i]->next_weight(ahead) : 0;
    *numbers++ = common;
  }
  std::ranges::copy(update.slices, e.at<UpdateSlice>(pinned.in, e.slices));
  std::ranges::copy(update.gradient_limits, e.at<double>(pinned.in, e.limits));
  e.backend.copy_later(e.device_in.mutable_raw(), pinned.in, e.in_bytes, CopyKind::kHostToDevice, e.stream);
}

void StepGraphs::write_batch(Specialization& graph, const GraphStep& step) const {
  for (std::size_t i = 0; i < step.batch.size(); ++i)
    for (const auto& [name, value] : step.batch[i].values())
      if (const auto* tensor = std::get_if<Tensor>(&value)) {
        Tensor input = graph.batch[i].tensor(name);
        input.copy_from(*tensor);
      }
}

/// Queues the whole step on the device; during a capture, records it in the graph.
void StepGraphs::launch(Specialization& graph, const GraphStep& step) {
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
                  .addresses = exchange_->addresses(parameters_of(transaction_), step.batch.size()),
                  .seed = exchange_->seed});
}

/// Runs the step without a commit, then captures it. `observed`: telemetry of an eager step of the same specialization,
/// which shows how many probe results the graph needs memory for.
void StepGraphs::capture(Specialization& graph, const GraphStep& step, const Telemetry& observed) {
  Backend& backend = exchange_->backend;
  if (step.probes.zeros || step.probes.limits) graph.telemetry.reserve_like(observed);
  const auto whole = [&] {
    launch(graph, step);
    transaction_.roll_back();  // discards the step's gradients and uncommitted buffers
  };
  try {
    write_numbers(graph, uncommitted(step), transaction_.device_updates().next(step.inputs));
    const MemoryTrace trace = [&] {
      const ArenaLoan lent(backend);
      return backend.trace(whole);
    }();
    const auto kept = std::ranges::count(trace.blocks, MemoryTrace::kKept, &MemoryTrace::Block::released);
    check<DeviceError>(kept == 0, "{} tensors that the closure makes outlive the step", kept);
    drop_smaller(graph, trace);
    backend.trim();  // frees the memory of eager steps
    graph.recording = backend.capture(whole, trace);
    graph.graph_step = step.number;
    graph.updates = transaction_.device_updates().counts();
    graph.gradients = transaction_.device_updates().had_gradients();
  } catch (...) {
    transaction_.roll_back();
    exchange_->halted.fill(0);
    throw;
  }
  exchange_->halted.fill(0);
}

/// Submits the graph, followed by the copies of its results to the host.
void StepGraphs::replay(Specialization& graph, const GraphStep& step, optim::DeviceUpdate update) {
  Exchange& e = *exchange_;
  write_numbers(graph, step, update);
  Exchange::Pinned& pinned = e.pinned[e.last];
  const std::span words(graph.recording->observations(),
                        2 * static_cast<std::size_t>(graph.recording->observation_count()));
  const std::span<const double> probes = graph.telemetry.probe_results();
  Layout layout;
  layout.add<std::uint32_t>(words.size());
  const std::size_t probes_at = layout.add<double>(probes.size());
  e.reserve_telemetry(pinned, layout.bytes());
  graph.recording->run();
  const auto copy_to_host = [&](std::byte* to, const void* from, std::size_t bytes) {
    if (bytes > 0) e.backend.copy_later(to, from, bytes, CopyKind::kDeviceToHost, e.stream);
  };
  copy_to_host(pinned.out, e.device_out.raw(), e.out_bytes);
  copy_to_host(pinned.telemetry, words.data(), words.size_bytes());
  copy_to_host(pinned.telemetry + probes_at, probes.data(), probes.size_bytes());
  in_flight_.push_back({.graph = &graph,
                        .pinned = &pinned,
                        .update = std::move(update),
                        .words = words.size(),
                        .probes_at = probes_at,
                        .probes = probes.size(),
                        .mark = e.backend.mark(e.stream)});
}

DeviceOutcome StepGraphs::collect(Telemetry& observed) {
  Exchange& e = *exchange_;
  const InFlight& oldest = in_flight_.front();
  e.backend.wait_for(oldest.mark);
  const std::size_t parameters = parameters_of(transaction_);
  const StepOutcome& outcome = *e.at<StepOutcome>(oldest.pinned->out, e.outcome);
  DeviceOutcome result{.cause = outcome.cause};
  const float* losses = e.at<float>(oldest.pinned->out, e.losses);
  for (std::size_t i = 0; i < oldest.graph->batch.size(); ++i) result.loss += losses[i];
  result.loss /= static_cast<double>(oldest.graph->batch.size());
  const auto* largest = e.at<std::uint32_t>(oldest.pinned->out, e.words);
  result.scan.words.assign(largest, largest + parameters);
  result.scan.largest = std::ranges::max(result.scan.words);
  result.scan.sum_squares = outcome.sum_squares;
  const auto* extremes = e.at<BlockExtremes>(oldest.pinned->out, e.extremes);
  result.extremes.assign(extremes, extremes + parameters);
  result.scan.gradients = transaction_.device_updates().updated_parameters();
  observed.replay(oldest.graph->telemetry, {e.at<std::uint32_t>(oldest.pinned->telemetry, 0), oldest.words},
                  {e.at<double>(oldest.pinned->telemetry, oldest.probes_at), oldest.probes});
  in_flight_.erase(in_flight_.begin());
  if (!result.commits()) {  // later steps were not committed either
    in_flight_.clear();
    e.halted.fill(0);
  }
  return result;
}

bool StepGraphs::submit(const GraphStep& step) {
  if (!exchange_ || gradients_differ_ || in_flight_.size() >= kMaxInFlight || !transaction_.device_updates().possible())
    return false;
  const std::string key = key_of(step, transaction_.model().training());
  const auto found = std::ranges::find_if(specializations_, [&](const auto& graph) { return graph->key == key; });
  if (found == specializations_.end() || !(*found)->validated || exchange_->backend.bytes_lent() > 0) return false;
  if ((*found)->gradients != transaction_.device_updates().had_gradients()) return false;
  std::vector<const optim::DeviceUpdate*> before;
  for (const InFlight& one : in_flight_) before.push_back(&one.update);
  std::optional<optim::DeviceUpdate> update = transaction_.device_updates().next_after(before, step.inputs);
  if (!update) return false;
  std::rotate(specializations_.begin(), found, std::next(found));
  Specialization& graph = *specializations_.front();
  write_batch(graph, step);
  replay(graph, step, *std::move(update));
  return true;
}

std::optional<DeviceOutcome> StepGraphs::run(const GraphStep& step, Telemetry& observed) {
  discard_in_flight();
  to_compare_.reset();
  Specialization& graph = specialization_of(step);
  const bool gradients_differ = std::exchange(gradients_differ_, false);
  if (!prepare(graph, step) || gradients_differ) return std::nullopt;
  if (graph.recording && graph.gradients != transaction_.device_updates().had_gradients()) return std::nullopt;
  if (step.compare && !graph.recording) return std::nullopt;
  if (!clear_arena()) return std::nullopt;
  write_batch(graph, step);
  if (!graph.recording) {
    try {
      capture(graph, step, observed);
    } catch (const DeviceLostError&) {
      throw;
    } catch (const Error& error) {
      mark_unsupported(graph, error.what());
      return std::nullopt;
    }
    if (!graph.recording) {
      mark_unsupported(graph, "the device cannot capture");
      return std::nullopt;
    }
  }
  optim::DeviceUpdate update = transaction_.device_updates().next(step.inputs);
  if (graph.validated && !step.compare) {
    replay(graph, step, std::move(update));
    return collect(observed);
  }
  Telemetry unused;
  replay(graph, uncommitted(step), std::move(update));
  to_compare_ = collect(unused);
  return std::nullopt;
}

void StepGraphs::compare_with_eager(double loss, const optim::GradientScan& scan) {
  if (!to_compare_) return;
  const DeviceOutcome recorded = *std::exchange(to_compare_, std::nullopt);
  Specialization& graph = *specializations_.front();
  if (recorded.loss == loss && recorded.scan.sum_squares == scan.sum_squares && recorded.scan.words == scan.words) {
    graph.validated = true;
    return;
  }
  const bool changed = graph.validated;
  graph.recording.reset();
  mark_unsupported(
      graph,
      fmt::format("the graph computes loss {:.9g} and squares of gradients {:.9g}, the eager step {:.9g} and {:.9g}{}",
                  recorded.loss, recorded.scan.sum_squares, loss, scan.sum_squares,
                  changed ? "; the closure reads state, besides its batch and the model, that has changed since the "
                            "capture: make it part of the batch"
                          : ""));
}

void StepGraphs::mark_unsupported(Specialization& graph, std::string_view why) {
  graph.unsupported = true;
  graph.batch.clear();
  notes_.push_back(fmt::format("steps run eagerly, not as captured graphs: {}", why));
}

void StepGraphs::clear() {
  discard_in_flight();
  specializations_.clear();
  to_compare_.reset();
}

bool StepGraphs::holds_graphs() const {
  return std::ranges::any_of(specializations_, [](const auto& graph) { return graph->recording != nullptr; });
}

}  // namespace binade::amp
