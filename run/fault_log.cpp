#include "binade/run/fault_log.h"

#include <charconv>
#include <optional>

#include "binade/amp/text.h"

namespace binade::amp {
namespace {

/// Returns the line which records that fault `spec` was injected into a step (a "strike").
std::string strike_line(const std::string& spec, std::int64_t step) {
  return io::JsonObject().add("struck", spec).add("step", step).text();
}

/// Returns the step of a line that strike_line() made; std::nullopt if the line is about another fault.
std::optional<std::int64_t> step_of_strike(const std::string& line, const std::string& spec) {
  const std::size_t digits = strike_line(spec, 0).size() - 2;  // position of the step: this line ends with "0}"
  std::int64_t step = 0;
  if (line.size() > digits) std::from_chars(line.data() + digits, line.data() + line.size(), step);
  return line == strike_line(spec, step) ? std::optional(step) : std::nullopt;
}

}  // namespace

FaultLog::FaultLog(const io::FilesBelow& files, const std::string& name, FaultInjection& faults)
    : faults_(faults), lines_(files, name) {
  constexpr std::uint64_t kMaxBytes = 16u << 20;
  for (const std::string& line : split_lines(files.read(name, kMaxBytes).value_or("")))
    for (const Fault& fault : faults.faults())
      if (const std::optional<std::int64_t> step = step_of_strike(line, fault.spec))
        faults.mark_struck(fault.spec, *step);
  faults.on_strike = [this](const std::string& spec, std::int64_t step) {
    lines_.write_line(strike_line(spec, step));
    lines_.sync();
  };
}

}  // namespace binade::amp
