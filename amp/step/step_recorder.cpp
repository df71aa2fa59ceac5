#include "binade/amp/step/step_recorder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "binade/autograd/observer.h"
#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "binade/core/step_context.h"

namespace binade::amp {
namespace {

constexpr std::size_t kKinds = 8;  // four sizes of batches, with looks and without
constexpr std::size_t kAligned = 256;

/// Pieces of one block of memory, each on 256 bytes.
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

/// Everything that a recording is bound to.
std::string key_of(const StepRecorder::Step& step, bool training) {
  std::string key = fmt::format("{}; {}; {}; {}", step.maths, step.policy.to_string(), step.telemetry, training);
  if (step.telemetry) key += fmt::format("; {} {} {}", step.looks.zeros, step.looks.limits, step.looks.libraries);
  for (const StateDict& part : step.batch)
    for (const auto& [name, value] : part.values())
      if (const auto* tensor = std::get_if<Tensor>(&value))
        key += fmt::format("; {} {} {}", name, name_of(tensor->dtype()), tensor->shape());
  return key;
}

/// The same step, which the device does not commit.
StepRecorder::Step uncommitted(StepRecorder::Step step) {
  step.loss_bound = -std::numeric_limits<double>::infinity();
  return step;
}

}  // namespace

/// What crosses between host and device at every step: one block each way, on the device and, for each step under way,
/// in pinned memory.
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
  std::array<Here, kMostUnderWay + 1> here{};  // in turn; one more than are read at once
  std::size_t last = 0;
};

/// One kind of step.
struct StepRecorder::Kind {
  std::string key;
  bool made_before = false;
  bool refused = false, believed = false;
  std::vector<StateDict> batch;  // where recorded steps have theirs
  Telemetry telemetry;           // that watched while it was recorded
  std::unique_ptr<Recording> recording;
  std::int64_t recorded_step = 0;
};

/// A step under way.
struct StepRecorder::Sent {
  Kind* kind = nullptr;
  Exchange::Here* here = nullptr;
  optim::Optimizer::DeviceUpdate update;
  std::size_t words = 0, found_at = 0, found = 0;  // of what it saw
  std::uint64_t mark = 0;                          // reached when all of it is here
};

StepRecorder::StepRecorder(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, optim::Ema* ema)
    : runtime_(runtime), model_(model), optimizer_(optimizer), ema_(ema) {}
StepRecorder::~StepRecorder() { wait_for_all(); }

std::size_t StepRecorder::under_way() const { return sent_.size(); }

/// Of those under way nobody wants to know any more what they came to.
void StepRecorder::wait_for_all() noexcept {
  if (sent_.empty()) return;
  try {
    exchange_->backend.wait_for(sent_.back().mark);
    exchange_->halted.fill(0);
  } catch (const std::exception&) {  // the device is lost: so are they
  }
  sent_.clear();
}

StepRecorder::Kind& StepRecorder::kind_of(const Step& step) {
  const std::string key = key_of(step, model_.training());
  auto found = std::ranges::find_if(kinds_, [&](const auto& kind) { return kind->key == key; });
  if (found == kinds_.end()) {
    if (kinds_.size() >= kKinds) kinds_.pop_back();
    kinds_.push_back(std::make_unique<Kind>());
    kinds_.back()->key = key;
    found = std::prev(kinds_.end());
  }
  std::rotate(kinds_.begin(), found, std::next(found));
  return *kinds_.front();
}

/// Whether the step can be made here, and all that it needs but the recording.
bool StepRecorder::prepare(Kind& kind, const Step& step) {
  const Device device = runtime_.device();
  if (kind.refused || !step_kernels().filled(device.type) || !optimizer_.can_leave_to_device()) return false;
  if (step.batch.size() > Exchange::kMicroBatches) return false;
  if (!std::exchange(kind.made_before, true)) {  // libraries choose their algorithms in the first
    if (kinds_.size() < kKinds)
      backend_of(device).trim();  // blocks of other sizes; not where kinds take turns for ever
    return false;
  }
  if (!exchange_)
    exchange_ = std::make_unique<Exchange>(backend_of(device), Stream{device}, optimizer_.parameters().size());
  if (kind.batch.empty())
    for (const StateDict& part : step.batch) {
      StateDict& slots = kind.batch.emplace_back();
      for (const auto& [name, value] : part.values()) {
        const auto* tensor = std::get_if<Tensor>(&value);
        slots.put(name, tensor != nullptr ? StateDict::Value(Tensor::empty(tensor->shape(), tensor->dtype(), device))
                                          : value);
      }
    }
  return true;
}

