#include "amp/run_records.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "amp/incident/report.h"
#include "core/error.h"
#include "io/console.h"
#include "io/file_ops.h"
#include "io/progress_bar.h"
#include "io/tensorboard.h"
#include "io/utc_time.h"

namespace binade::amp {
namespace {

/// The most memory this process has held, in MiB.
double peak_memory_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

/// A block in which nothing is markup.
std::string as_markdown(const std::string& text) {
  std::string block = "    ";
  for (const char c : text) block += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return block;
}

std::string hundredths(double binades) { return io::json_number(std::round(binades * 100) / 100); }

}  // namespace

namespace {

/// Whether the last line of events.jsonl is of an end; true where there is none.
bool last_event_is_an_end(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) last = line;
  constexpr std::array kEnds = {"stopped", "finished", "left", "died", "given-up"};
  return last.empty() || std::ranges::any_of(kEnds, [&](const char* kind) {
           return last.find(fmt::format("\"kind\":\"{}\"", kind)) != std::string::npos;
         });
}

}  // namespace

struct RunRecords::Displays {
  io::TensorBoardWriter events;
  io::ProgressBar bar;
};

RunRecords::RunRecords(const io::RunFolder& folder, const RunOptions& options, bool scaled)
    : folder_(folder.path()),
      options_(options),
      scaled_(scaled),
      incidents_(folder.path()),
      metrics_(folder.metrics()),
      timing_(folder.timing()),
      headroom_(folder.file("headroom.jsonl")),
      events_(folder.file("events.jsonl")),
      ended_well_(last_event_is_an_end(folder.file("events.jsonl"))) {}

void RunRecords::begin(std::int64_t step) {
  displays_.reset(new Displays{
      io::TensorBoardWriter(folder_, step + 1),
      io::ProgressBar(
          {.first = step, .total = options_.steps, .every = options_.log_every, .unit = options_.unit + "/s"})});
}

RunRecords::~RunRecords() = default;

void RunRecords::attempts(std::span<const StepResult> attempts) {
  for (const StepResult& one : attempts) {
    attempt(one);
    if (one.incident) tell(*one.incident, write_report(*one.incident));
    for (const Sign& sign : one.signs) tell(sign);
    for (const std::string& note : one.notes) event("remedy", one.step, fmt::format("step {}: {}", one.step, note));
  }
  tell_overflows(attempts);
  headroom(attempts);
}

void RunRecords::headroom(std::span<const StepResult> attempts) {
  const auto trouble = std::ranges::find_if(attempts, [](const StepResult& a) { return a.incident.has_value(); });
  const bool incident = trouble != attempts.end();
  const std::vector<ModuleHeadroom>& seen = incident ? trouble->incident->headroom : attempts.back().headroom;
  if (!incident && seen.empty()) return;
  io::JsonObject modules;
  for (const ModuleHeadroom& m : seen)
    modules.add_raw(m.module, fmt::format("[{},{}]", hundredths(m.forward), hundredths(m.backward)));
  io::JsonObject line;
  line.add("step", attempts.back().step);
  if (incident) line.add("incident", true);
  headroom_.write(line.add_raw("headroom", modules.text()));
}

void RunRecords::tell(const Incident& incident, const std::string& report) {
  const Diagnosis& d = incident.diagnosis;
  keep_event(incident.warning ? "warning" : "incident", incident.step,
             fmt::format("{}: {} ({}); {}", place_of(d), name_of(d.cause), name_of(d.confidence),
                         done_of(incident.remedy)));
  say(fmt::format("{} in step {}: {}\n  why:  {} ({}): {}; {}\n  done: {}; {}{}",
                  incident.warning ? "warning"
                  : incident.drill ? "drill: incident"
                                   : "incident",
                  incident.step, place_of(d), name_of(d.cause), name_of(d.confidence), incident.what, d.advice,
                  done_of(incident.remedy), report,
                  incident.no_capsule.empty() ? "" : "; no capsule: " + incident.no_capsule));
}

void RunRecords::warn(const Incident& incident) { tell(incident, write_report(incident)); }

void RunRecords::tell(const Sign& sign) {
  event("sign", sign.step,
        fmt::format("step {}: {}: {} {}; {}", sign.step, name_of(sign.kind), place_of(sign), sign.what,
                    sign.remedy.empty() ? sign.advice : sign.remedy));
}

void RunRecords::tell_overflows(std::span<const StepResult> attempts) {
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
  return problem.empty() ? fmt::format("report: {}/report.md", incidents_.of(step, attempt))
                         : fmt::format("there is no report: {}", problem);
}

