#include "binade/amp/incident/source_place.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "binade/amp/incident/report.h"
#include "binade/autograd/functions.h"
#include "tests/amp/lab.h"
#include "tests/amp/user_program.h"

// An incident names the place in the user's program that called the first bad op.
namespace binade::amp {
namespace {

struct Program {
  Runtime runtime{{.seed = 1}};
  nn::Linear layer{{.in = 4, .out = 2, .bias = false}};
  somebody::LogNet model = [this] {
    somebody::LogNet net;
    net.layer = &layer;
    return net;
  }();
  optim::Sgd optimizer{model, {.lr = 1e-3}};

  Incident incident(const TrainerOptions& options, float weight, float input) {
    layer.weight.mutable_value().fill(weight);
    Trainer trainer(runtime, model, optimizer, options);
    const toy::LabBatch batch{Tensor::full({3, 4}, input), Tensor::zeros({3, 2}), {.samples = {0, 1, 2}}};
    const StepResult result = trainer.step(batch, [&](const toy::LabBatch& b) { return mean(model(b.x)); });
    EXPECT_FALSE(result.incidents().empty());
    return result.incidents().empty() ? Incident{} : *result.incidents().front();
  }
};

void expect_place(const Incident& incident, int line) {
  ASSERT_TRUE(std::filesystem::exists("/usr/bin/addr2line")) << "addr2line comes with the compiler (binutils)";
  ASSERT_TRUE(incident.diagnosis.first_bad && incident.diagnosis.first_bad->called_by);
  const SourcePlace& place = *incident.diagnosis.first_bad->called_by;
  EXPECT_EQ(place.function, "somebody::LogNet::forward");
  EXPECT_TRUE(place.file.ends_with("tests/amp/user_program.cpp")) << place.file;
  EXPECT_EQ(place.line, line);
  EXPECT_NE(location_of(incident.diagnosis).find("called by somebody::LogNet::forward ("), std::string::npos);
  EXPECT_NE(report_json(incident).find(R"("function":"somebody::LogNet::forward")"), std::string::npos);
}

TEST(SourcePlace, AnOpHasTheLineOfTheUsersForward) {
  Program program;
  expect_place(program.incident({.on_nan = OnNan::kSkip}, 1, 0), somebody::kLineOfLog);
}

TEST(SourcePlace, AnOpOfALayerHasTheLineThatCallsTheLayer) {
  Program program;
  expect_place(program.incident({.precision = Policy::fp16(), .on_nan = OnNan::kSkip}, 300, 300),
               somebody::kLineOfLayer);
}

TEST(SourcePlace, AnOpOfBackwardHasThePlaceOfItsForward) {
  Program program;
  const Incident found = program.incident({.on_nan = OnNan::kSkip}, 1e-20f, 1e-20f);
  EXPECT_EQ(found.diagnosis.first_bad->direction, "backward");
  expect_place(found, somebody::kLineOfLog);
}

TEST(SourcePlace, TextOmitsUnknownParts) {
  EXPECT_EQ((SourcePlace{"Net::forward", "model.cpp", 41}.text()), "Net::forward (model.cpp:41)");
  EXPECT_EQ((SourcePlace{"Net::forward", "", 0}.text()), "Net::forward");
  EXPECT_EQ((SourcePlace{"", "model.cpp", 41}.text()), "model.cpp:41");
  EXPECT_FALSE(user_place({}).has_value());
  EXPECT_FALSE(user_place({nullptr}).has_value());
}

}  // namespace
}  // namespace binade::amp
