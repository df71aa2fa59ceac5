#include "binade/run/run_records.h"

#include <sys/resource.h>

#include <cmath>

#include "binade/amp/incident/report.h"
#include "binade/amp/text.h"
#include "binade/io/records/tensorboard.h"
#include "binade/io/terminal/console.h"
#include "binade/io/terminal/progress_bar.h"

namespace binade::amp {
namespace {

/// Returns the peak memory of this process in MiB.
double peak_memory_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

/// Returns `text` as a Markdown code block.
std::string as_markdown(const std::string& text) {
  std::string block = "    ";
  for (const char c : text) block += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return block;
}

constexpr const char* kTensorBoard = "TensorBoard's events";

std::string hundredths(double binades) { return io::json_number(std::round(binades * 100) / 100); }

/// True if events.jsonl is empty or its last line records the end of a process.
bool last_event_is_an_end(const io::FilesBelow& files) {
  constexpr std::uint64_t kMaxLine = 1u << 16;
  const std::vector<std::string> lines = split_lines(files.read_end("events.jsonl", kMaxLine));
  constexpr std::array kEnds = {"stopped", "finished", "left", "died", "given-up"};
  return lines.empty() || lines.back().empty() || std::ranges::any_of(kEnds, [&](const char* kind) {
           return lines.back().find(fmt::format("\"kind\":\"{}\"", kind)) != std::string::npos;
         });
}

}  // namespace

struct RunRecords::Displays {
  io::ProgressBar bar;
  std::optional<io::TensorBoardWriter> events{};
};

RunRecords::RunRecords(const io::RunFolder& folder, const RunOptions& options, bool scaled)
    : files_(folder.files()),
      options_(options),
      scaled_(scaled),
      incidents_(files_),
      metrics_(files_, "metrics.jsonl"),
      timing_(files_, "timing.jsonl"),
      headroom_(files_, "headroom.jsonl"),
      events_(files_, "events.jsonl"),
      ended_well_(last_event_is_an_end(files_)) {}

void RunRecords::begin(std::int64_t step) {
  displays_.reset(new Displays{io::ProgressBar(
      {.first = step, .total = options_.steps, .every = options_.log_every, .unit = options_.unit + "/s"})});
  log(kTensorBoard, [&] { displays_->events.emplace(files_, step + 1); });
}

RunRecords::~RunRecords() = default;

void RunRecords::log(const std::string& name, const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    log_failed(name, error.what());
  }
}

void RunRecords::log_failed(const std::string& name, const std::string& problem) {
  if (++failures_[name] == 1) say(fmt::format("{}; the run goes on, and {} misses lines", problem, name));
}

void RunRecords::report_failures_of_threads() {
  std::vector<std::pair<std::string, std::string>> unreported;
  {
    const std::scoped_lock lock(mutex_);
    unreported.swap(unreported_);
  }
  for (const auto& [name, problem] : unreported) log_failed(name, problem);
}

void RunRecords::report_incomplete_logs(std::int64_t step) {
  report_failures_of_threads();
  for (const auto& [name, times] : failures_)
    event("log", step, fmt::format("{}: {} write{} failed", name, times, times == 1 ? "" : "s"));
}

void RunRecords::scalar(std::string_view tag, std::int64_t step, double value) {
  if (!displays_->events) return;
  log(kTensorBoard, [&] { displays_->events->scalar(tag, step, static_cast<float>(value)); });
}

void RunRecords::attempts(std::span<const StepResult> attempts) {
  for (const StepResult& one : attempts) {
    attempt(one);
    if (one.incident) report(*one.incident);
    for (const Warning& warning : one.warnings) report(warning);
    for (const std::string& note : one.notes) event("remedy", one.step, fmt::format("step {}: {}", one.step, note));
  }
  report_overflows(attempts);
  headroom(attempts);
}

