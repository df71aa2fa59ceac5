#include "binade/amp/watch/telemetry.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "binade/amp/watch/attention_entropy.h"
#include "binade/autograd/node.h"
#include "binade/core/captured_graph.h"
#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"

namespace binade::amp {
namespace {

constexpr double kOverflown = -std::numeric_limits<double>::infinity();
constexpr std::uint32_t kZeros = 1;  // the word of a kernel that stored nothing but zeros

double binades_left(std::uint32_t word, DType dtype) {
  const std::uint32_t limit = overflow_word(dtype);
  if (word <= kZeros) return std::numeric_limits<double>::infinity();
  if (word >= limit) return kOverflown;
  const double top = dtype == DType::f32 ? 128.0 : std::log2(static_cast<double>(std::bit_cast<float>(limit)));
  return top - std::log2(static_cast<double>(std::bit_cast<float>(word)));
}

/// The largest word that rounds to 0.
constexpr std::uint32_t vanishing_word(DType dtype) { return dtype == DType::f16 ? 0x33000000u : 0x00008000u; }

std::int64_t count_zeros(const Tensor& gradient, const ZeroSample& sample) {
  const Tensor flat = gradient.on_host();
  const auto* bits = static_cast<const std::uint16_t*>(flat.raw());
  std::int64_t zeros = 0;
  for (std::int64_t run = 0; run < ZeroSample::kRuns; ++run)
    for (std::int64_t i = sample.begin(run), end = i + sample.length(run); i < end; ++i)
      zeros += (bits[i] & 0x7fffu) == 0;
  return zeros;
}

/// Whether tensors of this call are looked at where they are.
bool looks_there(std::span<const Tensor> tensors) {
  return std::ranges::any_of(tensors, [](const Tensor& t) { return t.defined() && kernels(t.device()).zero_probe; });
}

}  // namespace

double headroom_of(const Observation& seen, DType low) {
  return std::min(binades_left(seen.low, low), binades_left(seen.wide, DType::f32));
}

bool vanished(const Observation& seen, DType low) { return seen.low > kZeros && seen.low <= vanishing_word(low); }

void Telemetry::begin(const Probes& probes) {
  probes_ = probes;
  readers_.clear();
  pending_.clear();
  numbers_.begin();
  for (Tape* tape : {&forward_, &backward_}) {
    tape->length = 0;
    for (Slot& slot : tape->slots) {
      std::string module = std::move(slot.module);  // its memory is of use again
      module.clear();
      slot = {.module = std::move(module)};
    }
  }
}

Telemetry::Slot& Telemetry::note(const OpCall& call, std::span<const Tensor> results, const Observation& seen) {
  Tape& tape = call.direction == Direction::kForward ? forward_ : backward_;
  const auto index = static_cast<std::size_t>(call.tape_index);
  tape.length = std::max(tape.length, index + 1);
  if (tape.length > tape.slots.size()) tape.slots.resize(tape.length);
  Slot& slot = tape.slots[index];
  if (slot.module != call.module_path) slot.module = call.module_path;
  slot.op = call.info.name;
  const bool counts = probes_.zeros && call.direction == Direction::kBackward;
  for (const Tensor& result : results) {
    if (!result.defined() || !is_floating(result.dtype()) || size_of(result.dtype()) != 2) continue;
    slot.low = result.dtype();
    if (counts) look_at_zeros(call, result, slot);
  }
  Observation here = seen;
  if (slot.seen.pending != 0) {  // another micro-batch
    if (here.pending != 0) slot.waiting.push_back(here.pending);
    here.pending = 0;
  }
  slot.seen.merge(here);
  return slot;
}

void Telemetry::before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors&) {
  may_be_masked_.clear();
  reads_scores_ = false;
  if (call.info.numerics.non_finite != NonFinite::kMasks) return;
  for (const Variable& x : inputs)
    if (x.defined()) may_be_masked_.push_back(x.value().raw());
  const Node* scores = attention_scores(call, inputs);
  reads_scores_ = scores != nullptr;
  if (const auto at = static_cast<std::size_t>(scores != nullptr ? scores->tape_index() : -1); at < forward_.length)
    forward_.slots[at].of_scores = true;
}

void Telemetry::after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                              const Observation& seen) {
  Slot& slot = note(call, outputs, seen);
  if (probes_.limits) look_at_limits(call, read, slot);
  slot.stored = outputs.empty() || !outputs.front().defined() ? nullptr : outputs.front().raw();
  if (may_be_masked_.empty()) return;
  if (seen.pending != 0)
    readers_.push_back({call.tape_index, may_be_masked_});
  else
    forgive_masks(call.tape_index, seen, may_be_masked_);
}

void Telemetry::settle() {
  if (!pending_.empty()) take_found(numbers_.bring());
  settle_with([](const Observation& seen) { return seen.synchronized(); });
}

void Telemetry::replay(const Telemetry& recorded, std::span<const std::uint32_t> words, std::span<const double> found) {
  probes_ = recorded.probes_;
  forward_ = recorded.forward_;
  backward_ = recorded.backward_;
  readers_ = recorded.readers_;
  pending_ = recorded.pending_;
  take_found(found);
  settle_with([&](Observation seen) {
    const std::int64_t number = std::exchange(seen.pending, 0);
    if (number == 0) return seen;
    const auto at = static_cast<std::size_t>(2 * (number - kCapturedObservations));
    seen.merge({.low = words[at], .wide = words[at + 1]});
    return seen;
  });
}

