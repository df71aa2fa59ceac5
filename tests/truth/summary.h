#pragma once

#include <string>
#include <vector>

#include "tests/truth/clean.h"
#include "tests/truth/trial.h"

namespace binade::truth {

struct Results {
  std::vector<Record> trials{};
  std::vector<SilentRecord> silent{};
  std::vector<CleanRecord> clean{};
};

/// The 95 % interval of a share by Wilson's score, in percent.
struct Interval {
  double low = 0, high = 0;
};
Interval wilson(std::int64_t hits, std::int64_t all);

/// The table of goals with counts and intervals.
std::string table_of(const Results& results);
/// One line per record with a wrong statement, with everything needed to run it again.
std::string failures_of(const Results& results);
/// JSON lines, one per record.
std::string json_lines(const Results& results);

}  // namespace binade::truth
