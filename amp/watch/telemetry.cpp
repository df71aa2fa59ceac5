#include "binade/amp/watch/telemetry.h"

#include <cmath>
#include <map>

#include "binade/amp/watch/attention_entropy.h"
#include "binade/autograd/node.h"
#include "binade/autograd/weight.h"
#include "binade/core/captured_graph.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"

namespace binade::amp {
namespace {

constexpr double kOverflowed = -std::numeric_limits<double>::infinity();
constexpr std::uint32_t kZeros = 1;  // the magnitude, as float bits, that a kernel reports if it stored only zeros

double headroom_in_binades(std::uint32_t word, DType dtype) {
  const std::uint32_t limit = overflow_word(dtype);
  if (word <= kZeros) return std::numeric_limits<double>::infinity();
  if (word >= limit) return kOverflowed;
  const double top = dtype == DType::f32 ? 128.0 : std::log2(static_cast<double>(std::bit_cast<float>(limit)));
  return top - std::log2(static_cast<double>(std::bit_cast<float>(word)));
}

/// The bits of the largest float that rounds to 0 in `dtype`.
constexpr std::uint32_t underflow_word(DType dtype) { return dtype == DType::f16 ? 0x33000000u : 0x00008000u; }

std::int64_t count_zeros(const Tensor& gradient, const ZeroSample& sample) {
  const Tensor flat = gradient.on_host();
  const auto* bits = static_cast<const std::uint16_t*>(flat.raw());
  std::int64_t zeros = 0;
  for (std::int64_t run = 0; run < ZeroSample::kRuns; ++run)
    for (std::int64_t i = sample.begin(run), end = i + sample.length(run); i < end; ++i)
      zeros += (bits[i] & 0x7fffu) == 0;
  return zeros;
}

/// True if the tensors are on a device with probe kernels.
bool probes_on_device(std::span<const Tensor> tensors) {
  return std::ranges::any_of(tensors, [](const Tensor& t) { return t.defined() && kernels(t.device()).zero_probe; });
}

/// Adds the measurements of later micro-batches to those of earlier ones, as record() and the probes do.
void merge(Telemetry::OpRecord& all, const Telemetry::OpRecord& later) {
  if (later.op == nullptr) return;
  if (all.op == nullptr) {
    all = later;
    return;
  }
  all.module = later.module;
  all.op = later.op;
  all.info = later.info;
  if (later.amax.low != 0) all.half_dtype = later.half_dtype;
  all.amax.merge(later.amax);
  all.sampled += later.sampled;
  all.zeros += later.zeros;
  all.is_attention_scores = all.is_attention_scores || later.is_attention_scores;
  all.masked = all.masked || later.masked;
  if (later.singularity) {
    if (!all.singularity) all.singularity.emplace();
    all.singularity->merge(*later.singularity);
  }
  if (later.entropy) all.entropy = std::min(*later.entropy, all.entropy.value_or(1));
}

}  // namespace

double headroom_of(const Observation& amax, DType half) {
  return std::min(headroom_in_binades(amax.low, half), headroom_in_binades(amax.wide, DType::f32));
}

bool overflowed(const Observation& amax, DType half) { return headroom_of(amax, half) == kOverflowed; }

bool only_zeros(const Observation& amax) { return amax.any() && std::max(amax.low, amax.wide) <= kZeros; }

bool all_underflow(const Observation& amax, DType half) {
  return amax.low > kZeros && amax.low <= underflow_word(half);
}

void Telemetry::begin(const Probes& probes) {
  probes_ = probes;
  mask_readers_.clear();
  pending_probes_.clear();
  buffer_.clear();
  for (Tape* tape : {&forward_, &backward_}) {
    tape->length = 0;
    for (OpRecord& record : tape->records) {
      std::string module = std::move(record.module);  // reuses its memory
      std::vector<std::int64_t> producers = std::move(record.producers);
      module.clear();
      producers.clear();
      record = {.module = std::move(module), .producers = std::move(producers)};
    }
  }
}

Telemetry::OpRecord& Telemetry::record(const OpCall& call, std::span<const Tensor> results, const Observation& amax) {
  Tape& tape = call.direction == Direction::kForward ? forward_ : backward_;
  const auto index = static_cast<std::size_t>(call.tape_index);
  tape.length = std::max(tape.length, index + 1);
  if (tape.length > tape.records.size()) tape.records.resize(tape.length);
  OpRecord& record = tape.records[index];
  if (record.module != call.module_path) record.module = call.module_path;
  record.op = call.info.name;
  record.info = &call.info;
  const bool probes = probes_.zeros && call.direction == Direction::kBackward;
  for (const Tensor& result : results) {
    if (!result.defined() || !is_floating(result.dtype()) || size_of(result.dtype()) != 2) continue;
    record.half_dtype = result.dtype();
    if (probes) probe_zeros(call, result, record);
  }
  Observation stored = amax;
  if (record.amax.pending != 0) {  // an earlier micro-batch has a pending result too
    if (stored.pending != 0) record.pending.push_back(stored.pending);
    stored.pending = 0;
  }
  record.amax.merge(stored);
  return record;
}

/// Finds the ops whose results the running op reads. A parameter has no producer, and neither has a tensor from outside
/// of the tape, such as the batch.
void Telemetry::find_producers(std::span<const Variable> inputs, const Tensors& read) {
  producers_.clear();
  reads_outside_ = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Variable& x = inputs[i];
    if (!x.defined() || !is_floating(x.dtype()) || is_weight(x)) continue;
    const Node* node = x.state()->node.get();
    // If the policy cast the input, the tensor that the op reads is not the input's own.
    const bool cast = read[i].raw() != x.value().raw();
    const std::int64_t producer = node != nullptr && !cast ? node->tape_index() : producer_of(read[i].raw());
    if (producer >= 0)
      producers_.push_back(producer);
    else
      reads_outside_ = true;
  }
}

