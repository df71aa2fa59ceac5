// Model files: all that inference needs of a model, in one file.
#include "binade/run/model_files/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/amp/policy.h"
#include "binade/io/files/output_file.h"
#include "binade/io/files/read_file.h"
#include "binade/optim/ema.h"
#include "tests/amp/toy.h"
#include "tests/io/scratch_folder.h"

namespace binade::amp {
namespace {

using ::testing::HasSubstr;

std::vector<float> numbers(const Tensor& t) { return t.to_vector<float>(); }

const io::Warn kSilent = [](const std::string&) {};

/// Trains four steps, writes a run folder with one checkpoint, and returns the path of the folder.
std::string make_run_folder(const io::ScratchFolder& folder, toy::Training& run) {
  for (std::uint32_t k = 0; k < 4; ++k) run.step(k);
  StateDict state = run.trainer.state();
  state.put("progress/architecture", std::string("{\"up\": 4}"));
  state.merge("progress/tokenizer", io::tokenizer_state(*io::make_char_tokenizer("abc")));
  std::filesystem::create_directories(folder.path("run/checkpoints"));
  io::write_output_file(folder.path("run/checkpoints/ckpt-000000000004.h5"), io::encode_checkpoint(state, "").bytes());
  return folder.path("run");
}

TEST(ModelFiles, OfARunHaveWeightsAveragesAndDescriptionAndNothingOfTraining) {
  const io::ScratchFolder folder;
  toy::Training run({.precision = Policy::bf16(), .ema = optim::EmaOptions{.decay = 0.9}});
  const std::string path = folder.path("model.h5");
  extract_model(make_run_folder(folder, run), path, {}, kSilent);
  const StateDict stored = io::load_checkpoint(path).state;
  for (const auto& [name, value] : stored.values()) EXPECT_THAT(name, Not(HasSubstr("moment")));
  EXPECT_FALSE(stored.contains("progress/step"));

  const ModelFile file(path);
  EXPECT_EQ(file.architecture(), "{\"up\": 4}");
  EXPECT_EQ(file.tokenizer()->decode(file.tokenizer()->encode("cab")), "cab");
  EXPECT_EQ(file.policy(), Policy::bf16());
  const std::vector<float> last = numbers(run.net.up.value()), average = numbers(run.trainer.ema()->average(0));
  ASSERT_NE(last, average);
  toy::Net net;
  EXPECT_TRUE(file.load(net, {.say = kSilent}).averaged);
  EXPECT_EQ(numbers(net.up.value()), average);
  EXPECT_EQ(numbers(net.mean.committed()), numbers(run.net.mean.committed()));
  EXPECT_FALSE(file.load(net, {.average = false}).averaged);
  EXPECT_EQ(numbers(net.up.value()), last);
}

TEST(ModelFiles, ARunIsReadLikeAModelFile) {
  const io::ScratchFolder folder;
  toy::Training run;
  const ModelFile file(make_run_folder(folder, run), {}, kSilent);
  EXPECT_EQ(file.architecture(), "{\"up\": 4}");
  toy::Net net;
  EXPECT_THAT(file.load(net).file, HasSubstr("ckpt-000000000004.h5"));
  EXPECT_EQ(numbers(net.up.value()), numbers(run.net.up.value()));
}

TEST(ModelFiles, KeepAModelThatNoTrainerHas) {
  const io::ScratchFolder folder;
  const Runtime runtime({.seed = 5});
  toy::Net net, other;
  net.mean.mutable_committed().fill(3);
  const std::string path = folder.path("model.h5");
  save_model(net, path);
  const ModelFile file(path);
  file.load(other);
  EXPECT_EQ(numbers(other.up.value()), numbers(net.up.value()));
  EXPECT_EQ(numbers(other.mean.committed()), numbers(net.mean.committed()));
  EXPECT_EQ(file.policy(), PrecisionPolicy());
  EXPECT_THAT(io::error_of<CheckpointError>([&] { (void)file.architecture(); }),
              HasSubstr("model.h5: it does not describe"));
  EXPECT_THAT(io::error_of<CheckpointError>([&] { (void)file.tokenizer(); }),
              HasSubstr("model.h5: it has no tokenizer"));
  save_model(net, folder.path("again.h5"));
  EXPECT_EQ(io::read_file(path), io::read_file(folder.path("again.h5")));
}

TEST(ModelFiles, NonFiniteWeightsAreNotWritten) {
  const io::ScratchFolder folder;
  const Runtime runtime({.seed = 5});
  toy::Net net;
  net.up.mutable_value().fill(std::numeric_limits<double>::infinity());
  const std::string path = folder.path("model.h5");
  EXPECT_THAT(io::error_of<NumericError>([&] { save_model(net, path); }), HasSubstr("up.weight holds inf"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ModelFiles, WithoutWeightsAreRefused) {
  const io::ScratchFolder folder;
  StateDict state;
  state.put("progress/architecture", std::string("x"));
  const std::string path = folder.path("none.h5");
  io::write_output_file(path, io::encode_checkpoint(state, "").bytes());
  EXPECT_THAT(io::error_of<CheckpointError>([&] { ModelFile{path}; }), HasSubstr("none.h5: it holds no weights"));
  EXPECT_THAT(io::error_of<CheckpointError>([&] { extract_model(path, folder.path("to.h5")); }),
              HasSubstr("no weights"));
  EXPECT_THROW(ModelFile(folder.path("missing.h5")), NoCheckpointError);
}

TEST(ModelFiles, AForeignPolicyIsAnErrorOfTheFile) {
  const io::ScratchFolder folder;
  const Runtime runtime({.seed = 5});
  toy::Net net;
  save_model(net, folder.path("model.h5"));
  const StateDict saved = io::load_checkpoint(folder.path("model.h5")).state;
  StateDict state;
  for (const auto& [name, value] : saved.values())
    state.put(name, name == "amp/policy" ? StateDict::Value(std::string("half and half")) : value);
  const std::string path = folder.path("changed.h5");
  io::write_output_file(path, io::encode_checkpoint(state, "").bytes());
  EXPECT_THAT(io::error_of<CheckpointError>([&] { (void)ModelFile(path).policy(); }), HasSubstr("changed.h5: "));
}

}  // namespace
}  // namespace binade::amp
