#include "binade/amp/ranks/shared_telemetry.h"

#include <deque>
#include <map>
#include <mutex>

#include "binade/amp/ranks/bytes.h"
#include "binade/core/ops/op_info.h"

namespace binade::amp {
namespace {

/// The descriptions (OpInfo) of ops by name. For an op that this process has not run, the description has only the
/// name. Entries live until the process ends.
class KnownOps {
 public:
  void add(const OpInfo& info) {
    const std::lock_guard lock(mutex_);
    known_.insert_or_assign(info.name, &info);
  }
  const OpInfo& find(const std::string& op) {
    const std::lock_guard lock(mutex_);
    const auto [at, added] = known_.try_emplace(op, nullptr);
    if (added) {
      OpInfo& info = others_.emplace_back();
      info.name = at->first.c_str();
      at->second = &info;
    }
    return *at->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, const OpInfo*> known_;
  std::deque<OpInfo> others_;
};

KnownOps& known_ops() {
  static KnownOps ops;
  return ops;
}

void put(ByteWriter& out, const Telemetry::OpRecord& r) {
  out.put(r.op != nullptr);
  if (r.op == nullptr) return;
  out.put(r.module).put(std::string_view(r.op)).put(r.half_dtype).put(r.amax.low).put(r.amax.wide);
  out.put(r.sampled).put(r.zeros).put(r.is_attention_scores).put(r.producers).put(r.reads_outside).put(r.masked);
  out.put(r.singularity.has_value()).put(r.singularity.value_or(SingularityDistance{}));
  out.put(r.entropy.has_value()).put(r.entropy.value_or(0));
}

Telemetry::OpRecord get(ByteReader& in) {
  Telemetry::OpRecord r;
  if (!in.get<bool>()) return r;
  r.module = in.get<std::string>();
  r.info = &known_ops().find(in.get<std::string>());
  r.op = r.info->name;
  r.half_dtype = in.get<DType>();
  r.amax.low = in.get<std::uint32_t>();
  r.amax.wide = in.get<std::uint32_t>();
  r.sampled = in.get<std::int64_t>();
  r.zeros = in.get<std::int64_t>();
  r.is_attention_scores = in.get<bool>();
  r.producers = in.get<std::vector<std::int64_t>>();
  r.reads_outside = in.get<bool>();
  r.masked = in.get<bool>();
  const bool is_singular = in.get<bool>();
  const auto distance = in.get<SingularityDistance>();
  if (is_singular) r.singularity = distance;
  const bool has_entropy = in.get<bool>();
  const auto entropy = in.get<double>();
  if (has_entropy) r.entropy = entropy;
  return r;
}

}  // namespace

void complete_telemetry(Communicator& ranks, Telemetry& telemetry, const Attempt& attempt) {
  telemetry.synchronize();
  if (ranks.alone()) return;
  constexpr Direction kDirections[] = {Direction::kForward, Direction::kBackward};
  ByteWriter out;
  for (const Direction direction : kDirections) {
    out.put(static_cast<std::uint64_t>(telemetry.records(direction).size()));
    for (const Telemetry::OpRecord& record : telemetry.records(direction)) {
      if (record.info != nullptr) known_ops().add(*record.info);
      put(out, record);
    }
  }
  std::vector<Bytes> all = ranks.gather(out.bytes(), fmt::format("the telemetry of step {}", attempt.step));
  if (attempt.bad_rank >= 0) all.resize(static_cast<std::size_t>(attempt.bad_rank) + 1);
  std::vector<ByteReader> readers(all.begin(), all.end());
  for (const Direction direction : kDirections) {
    std::vector<std::vector<Telemetry::OpRecord>> records;
    for (ByteReader& in : readers) {
      const auto count = in.get<std::uint64_t>();
      std::vector<Telemetry::OpRecord>& of_rank = records.emplace_back();
      for (std::uint64_t i = 0; i < count; ++i) of_rank.push_back(get(in));
    }
    telemetry.replace(direction, records);
  }
}

}  // namespace binade::amp