/// Returns the tape index of the newest op that stored `operand`; -1 if there is none.
std::int64_t Telemetry::producer_of(const void* operand) const {
  for (auto i = static_cast<std::int64_t>(forward_.length) - 1; i >= 0; --i)
    if (forward_.records[static_cast<std::size_t>(i)].result == operand) return i;
  return -1;
}

void Telemetry::before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) {
  if (probes_.limits) find_producers(inputs, read);
  mask_operands_.clear();
  reads_scores_ = false;
  if (call.info.numerics.non_finite != NonFinite::kMasks) return;
  for (const Variable& x : inputs)
    if (x.defined()) mask_operands_.push_back(x.value().raw());
  const Node* scores = attention_scores(call, inputs);
  reads_scores_ = scores != nullptr;
  if (const auto at = static_cast<std::size_t>(scores != nullptr ? scores->tape_index() : -1); at < forward_.length)
    forward_.records[at].is_attention_scores = true;
}

void Telemetry::after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                              const Observation& amax) {
  const auto index = static_cast<std::size_t>(call.tape_index);
  // Only the first call of an op is used, because later micro-batches and recomputed segments call the same ops with
  // other addresses.
  const bool first = index >= forward_.length || forward_.records[index].op == nullptr;
  OpRecord& stored = record(call, outputs, amax);
  if (probes_.limits && first) {
    stored.producers.swap(producers_);
    stored.reads_outside = reads_outside_;
  }
  if (probes_.limits) probe_limits(call, read, stored);
  stored.result = outputs.empty() || !outputs.front().defined() ? nullptr : outputs.front().raw();
  if (mask_operands_.empty()) return;
  if (amax.pending != 0)
    mask_readers_.push_back({call.tape_index, mask_operands_});
  else
    ignore_masks(call.tape_index, amax, mask_operands_);
}

void Telemetry::synchronize() {
  if (!pending_probes_.empty()) merge_probes(buffer_.copy_to_host());
  resolve_pending([](const Observation& amax) { return amax.synchronized(); });
}