void RunRecords::headroom(std::span<const StepResult> attempts) {
  const auto trouble = std::ranges::find_if(attempts, [](const StepResult& a) { return a.incident.has_value(); });
  const bool incident = trouble != attempts.end();
  const std::vector<ModuleHeadroom>& measured = incident ? trouble->incident->headroom : attempts.back().headroom;
  if (!incident && measured.empty()) return;
  io::JsonObject modules;
  for (const ModuleHeadroom& m : measured)
    modules.add_raw(m.module, fmt::format("[{},{}]", hundredths(m.forward), hundredths(m.backward)));
  io::JsonObject line;
  line.add("step", attempts.back().step);
  if (incident) line.add("incident", true);
  line.add_raw("headroom", modules.text());
  log("headroom.jsonl", [&] { headroom_.write(line); });
}

void RunRecords::report(const Incident& incident) {
  const std::string report = write_report(incident);
  const Diagnosis& d = incident.diagnosis;
  log_event(incident.warning ? "warning" : "incident", incident.step,
            fmt::format("{}: {} ({}); {}", location_of(d), name_of(d.cause), name_of(d.confidence),
                        description_of(incident.remedy)));
  say(fmt::format("{} in step {}: {}\n  why:  {} ({}): {}; {}\n  done: {}; {}{}",
                  incident.warning ? "warning"
                  : incident.drill ? "drill: incident"
                                   : "incident",
                  incident.step, location_of(d), name_of(d.cause), name_of(d.confidence), incident.what, d.advice,
                  description_of(incident.remedy), report,
                  incident.no_capsule.empty() ? "" : "; no repro bundle: " + incident.no_capsule));
}

void RunRecords::report(const Warning& warning) {
  event("sign", warning.step,
        fmt::format("step {}: {}: {} {}; {}", warning.step, name_of(warning.kind), location_of(warning), warning.what,
                    warning.remedy.empty() ? warning.advice : warning.remedy));
}

void RunRecords::report_overflows(std::span<const StepResult> attempts) {
  const std::int64_t lowered = std::ranges::count_if(attempts,
                                                     [](const StepResult& a) { return !a.committed && !a.incident; });
  if (lowered > 0 && attempts.back().loss_scale < attempts.front().loss_scale)
    event("overflow", attempts.front().step,
          fmt::format("step {}: {} attempt{} overflowed in backward and left no trace; loss scale {} -> {}",
                      attempts.front().step, lowered, lowered == 1 ? "" : "s",
                      io::format_scale(attempts.front().loss_scale), io::format_scale(attempts.back().loss_scale)));
}

std::string RunRecords::write_report(const Incident& incident) {
  const std::int64_t step = incident.step, attempt = incident.attempt;
  std::string problem = incidents_.write(step, attempt, "report.json", report_json(incident) + "\n");
  if (problem.empty()) problem = incidents_.write(step, attempt, "report.md", report_markdown(incident));
  const std::string folder = incidents_.folder_of(step, attempt);
  incidents_.close(step, attempt);
  return problem.empty() ? fmt::format("report: {}/report.md", folder) : fmt::format("there is no report: {}", problem);
}

void RunRecords::repro_bundle(std::int64_t step, std::int64_t attempt, StateDict bundle) {
  for (const auto& [name, value] : options_.constants.values()) bundle.put(name, value);
  bundle.put("capsule/config", options_.config);
  if (const std::string problem = incidents_.write_repro_bundle(step, attempt, bundle); !problem.empty()) say(problem);
}

void RunRecords::attempt(const StepResult& s) {
  io::JsonObject line;
  line.add("step", s.step)
      .add("attempt", s.attempt)
      .add("committed", s.committed)
      .add("loss", static_cast<float>(s.loss))
      .add("grad_norm", static_cast<float>(s.grad_norm))
      .add("loss_scale", s.loss_scale)
      .add("lr", s.lr)
      .add("skipped_total", s.skipped_total);
  if (s.verified) line.add("verified_total", s.verified_total).add("corrupted_total", s.corrupted_total);
  if (!s.state_hash_before.empty())
    line.add("state_hash_before", s.state_hash_before).add("state_hash_after", s.state_hash_after);
  for (const StepMetric& metric : s.metrics)
    if (!metric.member.empty()) line.add(metric.member, static_cast<float>(metric.value));
  log("metrics.jsonl", [&] { metrics_.write(line); });
  for (const StepMetric& metric : s.metrics) scalar(metric.tag, s.step, metric.value);
}

