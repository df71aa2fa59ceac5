#include "binade/doctor/report/run_history.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <span>

#include "binade/io/data/png.h"
#include "binade/io/files/run_folder.h"

namespace binade::doctor::report {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSamples = 4;             // number of texts, and of pictures, that a page shows
constexpr std::uint64_t kSampleLimit = 128u << 10;  // largest sample, in bytes, that a page shows
constexpr std::uint64_t kPictureLimit = 64u << 20;
constexpr std::int64_t kPixelLimit = 1 << 24;

bool is_held(const std::string& folder) {
  io::FileOps& ops = io::FileOps::real();
  const auto [error, handle] = io::try_open(ops, &io::FileOps::open_folder, folder);
  return error == 0 && io::RunLock::is_held(ops, handle.get());
}

void read_checkpoints(RunHistory& history) {
  const std::optional<std::string> text = detail::file_text(history, "checkpoints/MANIFEST", 16u << 20);
  if (!text) return;
  io::ManifestReading reading = io::manifest_from(*text);
  if (!reading.whole) history.problems.push_back("checkpoints/MANIFEST: lines of it are missing or damaged");
  history.checkpoints = std::move(reading.manifest);
}

/// Returns the step of a name like "000000000500.png"; std::nullopt for other names.
std::optional<std::int64_t> step_of_sample(const fs::path& name) {
  const std::string stem = name.stem().string(), extension = name.extension().string();
  if ((extension != ".txt" && extension != ".png") || stem.size() != 12 ||
      stem.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoll(stem);
}

/// Selects at most kMostSamples names: the first, the last, and evenly spaced ones between them.
std::vector<std::string> evenly_spaced(const std::vector<std::string>& names) {
  if (names.size() <= kMostSamples) return names;
  std::vector<std::string> some;
  for (std::size_t i = 0; i < kMostSamples; ++i) some.push_back(names[i * (names.size() - 1) / (kMostSamples - 1)]);
  return some;
}

/// Scales an image to half its height and width: each pixel is the mean of four.
io::Image half_size(const io::Image& image) {
  io::Image half{.width = (image.width + 1) / 2,
                 .height = (image.height + 1) / 2,
                 .channels = image.channels,
                 .depth = image.depth,
                 .values = {}};
  for (std::int64_t y = 0; y < image.height; y += 2)
    for (std::int64_t x = 0; x < image.width; x += 2)
      for (int c = 0; c < image.channels; ++c) {
        const std::int64_t below = std::min(y + 1, image.height - 1), right = std::min(x + 1, image.width - 1);
        const int sum = image.at(y, x, c) + image.at(y, right, c) + image.at(below, x, c) + image.at(below, right, c);
        half.values.push_back(static_cast<std::uint16_t>((sum + 2) / 4));
      }
  return half;
}

/// Makes a sample from the bytes of a file. Throws DataError for a damaged picture.
Sample sample_from(const std::string& name, const std::string& bytes) {
  Sample sample{.step = step_of_sample(name).value_or(0)};
  if (name.ends_with(".txt")) {
    sample.text = bytes;
    return sample;
  }
  io::Image image = io::decode_png(bytes, "samples/" + name, {.max_pixels = kPixelLimit});
  for (sample.png = bytes; sample.png.size() > kSampleLimit; sample.png = io::encode_png(image))
    image = half_size(image);
  sample.width = image.width;
  sample.height = image.height;
  return sample;
}

}  // namespace

namespace detail {

std::optional<std::string> file_text(RunHistory& history, const std::string& name, std::uint64_t limit) {
  return or_problem(history, [&] { return io::FilesBelow(history.folder).read(name, limit); }).value_or(std::nullopt);
}

void read_samples(RunHistory& history) {
  std::vector<std::string> texts, pictures;
  const auto listed = or_problem(history, [&] { return io::FilesBelow(history.folder).names_in("samples"); });
  for (const std::string& name : listed.value_or(std::vector<std::string>()))
    if (step_of_sample(name)) (name.ends_with(".txt") ? texts : pictures).push_back(name);
  for (const std::vector<std::string>& names : {texts, pictures})
    for (const std::string& name : evenly_spaced(names)) {
      const std::optional<std::string> bytes = file_text(history, "samples/" + name,
                                                         name.ends_with(".txt") ? kSampleLimit : kPictureLimit);
      if (!bytes) continue;
      if (auto sample = or_problem(history, [&] { return sample_from(name, *bytes); }))
        history.samples.push_back(*std::move(sample));
    }
}

}  // namespace detail

const IncidentRecord* RunHistory::incident_at(std::int64_t step) const {
  const auto after = std::ranges::upper_bound(incidents, step, {}, &IncidentRecord::step);
  return after == incidents.begin() || (after - 1)->step != step ? nullptr : &*(after - 1);
}

const IncidentRecord* RunHistory::fatal_incident() const {
  return running || !ended_aborted ? nullptr : incident_at(aborted.back().step);
}

RunHistory read_history(const std::string& folder) {
  std::error_code error;
  check<ArgumentError>(fs::is_directory(folder, error), "report: {}: wanted the folder of a run, got {}", folder,
                       fs::exists(folder, error) ? "a file" : "nothing there");
  RunHistory history;
  history.folder = fs::canonical(folder, error).string();
  if (error) history.folder = folder;
  check<ArgumentError>(io::RunFolder::holds_a_run(history.folder),
                       "report: {}: it holds no run; wanted config.json, metrics.jsonl or checkpoints/ in it", folder);
  history.running = is_held(history.folder);
  detail::read_config(history);
  detail::read_logs(history);
  detail::read_incidents(history);
  detail::read_samples(history);
  read_checkpoints(history);
  return history;
}

double recent_loss(const RunHistory& history) {
  double sum = 0;
  const std::size_t count = std::clamp<std::size_t>(history.committed.size() / 20, 1, 50);
  for (const Attempt& a : std::span(history.committed).last(count)) sum += a.loss;
  return sum / static_cast<double>(count);
}

const Series* evaluation_of(const RunHistory& history, const std::string& name) {
  const auto at = std::ranges::find(history.evaluations, name, &std::pair<std::string, Series>::first);
  return at == history.evaluations.end() || at->second.empty() ? nullptr : &at->second;
}

Point lowest(const Series& series) { return *std::ranges::min_element(series, {}, &Point::value); }

std::vector<LeastHeadroom> least_forward_headroom(const RunHistory& history) {
  std::map<std::string, LeastHeadroom> by_module;
  for (const HeadroomLine& line : history.headroom)
    for (const amp::ModuleHeadroom& m : line.modules) {
      if (line.incident || std::isnan(m.forward)) continue;
      LeastHeadroom& nearest = by_module[m.module];
      if (m.forward < nearest.binades) nearest = {m.forward, m.module, line.step};
    }
  std::vector<LeastHeadroom> sorted;
  for (auto& [module, nearest] : by_module) sorted.push_back(std::move(nearest));
  std::ranges::sort(sorted, {}, &LeastHeadroom::binades);
  return sorted;
}

}  // namespace binade::doctor::report