void Telemetry::replay(const Telemetry& captured, std::span<const std::uint32_t> words,
                       std::span<const double> probed) {
  probes_ = captured.probes_;
  forward_ = captured.forward_;
  backward_ = captured.backward_;
  mask_readers_ = captured.mask_readers_;
  pending_probes_ = captured.pending_probes_;
  merge_probes(probed);
  resolve_pending([&](Observation amax) {
    const std::int64_t number = std::exchange(amax.pending, 0);
    if (number == 0) return amax;
    const auto at = static_cast<std::size_t>(2 * (number - kCapturedObservations));
    amax.merge({.low = words[at], .wide = words[at + 1]});
    return amax;
  });
}

/// Replaces each observation by `resolved(observation)`, an observation whose values are known on the host.
template <class F>
void Telemetry::resolve_pending(F&& resolved) {
  for (Tape* tape : {&forward_, &backward_})
    for (OpRecord& record : std::span(tape->records).first(tape->length)) {
      record.amax = resolved(record.amax);
      for (const std::int64_t number : record.pending) record.amax.merge(resolved(Observation{.pending = number}));
      record.pending.clear();
    }
  for (const MaskReader& reader : std::exchange(mask_readers_, {}))
    ignore_masks(reader.tape_index, forward_.records[static_cast<std::size_t>(reader.tape_index)].amax,
                 reader.operands);
}

void Telemetry::probe_limits(const OpCall& call, std::span<const Tensor> read, OpRecord& record) {
  if (probes_on_device(read)) return probe_limits_on_device(call, read, record);
  const ObservationScope unobserved;
  if (call.info.singular()) {
    const SingularityDistance distance = singularity_distance(call, read);
    if (!record.singularity || distance.binades < record.singularity->binades) record.singularity = distance;
  }
  if (const std::optional<double> entropy = attention_entropy(call, read, reads_scores_))
    record.entropy = std::min(*entropy, record.entropy.value_or(1));
}

/// Queues the probes of probe_limits() on the device; merge_probes() completes the record.
void Telemetry::probe_limits_on_device(const OpCall& call, std::span<const Tensor> read, OpRecord& record) {
  if (call.info.singular()) {
    if (!record.singularity) record.singularity.emplace();
    record.singularity->merge(singularity_distance_of_params(call));
    for (const NearestOnDevice& nearest : probe_singularity(call, read, buffer_))
      pending_probes_.push_back({PendingProbe::Kind::kSingularity, call.tape_index, nearest.index, 1, nearest.dtype});
  }
  if (const std::optional<EntropiesOnDevice> entropies = probe_entropy(call, read, reads_scores_, buffer_))
    pending_probes_.push_back({PendingProbe::Kind::kEntropy, call.tape_index, entropies->first, entropies->count});
}

void Telemetry::probe_zeros(const OpCall& call, const Tensor& gradient, OpRecord& record) {
  const ZeroSample sample(gradient.numel());
  record.sampled += sample.size();
  if (!probes_on_device(std::span(&gradient, 1))) {
    record.zeros += count_zeros(gradient, sample);
    return;
  }
  const ProbeBuffer::Range range = buffer_.allocate(1, gradient.device());
  kernels(gradient.device()).zero_probe({probed_values(gradient), range.data});
  pending_probes_.push_back({PendingProbe::Kind::kZeros, call.tape_index, range.first});
}

/// Merges the results of the pending probes into their records.
void Telemetry::merge_probes(std::span<const double> probed) {
  for (const PendingProbe& probe : std::exchange(pending_probes_, {})) {
    Tape& tape = probe.kind == PendingProbe::Kind::kZeros ? backward_ : forward_;
    OpRecord& record = tape.records[static_cast<std::size_t>(probe.tape_index)];
    const auto results = probed.subspan(static_cast<std::size_t>(probe.first), static_cast<std::size_t>(probe.count));
    if (probe.kind == PendingProbe::Kind::kZeros) {
      record.zeros += static_cast<std::int64_t>(results[0]);
    } else if (probe.kind == PendingProbe::Kind::kSingularity) {
      record.singularity->merge(singularity_distance_of(results[0], probe.dtype));
    } else if (const std::optional<double> entropy = mean_entropy(results)) {
      record.entropy = std::min(*entropy, record.entropy.value_or(1));
    }
  }
}