/// `words_of` an observation: with nothing pending.
template <class F>
void Telemetry::settle_with(F&& words_of) {
  for (Tape* tape : {&forward_, &backward_})
    for (Slot& slot : std::span(tape->slots).first(tape->length)) {
      slot.seen = words_of(slot.seen);
      for (const std::int64_t number : slot.waiting) slot.seen.merge(words_of(Observation{.pending = number}));
      slot.waiting.clear();
    }
  for (const Reader& reader : std::exchange(readers_, {}))
    forgive_masks(reader.tape_index, forward_.slots[static_cast<std::size_t>(reader.tape_index)].seen, reader.read);
}

void Telemetry::forgive_masks(std::int64_t reader, const Observation& seen, std::span<const void* const> addresses) {
  const DType low = forward_.slots[static_cast<std::size_t>(reader)].low;
  if (headroom_of(seen, low) == kOverflown) return;  // what it read was no mask
  for (const void* address : addresses) forgive(reader, address);
}

void Telemetry::look_at_limits(const OpCall& call, std::span<const Tensor> read, Slot& slot) {
  if (looks_there(read)) return look_there(call, read, slot);
  const ObservationScope unseen;
  if (call.info.singular()) {
    const SingularityDistance distance = singularity_distance(call, read);
    if (!slot.singularity || distance.binades < slot.singularity->binades) slot.singularity = distance;
  }
  if (const std::optional<double> entropy = attention_entropy(call, read, reads_scores_))
    slot.entropy = std::min(*entropy, slot.entropy.value_or(1));
}

/// The same by kernels, whose results settle() brings.
void Telemetry::look_there(const OpCall& call, std::span<const Tensor> read, Slot& slot) {
  if (call.info.singular()) {
    if (!slot.singularity) slot.singularity.emplace();
    slot.singularity->merge(singularity_distance_by_number(call));
    for (const NearestOnDevice& look : probe_singularity(call, read, numbers_))
      pending_.push_back({Look::At::kSingularity, call.tape_index, look.number, 1, look.dtype});
  }
  if (const std::optional<EntropiesThere> look = look_at_entropy(call, read, reads_scores_, numbers_))
    pending_.push_back({Look::At::kEntropy, call.tape_index, look->number, look->count});
}

void Telemetry::look_at_zeros(const OpCall& call, const Tensor& gradient, Slot& slot) {
  const ZeroSample sample(gradient.numel());
  slot.sampled += sample.size();
  if (!looks_there(std::span(&gradient, 1))) {
    slot.zeros += count_zeros(gradient, sample);
    return;
  }
  const DeviceNumbers::Place place = numbers_.take(1, gradient.device());
  kernels(gradient.device()).zero_probe({probed_values(gradient), place.at});
  pending_.push_back({Look::At::kZeros, call.tape_index, place.number});
}

/// What looks found, in the order in which they were made.
void Telemetry::take_found(std::span<const double> found) {
  for (const Look& look : std::exchange(pending_, {})) {
    Tape& tape = look.at == Look::At::kZeros ? backward_ : forward_;
    Slot& slot = tape.slots[static_cast<std::size_t>(look.tape_index)];
    const auto here = found.subspan(static_cast<std::size_t>(look.number), static_cast<std::size_t>(look.count));
    if (look.at == Look::At::kZeros) {
      slot.zeros += static_cast<std::int64_t>(here[0]);
    } else if (look.at == Look::At::kSingularity) {
      slot.singularity->merge(singularity_distance_of(here[0], look.dtype));
    } else if (const std::optional<double> entropy = mean_entropy(here)) {
      slot.entropy = std::min(*entropy, slot.entropy.value_or(1));
    }
  }
}

/// Whoever stored there last, and whose views these are.
void Telemetry::forgive(std::int64_t before, const void* address) {
  for (std::int64_t i = before - 1; i >= 0; --i) {
    Slot& slot = forward_.slots[static_cast<std::size_t>(i)];
    if (slot.stored != address) continue;
    if (slot.seen.any() && headroom_of(slot.seen, slot.low) != kOverflown) return;
    slot.seen = {};
  }
}

void Telemetry::after_backward(const OpCall& call, std::span<const Tensor>, std::span<const Tensor> gx,
                               const Observation& seen) {
  note(call, gx, seen);
}

Headroom Telemetry::least(Direction direction) const {
  Headroom least;
  for (const Slot& slot : slots(direction)) {
    const double binades = headroom_of(slot.seen, slot.low);
    if (binades < least.binades) least = {binades, slot.module, slot.op};
  }
  return least;
}

std::vector<ModuleHeadroom> Telemetry::by_module() const {
  std::vector<ModuleHeadroom> modules;
  std::map<std::string_view, std::size_t> index;
  const auto lower = [&](Direction direction, double ModuleHeadroom::*side) {
    for (const Slot& slot : slots(direction)) {
      const double binades = headroom_of(slot.seen, slot.low);
      if (binades == std::numeric_limits<double>::infinity()) continue;
      const auto [at, fresh] = index.try_emplace(slot.module, modules.size());
      if (fresh) modules.push_back({.module = slot.module});
      double& least = modules[at->second].*side;
      least = std::min(least, binades);
    }
  };
  lower(Direction::kForward, &ModuleHeadroom::forward);
  lower(Direction::kBackward, &ModuleHeadroom::backward);
  return modules;
}

double Telemetry::headroom_in(DType dtype, std::string_view target) const {
  double least = std::numeric_limits<double>::infinity();
  for (const Direction direction : {Direction::kForward, Direction::kBackward})
    for (const Slot& slot : slots(direction))
      if (slot.op != nullptr && target == fmt::format("{}/{}", slot.module, slot.op))
        least = std::min({least, binades_left(slot.seen.low, dtype), binades_left(slot.seen.wide, dtype)});
  return least;
}

}  // namespace binade::amp
