#include "binade/amp/step/common_state.h"

#include <bit>

#include "binade/amp/step/transaction.h"

namespace binade::amp {
namespace {

/// Adds numbers to a hash (FNV-1a, by bytes).
class Hash {
 public:
  Hash& add(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) add_byte(static_cast<std::uint8_t>(number >> (8 * byte)));
    return *this;
  }
  Hash& add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<std::uint8_t>(c));
    return *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  void add_byte(std::uint8_t byte) { value_ = (value_ ^ byte) * 1099511628211u; }
  std::uint64_t value_ = 14695981039346656037u;
};

std::uint64_t hash_of(const AttemptPlan& plan, const StepFeed& feed) {
  Hash hash;
  for (const io::BatchOrigin* origin : feed.origins) {
    if (origin == nullptr) continue;
    hash.add(origin->begin).add(origin->end);
    for (const std::int64_t sample : origin->samples) hash.add(static_cast<std::uint64_t>(sample));
  }
  for (const int micro_batch : plan.micro_batches) hash.add(static_cast<std::uint64_t>(micro_batch));
  for (const std::int64_t sample : plan.left_out) hash.add(static_cast<std::uint64_t>(sample));
  return hash.value();
}

}  // namespace

CommonState common_state(const Transaction& transaction, const Attempt& attempt, const AttemptPlan& plan,
                         const StepFeed& feed, int phase) {
  Hash parameters;
  for (const optim::FlatParameters::Slice* slice : transaction.parameters())
    parameters.add(static_cast<std::uint64_t>(slice->count));
  return {.seed = transaction.seed(),
          .step = static_cast<std::uint64_t>(plan.step),
          .attempt = static_cast<std::uint64_t>(transaction.counters().attempts),
          .phase = static_cast<std::uint64_t>(phase),
          .micro_batches = feed.origins.size(),
          .leaves = static_cast<std::uint64_t>(transaction.leaves_of(static_cast<int>(feed.origins.size()))),
          .loss_scale = std::bit_cast<std::uint64_t>(plan.loss_scale),
          .learning_rate = std::bit_cast<std::uint64_t>(attempt.lr),
          .policy = Hash().add(plan.policy.to_string()).value(),
          .data = hash_of(plan, feed),
          .parameters = parameters.value(),
          .last_update = std::bit_cast<std::uint64_t>(transaction.last_grad_norm())};
}

}  // namespace binade::amp