/// Ignores the infinities in the operands of an op that takes masks, unless its result is not finite either. `reader`:
/// tape index of the op; `amax`: magnitude of its result; `operands`: addresses.
void Telemetry::ignore_masks(std::int64_t reader, const Observation& amax, std::span<const void* const> operands) {
  const DType half = forward_.records[static_cast<std::size_t>(reader)].half_dtype;
  if (overflowed(amax, half)) return;
  for (const void* operand : operands) ignore_infinities(reader, operand);
}

/// Clears the records of the op before tape index `before` that stored `operand`, and of the ops that returned views of
/// `operand`, if they hold an infinity.
void Telemetry::ignore_infinities(std::int64_t before, const void* operand) {
  for (std::int64_t i = before - 1; i >= 0; --i) {
    OpRecord& record = forward_.records[static_cast<std::size_t>(i)];
    if (record.result != operand) continue;
    if (record.amax.any() && !overflowed(record.amax, record.half_dtype)) return;
    record.masked = record.masked || record.amax.any();
    record.amax = {};
  }
}

void Telemetry::after_backward(const OpCall& call, std::span<const Tensor>, std::span<const Tensor> gx,
                               const Observation& amax) {
  record(call, gx, amax);
}

void Telemetry::replace(Direction direction, std::span<const std::vector<OpRecord>> parts) {
  Tape& tape = direction == Direction::kForward ? forward_ : backward_;
  std::size_t length = 0;
  for (const std::vector<OpRecord>& part : parts) length = std::max(length, part.size());
  tape.records.resize(std::max(tape.records.size(), length));
  for (std::size_t i = 0; i < length; ++i) {
    const OpRecord own = i < tape.length ? tape.records[i] : OpRecord{};
    OpRecord all;
    for (const std::vector<OpRecord>& part : parts)
      if (i < part.size()) merge(all, part[i]);
    if (own.op != nullptr && all.op != nullptr && std::string_view(own.op) == all.op) {
      all.op = own.op;
      all.info = own.info;
    }
    tape.records[i] = std::move(all);
  }
  tape.length = length;
}

Headroom Telemetry::least(Direction direction) const {
  Headroom least;
  for (const OpRecord& record : records(direction)) {
    const double binades = headroom_of(record.amax, record.half_dtype);
    if (binades < least.binades) least = {binades, record.module, record.op};
  }
  return least;
}

std::vector<ModuleHeadroom> Telemetry::by_module() const {
  std::vector<ModuleHeadroom> modules;
  std::map<std::string_view, std::size_t> index;
  const auto merge = [&](Direction direction, double ModuleHeadroom::*side) {
    for (const OpRecord& record : records(direction)) {
      const double binades = headroom_of(record.amax, record.half_dtype);
      if (binades == std::numeric_limits<double>::infinity()) continue;
      const auto [at, added] = index.try_emplace(record.module, modules.size());
      if (added) modules.push_back({.module = record.module});
      double& least = modules[at->second].*side;
      least = std::min(least, binades);
    }
  };
  merge(Direction::kForward, &ModuleHeadroom::forward);
  merge(Direction::kBackward, &ModuleHeadroom::backward);
  return modules;
}

double Telemetry::headroom_in(DType dtype, std::string_view target) const {
  double least = std::numeric_limits<double>::infinity();
  for (const Direction direction : {Direction::kForward, Direction::kBackward})
    for (const OpRecord& record : records(direction))
      if (record.op != nullptr && target == fmt::format("{}/{}", record.module, record.op))
        least = std::min(
            {least, headroom_in_binades(record.amax.low, dtype), headroom_in_binades(record.amax.wide, dtype)});
  return least;
}

}  // namespace binade::amp
