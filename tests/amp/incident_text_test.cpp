#include <gtest/gtest.h>

#include <sstream>

#include "binade/amp/incident/incident.h"

namespace binade::amp {
namespace {

TEST(Incident, PrintsWhatWhereWhyWhatWasDoneAndWhatToDo) {
  Incident incident{.step = 12, .attempt = 2, .what = "the loss is nan"};
  incident.diagnosis.first_bad = FirstBad{.module = "head",
                                          .op = "log",
                                          .direction = "forward",
                                          .tensor = "output",
                                          .value = "nan",
                                          .index = {3, 1},
                                          .sample = 3,
                                          .sample_id = 227};
  incident.diagnosis.cause = CauseClass::kBadInput;
  incident.diagnosis.confidence = Confidence::kProven;
  incident.diagnosis.advice = "check sample 227";
  incident.remedy.what = "sample 227 is left out from now on";
  std::ostringstream out;
  out << incident;
  EXPECT_EQ(out.str(),
            "step 12, attempt 2: the loss is nan\n"
            "  where: 'log' in head (forward): output is nan at [3, 1], sample 3 (number 227 of the data set)\n"
            "  why: bad-input (proven)\n"
            "  done: sample 227 is left out from now on\n"
            "  to do: check sample 227");
}

}  // namespace
}  // namespace binade::amp
