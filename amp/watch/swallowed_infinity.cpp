#include "binade/amp/watch/swallowed_infinity.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "binade/core/ops/where.h"

namespace binade::amp {
namespace {

using OpRecord = Telemetry::OpRecord;

/// The kind of values that an op stored.
enum class Content : std::uint8_t { kFinite, kInfinite, kUnknown };

/// True if a finite value became infinite when it was rounded to 16 bits.
bool overflowed_by_rounding(const OpRecord& record) {
  return record.amax.low >= overflow_word(record.half_dtype) && record.amax.low < overflow_word(DType::f32);
}

/// Returns the kind of values that each op stored. An op that only copies values is not observed; its results are of
/// the same kind as its inputs.
std::vector<Content> contents_of(std::span<const OpRecord> forward) {
  std::vector<Content> contents(forward.size(), Content::kUnknown);
  for (std::size_t i = 0; i < forward.size(); ++i) {
    const OpRecord& record = forward[i];
    const auto reads = [&](Content content) {
      return std::ranges::any_of(record.producers,
                                 [&](std::int64_t p) { return contents[static_cast<std::size_t>(p)] == content; });
    };
    if (record.masked || record.op == nullptr) continue;
    if (record.amax.any())
      contents[i] = overflowed(record.amax, record.half_dtype) ? Content::kInfinite : Content::kFinite;
    else if (reads(Content::kInfinite))  // an unobserved op that carries no masks may have dropped the infinities
      contents[i] = record.info->carries_masks ? Content::kInfinite : Content::kUnknown;
    else if (!reads(Content::kUnknown) && !record.reads_outside)
      contents[i] = Content::kFinite;
  }
  return contents;
}

bool is_origin(std::span<const OpRecord> forward, std::span<const Content> contents, std::size_t i) {
  const OpRecord& record = forward[i];
  if (contents[i] != Content::kInfinite || !record.amax.any()) return false;
  return overflowed_by_rounding(record) ||
         (!record.reads_outside && std::ranges::all_of(record.producers, [&](std::int64_t p) {
           return contents[static_cast<std::size_t>(p)] == Content::kFinite;
         }));
}

/// Returns the first op that makes finite results of the infinities of `origin`; std::nullopt if there is none, or if
/// an op that accepts masks reads them.
std::optional<std::size_t> swallower_of(std::span<const OpRecord> forward, std::span<const Content> contents,
                                        std::size_t origin) {
  std::vector<bool> carries(forward.size(), false);
  carries[origin] = true;
  std::optional<std::size_t> swallower;
  for (std::size_t i = origin + 1; i < forward.size(); ++i) {
    const OpRecord& record = forward[i];
    if (std::ranges::none_of(record.producers, [&](std::int64_t p) { return carries[static_cast<std::size_t>(p)]; }))
      continue;
    if (record.masked || record.info->numerics.non_finite == NonFinite::kMasks) return std::nullopt;
    carries[i] = contents[i] == Content::kInfinite;
    if (contents[i] == Content::kFinite && record.info != &ops::Where::info && !swallower) swallower = i;
  }
  return swallower;
}

}  // namespace

std::vector<SwallowedInfinity> find_swallowed_infinities(std::span<const OpRecord> forward) {
  std::vector<SwallowedInfinity> found;
  if (std::ranges::none_of(forward, [](const OpRecord& r) { return overflowed(r.amax, r.half_dtype); })) return found;
  const std::vector<Content> contents = contents_of(forward);
  for (std::size_t i = 0; i < forward.size(); ++i)
    if (is_origin(forward, contents, i))
      if (const std::optional<std::size_t> swallower = swallower_of(forward, contents, i))
        found.push_back({i, *swallower});
  return found;
}

}  // namespace binade::amp
