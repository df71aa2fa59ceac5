#include "amp/run_records.h"

#include <sys/resource.h>

#include <cstdio>
#include <ctime>

#include "io/progress_bar.h"
#include "io/tensorboard.h"

namespace binade::amp {
namespace {

/// The most memory this process has held, in MiB.
double peak_memory_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

struct RunRecords::Displays {
  io::EventWriter events;
  io::ProgressBar bar;
};

RunRecords::RunRecords(const io::RunFolder& folder, const RunPlan& plan)
    : plan_(plan), metrics_(folder.metrics()), timing_(folder.timing()) {
  displays_ = std::make_unique<Displays>(Displays{
      io::EventWriter(folder.path()), io::ProgressBar({.total = plan.steps, .every = plan.log_every, .unit = plan.unit})});
}

RunRecords::~RunRecords() = default;

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
  if (!s.state_hash_before.empty()) line.add("state_hash_before", s.state_hash_before).add("state_hash_after", s.state_hash_after);
  metrics_.write(line);
  if (!s.committed) return;
  displays_->events.scalar("train/loss", s.step, s.loss);
  displays_->events.scalar("train/grad_norm", s.step, s.grad_norm);
  displays_->events.scalar("train/loss_scale", s.step, s.loss_scale);
  displays_->events.scalar("train/lr", s.step, s.lr);
}

void RunRecords::timing(const StepStats& stats, double seconds) {
  const double rate = plan_.units_per_step / seconds;
  timing_.write(io::JsonObject()
                    .add("step", stats.step)
                    .add("ms", static_cast<float>(seconds * 1e3))
                    .add(plan_.unit + "_per_s", static_cast<float>(rate))
                    .add("mem_mb", static_cast<float>(peak_memory_mib()))
                    .add("time", utc_now()));
  displays_->bar.update({.step = stats.step, .loss = stats.loss, .loss_scale = stats.loss_scale, .rate = rate});
}

void RunRecords::evaluation(std::int64_t step, const Evaluation& evaluation) {
  io::JsonObject line;
  line.add("step", step);
  std::string text = fmt::format("step {}:", step);
  for (const auto& [name, value] : evaluation) {
    line.add(name, static_cast<float>(value));
    text += fmt::format(" {} {:.4f}", name, value);
    displays_->events.scalar("eval/" + name, step, value);
  }
  metrics_.write(line);
  say(text);
}

void RunRecords::say(const std::string& line) { displays_->bar.say(line); }

void RunRecords::finish() {
  displays_->bar.finish();
  displays_->events.flush();
  metrics_.sync();
}

}  // namespace binade::amp