/// Whether recordings may run: nobody else holds any of their arena. Where somebody does at two steps in a row, the
/// arena is left to them.
bool StepRecorder::clear_arena() {
  const Backend& backend = exchange_->backend;
  if (backend.bytes_lent() > 0) optimizer_.zero_grad();
  const std::size_t held = backend.bytes_lent();
  if (held == 0) {
    held_up_ = false;
    return true;
  }
  if (!std::exchange(held_up_, true)) return false;
  held_up_ = false;
  notes_.push_back(fmt::format("steps are recorded anew: {} bytes that a step made op by op outlive it", held));
  forget();
  return false;
}

/// Forgets the recordings whose arena is too small for a step that takes memory as `trace` does.
void StepRecorder::drop_smaller(const Kind& kind, const MemoryTrace& trace) {
  std::size_t largest = 0;
  for (const auto& other : kinds_)
    if (other->recording) largest = std::max(largest, other->recording->arena_bytes());
  if (largest == 0 || plan_memory(trace, kAligned).bytes <= largest) return;
  for (const auto& other : kinds_) {
    if (other.get() == &kind) continue;
    other->recording.reset();
    other->believed = false;
  }
}

/// Into the exchange's next place.
void StepRecorder::write_numbers(const Kind& kind, const Step& step, const optim::Optimizer::DeviceUpdate& update) {
  Exchange& e = *exchange_;
  const Exchange::Here& here = e.next();
  const auto ahead = static_cast<std::int64_t>(sent_.size());
  *e.at<StepNumbers>(here.in, e.numbers) = {.step_offset = kind.recording ? step.number - kind.recorded_step : 0,
                                            .inverse_scale = step.input.inverse_scale,
                                            .clip_norm = step.clip_norm,
                                            .loss_bound = step.loss_bound,
                                            .seed = static_cast<float>(step.loss_scale),
                                            .average_weight = ema_ != nullptr ? ema_->next_weight(ahead) : 0};
  std::ranges::copy(update.slices, e.at<UpdateSlice>(here.in, e.slices));
  std::ranges::copy(update.gradient_limits, e.at<double>(here.in, e.limits));
  e.backend.copy_later(e.in_there.mutable_raw(), here.in, e.in_bytes, CopyKind::kHostToDevice, e.stream);
}

void StepRecorder::write_batch(Kind& kind, const Step& step) const {
  for (std::size_t i = 0; i < step.batch.size(); ++i)
    for (const auto& [name, value] : step.batch[i].values())
      if (const auto* tensor = std::get_if<Tensor>(&value)) {
        Tensor slot = kind.batch[i].tensor(name);
        slot.copy_from(*tensor);
      }
}

/// The whole step: what is recorded.
void StepRecorder::body(Kind& kind, const Step& step) {
  const Device device = runtime_.device();
  const StepKernels& kernels = step_kernels().on(device, "step");
  const StepPlaces places = exchange_->places(optimizer_.parameters().size(), step.batch.size());
  const PolicyScope precision(step.policy);
  const nn::TransactionScope transaction;
  const GradGuard recording;
  std::optional<ObserverScope> watching;
  std::optional<OwnKernelsOnly> reading_nothing_again;
  if (!step.looks.libraries) reading_nothing_again.emplace();
  if (step.telemetry) {
    kind.telemetry.begin(step.looks);
    watching.emplace(kind.telemetry);
  }
  kernels.begin(places);
  optimizer_.zero_grad();
  Tensor losses = exchange_->out_there;
  for (std::size_t i = 0; i < step.batch.size(); ++i) {
    step_context().micro_batch = static_cast<std::uint32_t>(i);
    step_context().tape_index = 0;
    const Variable loss = step.loss(static_cast<int>(i), kind.batch[i]);
    check<ArgumentError>(loss.defined() && loss.value().numel() == 1,
                         "trainer: the closure must return a loss of one element; average it over the batch");
    check<DTypeError>(loss.dtype() == DType::f32, "trainer: a recorded step wants a loss in f32, got {}",
                      name_of(loss.dtype()));
    exchange_->backend.copy(places.losses + i, loss.value().raw(), sizeof(float), CopyKind::kDeviceToDevice,
                            exchange_->stream);
    backward(loss, exchange_->seed.view_at(0, loss.shape()));
  }
  std::vector<Tensor> statistics;
  std::vector<MemoryCopy> commits;
  for (const auto& [name, buffer] : nn::named_buffers(model_)) {
    if (!buffer->pending()) continue;
    const Tensor& shadow = buffer->value();
    check<DTypeError>(shadow.dtype() == DType::f32 || !is_floating(shadow.dtype()),
                      "trainer: a recorded step wants buffers in f32, {} is {}", name, name_of(shadow.dtype()));
    if (shadow.dtype() == DType::f32) statistics.push_back(shadow);
    commits.push_back({buffer->mutable_committed().mutable_raw(), shadow.raw(), shadow.bytes()});
  }
  optimizer_.send_to(places, statistics);
  kernels.commit(places, commits);
  if (ema_ != nullptr) ema_->send_to(places);
  kernels.end(places);
}

