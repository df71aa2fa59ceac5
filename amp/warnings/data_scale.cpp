#include "binade/amp/warnings/data_scale.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "binade/amp/text.h"
#include "binade/amp/warnings/trend.h"
#include "binade/core/error.h"
#include "binade/core/state_counts.h"

namespace binade::amp {
namespace {

constexpr std::size_t kUsual = 128, kLeast = 5;  // most and fewest steps that data is compared with
constexpr std::int64_t kLasting = 8;             // steps in a row after which a change lasts
constexpr std::size_t kMostReaders = 64;         // further op calls are not watched
constexpr double kBinades = 0.5, kDeviations = 4;
constexpr double kNoLevel = 999;  // in checkpoints: no magnitude, which is at most 128 binades

/// Returns log2 of the largest magnitude; NaN if it is 0, unknown or not finite.
double level_of(const Observation& seen) {
  const double magnitude = std::bit_cast<float>(std::max(seen.low, seen.wide));
  const double level = std::log2(magnitude);
  return std::isfinite(level) && magnitude > 1e-40 ? level : std::nan("");  // kernels report zeros as the word 1
}

bool differs(double level, const std::vector<double>& usual) {
  if (usual.size() < kLeast || std::isnan(level)) return false;
  const auto [middle, deviation] = robust_statistics(usual);
  const double limit = std::max(kBinades, kDeviations * deviation);
  return std::abs(level - middle) > limit || std::abs(level - usual.front()) > limit;
}

void append(std::vector<double>& usual, std::span<const double> levels) {
  for (const double level : levels)
    if (!std::isnan(level)) usual.push_back(level);
  if (usual.size() > 1 + kUsual) usual.erase(usual.begin() + 1, usual.end() - static_cast<std::ptrdiff_t>(kUsual));
}

}  // namespace

DataScale::Change DataScale::observe(const Telemetry& telemetry) {
  std::size_t count = 0;
  bool unusual = false;
  std::vector<double> levels;
  for (const Telemetry::OpRecord& record : telemetry.records(Direction::kForward)) {
    if (!record.data.any() || count == kMostReaders) continue;
    if (count == readers_.size()) readers_.emplace_back();
    Reader& reader = readers_[count++];
    if (reader.module != record.module || reader.op != record.op) reader = {.module = record.module, .op = record.op};
    levels.push_back(level_of(record.data));
    unusual = unusual || differs(levels.back(), reader.usual);
  }
  readers_.resize(count);
  unusual_steps_ = unusual ? unusual_steps_ + 1 : 0;
  const bool lasts = unusual_steps_ == kLasting;
  for (std::size_t i = 0; i < count; ++i) {
    Reader& reader = readers_[i];
    reader.unusual.push_back(levels[i]);
    if (unusual && !lasts) continue;
    if (lasts) reader.usual.clear();
    append(reader.usual, std::exchange(reader.unusual, {}));
  }
  if (!lasts) return unusual ? Change::kUnusual : Change::kNone;
  unusual_steps_ = 0;
  return Change::kLasts;
}

StateDict DataScale::state() const {
  StateDict state;
  std::string names;
  StateDict::Integers usual_counts, unusual_counts;
  StateDict::Numbers levels;
  for (const Reader& reader : readers_) {
    add_line(names, reader.module);
    add_line(names, reader.op);
    usual_counts.push_back(std::ssize(reader.usual));
    unusual_counts.push_back(std::ssize(reader.unusual));
    for (const std::vector<double>* part : {&reader.usual, &reader.unusual})
      for (const double level : *part) levels.push_back(std::isnan(level) ? kNoLevel : level);
  }
  state.put("readers", names);
  state.put("usual", usual_counts);
  state.put("unusual", unusual_counts);
  state.put("levels", levels);
  state.put("unusual_steps", unusual_steps_);
  return state;
}

void DataScale::load_state(const StateDict& state) {
  DataScale loaded;
  if (state.empty()) return void(*this = std::move(loaded));
  const std::vector<std::string> names = split_lines(state.text("readers"));
  const StateDict::Integers &usual = read_counts(state, "usual"), &unusual = read_counts(state, "unusual");
  std::span<const double> levels = state.numbers("levels");
  loaded.unusual_steps_ = read_count(state, "unusual_steps");
  bool fits = names.size() == 2 * usual.size() && unusual.size() == usual.size() && usual.size() <= kMostReaders &&
              loaded.unusual_steps_ < kLasting;
  const auto take = [&](std::int64_t count, std::int64_t most) {
    fits = fits && count <= most && count <= std::ssize(levels);
    const auto part = levels.first(fits ? static_cast<std::size_t>(count) : 0);
    levels = levels.subspan(part.size());
    std::vector<double> values(part.begin(), part.end());
    for (double& level : values) level = level == kNoLevel ? std::nan("") : level;
    return values;
  };
  for (std::size_t i = 0; i < usual.size() && fits; ++i) {
    Reader& reader = loaded.readers_.emplace_back(Reader{.module = names[2 * i], .op = names[2 * i + 1]});
    reader.usual = take(usual[i], static_cast<std::int64_t>(1 + kUsual));
    reader.unusual = take(unusual[i], kLasting - 1);
  }
  check<CheckpointError>(fits && levels.empty(),
                         "data scale: the checkpoint holds {} names, {} and {} counts and {} levels; they do not fit "
                         "together",
                         names.size(), usual.size(), unusual.size(), state.numbers("levels").size());
  *this = std::move(loaded);
}

}  // namespace binade::amp