void RunRecords::timing(const StepResult& stats, double seconds, const Saving& saving) {
  report_failures_of_threads();
  const double rate = options_.units_per_step / seconds;
  io::JsonObject line;
  line.add("step", stats.step)
      .add("ms", static_cast<float>(seconds * 1e3))
      .add(options_.unit + "_per_s", static_cast<float>(rate))
      .add("mem_mb", static_cast<float>(peak_memory_mib()));
  if (saving.stall_seconds > 0) line.add("stall_ms", static_cast<float>(saving.stall_seconds * 1e3));
  if (saving.concurrent) line.add("saving", true);
  for (const io::SaveOutcome& save : saving.ended)
    if (save.committed)
      line.add("saved_mb", static_cast<float>(static_cast<double>(save.bytes) * 1e-6))
          .add("saved_s", static_cast<float>(save.seconds));
  line.add("time", io::utc_now());
  log("timing.jsonl", [&] { timing_.write(line); });
  std::vector<std::pair<std::string, double>> shown;
  for (const StepMetric& metric : stats.metrics)
    if (!metric.member.empty()) shown.emplace_back(metric.member, metric.value);
  displays_->bar.update({.step = stats.step,
                         .loss = stats.loss,
                         .scale = scaled_ ? std::optional<double>(stats.loss_scale) : std::nullopt,
                         .metrics = std::move(shown),
                         .rate = rate});
}

void RunRecords::evaluation(std::int64_t step, const Evaluation& evaluation) {
  io::JsonObject line;
  line.add("step", step);
  std::string text = fmt::format("step {}:", step);
  for (const auto& [name, value] : evaluation.numbers) {
    line.add(name, static_cast<float>(value));
    text += fmt::format(" {} {:.4f}", name, value);
    scalar("eval/" + name, step, value);
  }
  log("metrics.jsonl", [&] { metrics_.write(line); });
  std::optional<io::TensorBoardWriter>& events = displays_->events;
  if (evaluation.picture) {
    log("samples/", [&] { keep_sample(step, "png", io::encode_png(*evaluation.picture)); });
    if (events) log(kTensorBoard, [&] { events->image("eval/picture", step, *evaluation.picture); });
  }
  if (!evaluation.sample.empty()) {
    log("samples/", [&] { keep_sample(step, "txt", evaluation.sample); });
    if (events) log(kTensorBoard, [&] { events->text("eval/sample", step, as_markdown(evaluation.sample)); });
  }
  say(text);
}

void RunRecords::keep_sample(std::int64_t step, const std::string& extension, const std::string& bytes) {
  files_.replace(fmt::format("samples/{:012}.{}", step, extension), io::bytes_of(bytes));
}

void RunRecords::say(const std::string& line) {
  if (displays_)
    displays_->bar.message(line);
  else
    io::say(line);
}

void RunRecords::event(std::string_view kind, std::int64_t step, const std::string& what) {
  log_event(kind, step, what);
  say(what);
}

void RunRecords::log_event(std::string_view kind, std::int64_t step, const std::string& what) {
  io::JsonObject line;
  line.add("step", step).add("kind", kind).add("what", what).add("time", io::utc_now());
  log("events.jsonl", [&] { events_.write(line); });
}

void RunRecords::truncate_metrics(std::int64_t bytes, std::int64_t step) {
  if (bytes <= metrics_.offset()) return metrics_.truncate(bytes);
  event("log", step,
        fmt::format(
            "metrics.jsonl had {} bytes when the checkpoint was made and has {}: the lines that are missing stay so",
            bytes, metrics_.offset()));
}

void RunRecords::finish() {
  displays_->bar.finish();
  if (displays_->events) log(kTensorBoard, [&] { displays_->events->flush(); });
  log("metrics.jsonl", [&] { metrics_.sync(); });
}

}  // namespace binade::amp