/// Rehearses the step, which commits nothing, and records it. `seen` watched its kind when it was made op by op.
void StepRecorder::record(Kind& kind, const Step& step, const Telemetry& seen) {
  Backend& backend = exchange_->backend;
  if (step.looks.zeros || step.looks.limits) kind.telemetry.keep_room(seen);
  const auto drop = [&] {  // what the host holds of a step under way
    for (const auto& [name, buffer] : nn::named_buffers(model_)) buffer->rollback();
    optimizer_.zero_grad();
  };
  const auto whole = [&] {
    body(kind, step);
    drop();
  };
  try {
    write_numbers(kind, uncommitted(step), optimizer_.device_update(step.input));
    const MemoryTrace trace = [&] {
      const LentArenas lent(backend);
      return backend.trace(whole);
    }();
    const auto kept = std::ranges::count(trace.blocks, MemoryTrace::kKept, &MemoryTrace::Block::given_back);
    check<DeviceError>(kept == 0, "{} tensors that the closure makes outlive the step", kept);
    drop_smaller(kind, trace);
    backend.trim();  // steps made op by op took as much again
    kind.recording = backend.record(whole, trace);
    kind.recorded_step = step.number;
  } catch (...) {
    drop();
    exchange_->halted.fill(0);
    throw;
  }
  exchange_->halted.fill(0);
}

/// Sends it, and what there will be to know of it behind it.
void StepRecorder::run(Kind& kind, const Step& step, optim::Optimizer::DeviceUpdate update) {
  Exchange& e = *exchange_;
  write_numbers(kind, step, update);
  Exchange::Here& here = e.here[e.last];
  const std::span words(kind.recording->observations(),
                        2 * static_cast<std::size_t>(kind.recording->observation_count()));
  const std::span<const double> found = kind.telemetry.found();
  Layout seen;
  seen.add<std::uint32_t>(words.size());
  const std::size_t found_at = seen.add<double>(found.size());
  e.make_room(here, seen.bytes());
  kind.recording->run();
  const auto bring_later = [&](std::byte* to, const void* from, std::size_t bytes) {
    if (bytes > 0) e.backend.copy_later(to, from, bytes, CopyKind::kDeviceToHost, e.stream);
  };
  bring_later(here.out, e.out_there.raw(), e.out_bytes);
  bring_later(here.seen, words.data(), words.size_bytes());
  bring_later(here.seen + found_at, found.data(), found.size_bytes());
  sent_.push_back({.kind = &kind,
                   .here = &here,
                   .update = std::move(update),
                   .words = words.size(),
                   .found_at = found_at,
                   .found = found.size(),
                   .mark = e.backend.mark(e.stream)});
}

StepRecorder::Outcome StepRecorder::bring(Telemetry& seen) {
  Exchange& e = *exchange_;
  const Sent& sent = sent_.front();
  e.backend.wait_for(sent.mark);
  const std::size_t parameters = optimizer_.parameters().size();
  const StepOutcome& outcome = *e.at<StepOutcome>(sent.here->out, e.outcome);
  Outcome result{.cause = outcome.cause};
  const float* losses = e.at<float>(sent.here->out, e.losses);
  for (std::size_t i = 0; i < sent.kind->batch.size(); ++i) result.loss += losses[i];
  result.loss /= static_cast<double>(sent.kind->batch.size());
  const auto* largest = e.at<std::uint32_t>(sent.here->out, e.words);
  result.scan.words.assign(largest, largest + parameters);
  result.scan.largest = std::ranges::max(result.scan.words);
  result.scan.sum_squares = outcome.sum_squares;
  const auto* extremes = e.at<BlockExtremes>(sent.here->out, e.extremes);
  result.extremes.assign(extremes, extremes + parameters);
  result.scan.gradients = optimizer_.updated_parameters();
  seen.replay(sent.kind->telemetry, {e.at<std::uint32_t>(sent.here->seen, 0), sent.words},
              {e.at<double>(sent.here->seen, sent.found_at), sent.found});
  sent_.erase(sent_.begin());
  if (!result.commits()) {  // behind those that are void now
    sent_.clear();
    e.halted.fill(0);
  }
  return result;
}

