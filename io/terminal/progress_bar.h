#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/io/terminal/console.h"

namespace binade::io {

struct ProgressOptions {
  std::int64_t first = 0;   ///< steps that were done before (a resumed run)
  std::int64_t total = 0;   ///< the last step
  std::int64_t every = 10;  ///< without a terminal: a line at every multiple of this step number, and at the last step
  std::string unit = "steps/s";  ///< what `rate` counts: "tokens/s", "images/s"
};

/// What is known after a step.
struct Progress {
  std::int64_t step = 0;  ///< committed so far
  double loss = 0;
  std::optional<double> scale{};                          ///< loss scale, if there is one
  std::vector<std::pair<std::string, double>> metrics{};  ///< further numbers, by name
  double rate = 0;                                        ///< units per second
};

/// Shows on stderr how training goes. On a terminal one line that is drawn again, at most ten times a second and never
/// wider than the terminal; elsewhere plain lines. Other messages go through message(), so that no line is torn.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressOptions options);
  /// The same on any stream and clock (in seconds), for tests and programs that draw elsewhere.
  ProgressBar(ProgressOptions options, std::ostream& out, Console console, std::function<double()> clock);
  /// Ends the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(const Progress& progress);
  /// Prints whole lines above the bar.
  void message(std::string_view text);
  /// Ends the bar's line; update() begins another.
  void finish();

 private:
  std::string fields(const Progress& progress, bool painted) const;
  std::string time_left(std::int64_t step) const;
  void draw();

  ProgressOptions options_;
  std::ostream& out_;
  Console console_;
  std::function<double()> clock_;
  double start_ = 0;
  double drawn_at_ = 0;
  bool on_screen_ = false;
  std::optional<Progress> latest_;
  std::int64_t last_line_ = -1;
};

/// "1:02:03", "2:03"; "-" for what is no finite time.
std::string format_duration(double seconds);
/// Loss scales, which are powers of two, by their exponent: 32, 2^21; others as they are.
std::string format_scale(double scale);
/// Three digits and a letter for the thousands: 950, 12.3k, 4.56M.
std::string format_rate(double rate);

}  // namespace binade::io