void RunRecords::capsule(std::int64_t step, std::int64_t attempt, StateDict capsule) {
  for (const auto& [name, value] : options_.constants.values()) capsule.put(name, value);
  capsule.put("capsule/config", options_.config);
  if (const std::string problem = incidents_.write_capsule(step, attempt, capsule); !problem.empty()) say(problem);
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
  if (!s.state_hash_before.empty())
    line.add("state_hash_before", s.state_hash_before).add("state_hash_after", s.state_hash_after);
  metrics_.write(line);
  if (!s.committed) return;
  displays_->events.scalar("train/loss", s.step, static_cast<float>(s.loss));
  displays_->events.scalar("train/grad_norm", s.step, static_cast<float>(s.grad_norm));
  displays_->events.scalar("train/loss_scale", s.step, static_cast<float>(s.loss_scale));
  displays_->events.scalar("train/lr", s.step, static_cast<float>(s.lr));
  if (s.attention_logits)
    displays_->events.scalar("signs/attention_logits", s.step, static_cast<float>(*s.attention_logits));
  if (s.attention_entropy)
    displays_->events.scalar("signs/attention_entropy", s.step, static_cast<float>(*s.attention_entropy));
  if (s.update_rms) displays_->events.scalar("signs/update_rms", s.step, static_cast<float>(*s.update_rms));
  for (const auto& [name, headroom] :
       {std::pair("headroom/forward", &s.forward_headroom), {"headroom/backward", &s.backward_headroom}})
    if (std::isfinite(headroom->binades)) displays_->events.scalar(name, s.step, static_cast<float>(headroom->binades));
}

void RunRecords::timing(const StepStats& stats, double seconds, const Saving& saving) {
  const double rate = options_.units_per_step / seconds;
  io::JsonObject line;
  line.add("step", stats.step)
      .add("ms", static_cast<float>(seconds * 1e3))
      .add(options_.unit + "_per_s", static_cast<float>(rate))
      .add("mem_mb", static_cast<float>(peak_memory_mib()));
  if (saving.stall_seconds > 0) line.add("stall_ms", static_cast<float>(saving.stall_seconds * 1e3));
  if (saving.beside) line.add("saving", true);
  for (const io::SaveOutcome& save : saving.ended)
    if (save.committed)
      line.add("saved_mb", static_cast<float>(static_cast<double>(save.bytes) * 1e-6))
          .add("saved_s", static_cast<float>(save.seconds));
  timing_.write(line.add("time", io::utc_now()));
  displays_->bar.update({.step = stats.step,
                         .loss = stats.loss,
                         .scale = scaled_ ? std::optional<double>(stats.loss_scale) : std::nullopt,
                         .rate = rate});
}

void RunRecords::evaluation(std::int64_t step, const Evaluation& evaluation) {
  io::JsonObject line;
  line.add("step", step);
  std::string text = fmt::format("step {}:", step);
  for (const auto& [name, value] : evaluation.numbers) {
    line.add(name, static_cast<float>(value));
    text += fmt::format(" {} {:.4f}", name, value);
    displays_->events.scalar("eval/" + name, step, static_cast<float>(value));
  }
  metrics_.write(line);
  if (evaluation.picture) {
    displays_->events.image("eval/picture", step, *evaluation.picture);
    keep_sample(step, "png", io::encode_png(*evaluation.picture));
  }
  if (!evaluation.sample.empty()) {
    displays_->events.text("eval/sample", step, as_markdown(evaluation.sample));
    keep_sample(step, "txt", evaluation.sample);
  }
  say(text);
}

void RunRecords::keep_sample(std::int64_t step, const std::string& extension, const std::string& bytes) {
  const std::string folder = folder_ + "/samples", name = fmt::format("{:012}.{}", step, extension);
  io::FileOps& ops = io::FileOps::real();
  int error = ops.create_folder(folder);
  if (error == 0 || error == EEXIST)
    error = io::write_file_atomically(ops, io::open_folder(ops, folder).get(), name, io::bytes_of(bytes));
  check<StorageError>(error == 0, "{}/{}: cannot be written: {}", folder, name, io::error_text(error));
}

void RunRecords::say(const std::string& line) {
  if (displays_)
    displays_->bar.message(line);
  else
    io::say(line);
}

void RunRecords::event(std::string_view kind, std::int64_t step, const std::string& what) {
  keep_event(kind, step, what);
  say(what);
}

void RunRecords::keep_event(std::string_view kind, std::int64_t step, const std::string& what) {
  events_.write(io::JsonObject().add("step", step).add("kind", kind).add("what", what).add("time", io::utc_now()));
}

void RunRecords::cut_back_to(std::int64_t bytes, std::int64_t step) {
  if (bytes <= metrics_.offset()) return metrics_.truncate(bytes);
  event("log", step,
        fmt::format(
            "metrics.jsonl had {} bytes when the checkpoint was made and has {}: the lines that are missing stay so",
            bytes, metrics_.offset()));
}

void RunRecords::finish() {
  displays_->bar.finish();
  displays_->events.flush();
  metrics_.sync();
}

}  // namespace binade::amp