bool StepRecorder::send(const Step& step) {
  if (!exchange_ || sent_.size() >= kMostUnderWay || !optimizer_.can_leave_to_device()) return false;
  const std::string key = key_of(step, model_.training());
  const auto found = std::ranges::find_if(kinds_, [&](const auto& kind) { return kind->key == key; });
  if (found == kinds_.end() || !(*found)->believed || exchange_->backend.bytes_lent() > 0) return false;
  std::vector<const optim::Optimizer::DeviceUpdate*> before;
  for (const Sent& sent : sent_) before.push_back(&sent.update);
  std::optional<optim::Optimizer::DeviceUpdate> update = optimizer_.device_update_behind(before, step.input);
  if (!update) return false;
  std::rotate(kinds_.begin(), found, std::next(found));
  Kind& kind = *kinds_.front();
  write_batch(kind, step);
  run(kind, step, *std::move(update));
  return true;
}

std::optional<StepRecorder::Outcome> StepRecorder::make(const Step& step, Telemetry& seen) {
  wait_for_all();
  to_compare_.reset();
  Kind& kind = kind_of(step);
  if (!prepare(kind, step)) return std::nullopt;
  if (step.compare && !kind.recording) return std::nullopt;
  if (!clear_arena()) return std::nullopt;
  write_batch(kind, step);
  if (!kind.recording) {
    try {
      record(kind, step, seen);
    } catch (const DeviceLostError&) {
      throw;
    } catch (const Error& error) {
      refuse(kind, error.what());
      return std::nullopt;
    }
    if (!kind.recording) {
      refuse(kind, "the device records nothing");
      return std::nullopt;
    }
  }
  optim::Optimizer::DeviceUpdate update = optimizer_.device_update(step.input);
  if (kind.believed && !step.compare) {
    run(kind, step, std::move(update));
    return bring(seen);
  }
  Telemetry unused;
  run(kind, uncommitted(step), std::move(update));
  to_compare_ = bring(unused);
  return std::nullopt;
}

void StepRecorder::made_op_by_op(double loss, const optim::GradientScan& scan) {
  if (!to_compare_) return;
  const Outcome recorded = *std::exchange(to_compare_, std::nullopt);
  Kind& kind = *kinds_.front();
  if (recorded.loss == loss && recorded.scan.sum_squares == scan.sum_squares && recorded.scan.words == scan.words) {
    kind.believed = true;
    return;
  }
  const bool changed = kind.believed;
  kind.recording.reset();
  refuse(kind, fmt::format("recorded it comes to loss {:.9g} and squares of gradients {:.9g}, op by op to {:.9g} and "
                           "{:.9g}{}",
                           recorded.loss, recorded.scan.sum_squares, loss, scan.sum_squares,
                           changed ? "; the closure reads something besides its batch and the model that has changed "
                                     "since, which steps have not seen: hand it over with the batch"
                                   : ""));
}

void StepRecorder::refuse(Kind& kind, std::string_view why) {
  kind.refused = true;
  kind.batch.clear();
  notes_.push_back(fmt::format("steps are sent op by op, not recorded: {}", why));
}

void StepRecorder::forget() {
  wait_for_all();
  kinds_.clear();
  to_compare_.reset();
}

bool StepRecorder::holds_recordings() const {
  return std::ranges::any_of(kinds_, [](const auto& kind) { return kind->recording != nullptr; });
}

void StepRecorder::committed(const Outcome& outcome) {
  optimizer_.was_updated(outcome.extremes);
  for (const auto& [name, buffer] : nn::named_buffers(model_)) buffer->mutable_committed().bump_version();
  if (ema_ != nullptr) ema_->was_updated();
}

}  // namespace binade::amp
