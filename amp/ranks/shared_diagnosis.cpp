#include "binade/amp/ranks/shared_diagnosis.h"

#include <exception>

#include "binade/amp/ranks/bytes.h"

namespace binade::amp {
namespace {

enum class Message : std::uint8_t { kReplay, kDone, kFailed };

constexpr const char* kWhat = "a diagnosis";

void put_variant(ByteWriter& out, const Variant& variant) {
  out.put(variant.name).put(static_cast<std::uint64_t>(variant.promote.size()));
  for (const PrecisionPolicy::Override& one : variant.promote) out.put(one.glob).put(one.dtype);
  out.put(variant.scale.has_value()).put(variant.scale.value_or(0)).put(variant.without).put(variant.earlier_weights);
}

Variant get_variant(ByteReader& in) {
  Variant variant{.name = in.get<std::string>()};
  for (auto count = in.get<std::uint64_t>(); count > 0; --count) {
    const auto glob = in.get<std::string>();
    variant.promote.push_back({glob, in.get<DType>()});
  }
  const bool has_scale = in.get<bool>();
  const auto scale = in.get<double>();
  if (has_scale) variant.scale = scale;
  variant.without = in.get<std::vector<std::int64_t>>();
  variant.earlier_weights = in.get<bool>();
  return variant;
}

void put_optional(ByteWriter& out, const std::optional<std::int64_t>& number) {
  out.put(number.has_value()).put(number.value_or(0));
}

std::optional<std::int64_t> get_optional(ByteReader& in) {
  const bool has = in.get<bool>();
  const auto number = in.get<std::int64_t>();
  return has ? std::optional(number) : std::nullopt;
}

void put_first_bad(ByteWriter& out, const FirstBad& bad) {
  for (const std::string* text : {&bad.module, &bad.op, &bad.direction, &bad.tensor, &bad.parameter, &bad.dtype,
                                  &bad.value, &bad.refusal, &bad.refusal_advice})
    out.put(*text);
  out.put(bad.shape).put(bad.index).put(bad.samples).put(bad.operand_max).put(bad.possible_samples);
  put_optional(out, bad.sample);
  put_optional(out, bad.sample_id);
  out.put(bad.step).put(bad.micro_batch).put(bad.tape_index);
  for (const bool flag :
       {bad.in_loss, bad.at_singularity, bad.is_attention_scores, bad.of_sum, bad.of_mask, bad.of_masked_row})
    out.put(flag);
  out.put(bad.caller.has_value()).put(bad.caller.value_or(""));
  const SourcePlace place = bad.called_by.value_or(SourcePlace{});
  out.put(bad.called_by.has_value()).put(place.function).put(place.file).put(place.line);
}

FirstBad get_first_bad(ByteReader& in) {
  FirstBad bad;
  for (std::string* text : {&bad.module, &bad.op, &bad.direction, &bad.tensor, &bad.parameter, &bad.dtype, &bad.value,
                            &bad.refusal, &bad.refusal_advice})
    *text = in.get<std::string>();
  bad.shape = in.get<std::vector<std::int64_t>>();
  bad.index = in.get<std::vector<std::int64_t>>();
  bad.samples = in.get<std::vector<std::int64_t>>();
  bad.operand_max = in.get<std::vector<double>>();
  bad.possible_samples = in.get<std::vector<std::vector<std::int64_t>>>();
  bad.sample = get_optional(in);
  bad.sample_id = get_optional(in);
  bad.step = in.get<std::int64_t>();
  bad.micro_batch = in.get<std::int64_t>();
  bad.tape_index = in.get<std::int64_t>();
  for (bool* flag :
       {&bad.in_loss, &bad.at_singularity, &bad.is_attention_scores, &bad.of_sum, &bad.of_mask, &bad.of_masked_row})
    *flag = in.get<bool>();
  const bool has_caller = in.get<bool>();
  const auto caller = in.get<std::string>();
  if (has_caller) bad.caller = caller;
  const bool has_place = in.get<bool>();
  SourcePlace place{.function = in.get<std::string>()};
  place.file = in.get<std::string>();
  place.line = in.get<int>();
  if (has_place) bad.called_by = place;
  return bad;
}

void put_diagnosis(ByteWriter& out, const Diagnosis& d) {
  out.put(d.first_bad.has_value());
  put_first_bad(out, d.first_bad.value_or(FirstBad{}));
  out.put(d.cause).put(d.confidence).put(static_cast<std::uint64_t>(d.proof.size()));
  for (const Proof& proof : d.proof) out.put(proof.variant).put(proof.finite);
  const LibraryFault library = d.library.value_or(LibraryFault{});
  out.put(d.advice).put(d.library.has_value()).put(library.library).put(library.keys).put(library.plans);
  out.put(d.replays).put(d.op_is_wrong).put(d.reproducible).put(d.promote).put(d.samples).put(d.earlier_weights);
}

Diagnosis get_diagnosis(ByteReader& in) {
  Diagnosis d;
  const bool has_first_bad = in.get<bool>();
  FirstBad bad = get_first_bad(in);
  if (has_first_bad) d.first_bad = std::move(bad);
  d.cause = in.get<CauseClass>();
  d.confidence = in.get<Confidence>();
  for (auto count = in.get<std::uint64_t>(); count > 0; --count) {
    const auto variant = in.get<std::string>();
    d.proof.push_back({variant, in.get<bool>()});
  }
  d.advice = in.get<std::string>();
  const bool has_library = in.get<bool>();
  LibraryFault library{.library = in.get<std::string>()};
  library.keys = in.get<std::vector<std::string>>();
  library.plans = in.get<std::vector<std::string>>();
  if (has_library) d.library = std::move(library);
  d.replays = in.get<int>();
  d.op_is_wrong = in.get<bool>();
  d.reproducible = in.get<bool>();
  d.promote = in.get<std::vector<std::string>>();
  d.samples = in.get<std::vector<std::int64_t>>();
  d.earlier_weights = in.get<bool>();
  return d;
}

Diagnosis lead(Communicator& ranks, const Replay& replay,
               const std::function<Diagnosis(const Replay& replay)>& diagnose) {
  const auto send = [&](const ByteWriter& message) { ranks.broadcast(message.bytes(), ranks.rank(), kWhat); };
  bool replays = false;  // true during a replay. If it throws, it throws on all ranks, which need no message
  Diagnosis diagnosis;
  try {
    diagnosis = diagnose([&](const Variant& variant, TapeObserver* observer) {
      ByteWriter message;
      message.put(Message::kReplay);
      put_variant(message, variant);
      send(message);
      replays = true;
      Attempt attempt = replay(variant, observer);
      replays = false;
      return attempt;
    });
  } catch (const std::exception& error) {
    if (!replays) send(ByteWriter().put(Message::kFailed).put(std::string_view(error.what())));
    throw;
  }
  ByteWriter message;
  message.put(Message::kDone);
  put_diagnosis(message, diagnosis);
  send(message);
  return diagnosis;
}

Diagnosis follow(Communicator& ranks, int leader, const Replay& replay) {
  for (;;) {
    const Bytes message = ranks.broadcast({}, leader, kWhat);
    ByteReader in(message);
    switch (in.get<Message>()) {
      case Message::kReplay: replay(get_variant(in), nullptr); break;
      case Message::kDone: return get_diagnosis(in);
      case Message::kFailed:
        throw RankError(fmt::format("ranks: rank {} failed in a diagnosis: {}", leader, in.get<std::string>()));
    }
  }
}

}  // namespace

Diagnosis share_diagnosis(Communicator& ranks, int leader, const Replay& replay,
                          const std::function<Diagnosis(const Replay& replay)>& diagnose) {
  if (ranks.alone()) return diagnose(replay);
  return ranks.rank() == leader ? lead(ranks, replay, diagnose) : follow(ranks, leader, replay);
}

}  // namespace binade::amp
