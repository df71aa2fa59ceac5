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

/// Settings of a ProgressBar.
struct ProgressOptions {
  std::int64_t first = 0;   ///< number of steps done before (in a resumed run)
  std::int64_t total = 0;   ///< the last step
  std::int64_t every = 10;  ///< if the output is no terminal: steps between lines; the last step always gets a line
  std::string unit = "steps/s";  ///< unit of Progress::rate: "tokens/s", "images/s"
};

/// The state of a training after a step.
struct Progress {
  std::int64_t step = 0;  ///< number of committed steps
  double loss = 0;
  std::optional<double> scale{};                          ///< loss scale, if there is one
  std::vector<std::pair<std::string, double>> metrics{};  ///< further numbers, by name
  double rate = 0;                                        ///< throughput in ProgressOptions::unit
};

/// Displays the progress of a training on stderr: on a terminal one line, redrawn at most ten times a second and never
/// wider than the terminal; elsewhere plain lines. Other messages must go through message(), so that lines do not mix.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressOptions options);
  /// Writes to any stream and uses any clock (in seconds), for tests and programs with other outputs.
  ProgressBar(ProgressOptions options, std::ostream& out, Console console, std::function<double()> clock);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows a new state.
  void update(const Progress& progress);
  /// Prints whole lines above the bar.
  void message(std::string_view text);
  /// Ends the bar's line; the next update() begins a new one.
  void finish();

 private:
  /// Returns the text after the step: loss, scale, metrics, rate, time left. `painted`: with colors.
  std::string fields(const Progress& progress, bool painted) const;
  /// Returns the estimated time until the last step as text.
  std::string time_left(std::int64_t step) const;
  /// Draws the bar with the latest progress.
  void draw();

  ProgressOptions options_;
  std::ostream& out_;
  Console console_;
  std::function<double()> clock_;
  double start_ = 0;        // time at which the bar began
  double drawn_at_ = 0;     // time of the last draw()
  bool on_screen_ = false;  // true if the cursor is on the bar's line
  std::optional<Progress> latest_;
  std::int64_t last_line_ = -1;  // step of the last plain line
};

/// Returns "1:02:03" or "2:03"; "-" if `seconds` is not finite.
std::string format_duration(double seconds);
/// Returns a loss scale as a number, or as a power of two if it is a large or small power of two: 32, 2^21.
std::string format_scale(double scale);
/// Returns three digits and a unit prefix: 950, 12.3k, 4.56M.
std::string format_rate(double rate);

}  // namespace binade::io
