#include "binade/io/terminal/progress_bar.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <span>

namespace binade::io {
namespace {

/// Number of columns at the right that the bar leaves unused, because a terminal may wrap after its last column, and
/// echoes ^C after the line.
constexpr int kFreeColumns = 3;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string format_scale(double scale) {
  int exponent = 0;
  if (std::isfinite(scale) && std::frexp(scale, &exponent) == 0.5 && std::abs(exponent - 1) > 6)
    return fmt::format("2^{}", exponent - 1);
  return fmt::format("{:g}", scale);
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0 && seconds < 1e9)) return "-";
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  const std::int64_t hours = whole / 3600;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, whole / 60 % 60, whole % 60)
                   : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string format_rate(double rate) {
  if (!std::isfinite(rate) || rate < 0) return "-";
  const char* letters[] = {"", "k", "M", "G", "T"};
  int group = 0;
  for (; rate >= 999.5 && group < 4; ++group) rate /= 1000;
  return fmt::format("{:.{}f}{}", rate, rate < 9.995 ? 2 : rate < 99.95 ? 1 : 0, letters[group]);
}

ProgressBar::ProgressBar(ProgressOptions options)
    : ProgressBar(std::move(options), std::cerr, Console::of(2), steady_seconds) {}

ProgressBar::ProgressBar(ProgressOptions options, std::ostream& out, Console console, std::function<double()> clock)
    : options_(std::move(options)), out_(out), console_(console), clock_(std::move(clock)), start_(clock_()) {}

ProgressBar::~ProgressBar() { finish(); }

std::string ProgressBar::time_left(std::int64_t step) const {
  const std::int64_t done = step - options_.first;
  const std::int64_t left = std::max<std::int64_t>(0, options_.total - step);
  if (done <= 0) return "-";
  return format_duration((clock_() - start_) / static_cast<double>(done) * static_cast<double>(left));
}

std::string ProgressBar::fields(const Progress& progress, bool painted) const {
  const std::string loss = fmt::format("loss {:.4f}", progress.loss);
  std::string text = painted && !std::isfinite(progress.loss) ? console_.paint(loss, Color::kRed) : loss;
  if (progress.scale) text += fmt::format("  scale {}", format_scale(*progress.scale));
  constexpr std::size_t kShown = 6;
  const std::size_t shown = std::min(kShown, progress.metrics.size());
  for (const auto& [name, value] : std::span(progress.metrics).first(shown))
    text += fmt::format("  {} {:.4g}", name, value);
  if (progress.metrics.size() > shown) text += fmt::format("  +{} metrics", progress.metrics.size() - shown);
  text += fmt::format("  {} {}", format_rate(progress.rate), options_.unit);
  return text + fmt::format("  {} left", time_left(progress.step));
}

void ProgressBar::update(const Progress& progress) {
  latest_ = progress;
  const bool last = progress.step >= options_.total;
  if (console_.terminal) {
    if (!on_screen_ || last || clock_() - drawn_at_ >= 0.1) draw();
    return;
  }
  if (progress.step == last_line_ || (!last && progress.step % std::max<std::int64_t>(1, options_.every) != 0)) return;
  last_line_ = progress.step;
  out_ << fmt::format("step {}/{}  {}\n", progress.step, options_.total, fields(progress, false)) << std::flush;
}

void ProgressBar::draw() {
  const std::string head = fmt::format("{}/{} ", latest_->step, options_.total);
  const std::string plain = fields(*latest_, false);
  const auto space = static_cast<std::int64_t>(console_.width) - kFreeColumns -
                     static_cast<std::int64_t>(head.size() + plain.size() + 4);
  std::string line = head;
  if (space >= 5) {
    const auto width = std::min<std::int64_t>(space, 30);
    const double share = options_.total > 0 ? static_cast<double>(latest_->step) / static_cast<double>(options_.total)
                                            : 1;
    const auto filled = std::clamp<std::int64_t>(static_cast<std::int64_t>(share * static_cast<double>(width)), 0,
                                                 width);
    std::string bar(static_cast<std::size_t>(filled), '=');
    if (filled < width) bar += '>';
    bar.resize(static_cast<std::size_t>(width), ' ');
    line += "[" + console_.paint(bar, Color::kGreen) + "]  " + fields(*latest_, true);
  } else {
    line = (head + plain).substr(0, static_cast<std::size_t>(std::max(1, console_.width - kFreeColumns)));
  }
  out_ << "\r" << line << "\x1b[K" << std::flush;
  on_screen_ = true;
  drawn_at_ = clock_();
}

void ProgressBar::message(std::string_view text) {
  const bool ends = !text.empty() && text.back() == '\n';
  if (on_screen_) out_ << "\r\x1b[K";
  out_ << printable(text) << (ends ? "" : "\n") << std::flush;
  if (on_screen_) draw();
}

void ProgressBar::finish() {
  if (!on_screen_) return;
  draw();
  out_ << "\n" << std::flush;
  on_screen_ = false;
}

}  // namespace binade::io
