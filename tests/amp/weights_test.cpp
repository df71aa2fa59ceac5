// Loading weights without a trainer: from a run folder, a checkpoint or a safetensors file.
#include "binade/run/model_files/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/inference_mode.h"
#include "binade/io/exchange/safetensors.h"
#include "binade/io/files/output_file.h"
#include "binade/optim/ema.h"
#include "binade/optim/schedule_free.h"
#include "binade/run/model_files/pytorch.h"
#include "tests/amp/toy.h"
#include "tests/io/scratch_folder.h"

namespace binade::amp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void save(const std::string& path, const StateDict& state) {
  const io::CheckpointImage image = io::encode_checkpoint(state, "");
  io::write_output_file(path, image.bytes());
}

std::vector<float> numbers(const Tensor& t) { return t.to_vector<float>(); }

/// Options that collect all messages in `said`.
WeightsOptions listening(std::vector<std::string>& said, std::optional<bool> average = {}) {
  return {.average = average, .say = [&said](const std::string& line) { said.push_back(line); }};
}

TEST(Weights, AveragesAreLoadedUnlessTheLastWeightsAreAskedFor) {
  const io::ScratchFolder folder;
  toy::Training run({.ema = optim::EmaOptions{.decay = 0.9}});
  for (std::uint32_t k = 0; k < 4; ++k) run.step(k);
  std::filesystem::create_directories(folder.path("run/checkpoints"));
  save(folder.path("run/checkpoints/ckpt-000000000004.h5"), run.trainer.state());
  const std::vector<float> last = numbers(run.net.up.value()), average = numbers(run.trainer.ema()->average(0));
  ASSERT_NE(last, average);
  for (const char* path : {"run", "run/checkpoints", "run/checkpoints/ckpt-000000000004.h5"}) {
    SCOPED_TRACE(path);
    toy::Net net;
    std::vector<std::string> said;
    const LoadedWeights chosen = load_weights(net, folder.path(path), listening(said));
    EXPECT_TRUE(chosen.averaged);
    EXPECT_THAT(chosen.file, HasSubstr("ckpt-000000000004.h5"));
    ASSERT_FALSE(said.empty());
    EXPECT_THAT(said.back(), HasSubstr("averaged weights are loaded"));
    EXPECT_EQ(numbers(net.up.value()), average);
    EXPECT_EQ(numbers(net.mean.committed()), numbers(run.net.mean.committed()));
    EXPECT_EQ(net.count.committed().item(), 4);
    said.clear();
    EXPECT_FALSE(load_weights(net, folder.path(path), listening(said, false)).averaged);
    EXPECT_EQ(numbers(net.up.value()), last);
    said.clear();
    load_weights(net, folder.path(path), listening(said, true));
    EXPECT_EQ(numbers(net.up.value()), average);
    for (const std::string& line : said) EXPECT_THAT(line, Not(HasSubstr("averaged")));
  }
}

TEST(Weights, AveragesOfAnOptimizerAreFoundToo) {
  Runtime runtime({.seed = 1});
  toy::Net net;
  optim::ScheduleFreeAdamW optimizer(net, {.lr = 0.05});
  Trainer trainer(runtime, net, optimizer, {});
  for (std::uint32_t k = 0; k < 3; ++k)
    trainer.step(toy::batch(k), [&](const toy::Batch& b) { return toy::loss(net, b); });
  const StateDict state = trainer.state();
  toy::Net other;
  std::vector<std::string> said;
  EXPECT_TRUE(load_weights(other, state, listening(said)).averaged);
  EXPECT_EQ(numbers(other.up.value()), numbers(state.tensor("optim/ema/average/up.weight")));
  EXPECT_NE(numbers(other.up.value()), numbers(net.up.value()));
}

TEST(Weights, WithoutAveragesTheWeightsAreLoadedAndNothingIsSaid) {
  toy::Training run;
  run.step(0);
  const StateDict state = run.trainer.state();
  toy::Net net;
  std::vector<std::string> said;
  EXPECT_FALSE(load_weights(net, state, listening(said)).averaged);
  EXPECT_TRUE(said.empty());
  EXPECT_EQ(numbers(net.up.value()), numbers(run.net.up.value()));
  EXPECT_THAT(io::error_of<CheckpointError>([&] { load_weights(net, state, {.average = true}, "FILE"); }),
              HasSubstr("FILE: it has no averaged weights"));
}

TEST(Weights, OfAnotherModelAreListedAndChangeNothing) {
  toy::Training run;
  const StateDict state = run.trainer.state();
  toy::Two two;
  const std::vector<float> before = numbers(two.first.weight.value());
  const std::string error = io::error_of<CheckpointError>([&] { load_weights(two, state, {}, "FILE"); });
  for (const char* word : {"FILE: ", "missing: ", "first.weight", "unexpected: ", "up.weight"})
    EXPECT_THAT(error, HasSubstr(word));
  EXPECT_EQ(numbers(two.first.weight.value()), before);
  const LoadedWeights loaded = load_weights(two, state, {.strict = false});
  EXPECT_EQ(loaded.names.missing.size(), 5u);
  EXPECT_EQ(loaded.names.unexpected.size(), 5u);
}

TEST(Weights, ASafetensorsFileKeepsThem) {
  const io::ScratchFolder folder;
  const Runtime runtime({.seed = 1});
  toy::Two two, other;
  const std::string path = folder.path("w.safetensors");
  save_weights(two, path);
  two.first.weight.mutable_value().fill(1);
  load_weights(other, path);
  EXPECT_NE(numbers(other.first.weight.value()), numbers(two.first.weight.value()));
  load_weights(two, path);
  EXPECT_EQ(numbers(other.first.weight.value()), numbers(two.first.weight.value()));
  EXPECT_THROW(load_weights(two, path, {.average = true}), ArgumentError);
  EXPECT_THAT(io::error_of<DataError>([&] { load_weights(two, folder.write("m.pt", "PK\x03\x04rest")); }),
              HasSubstr("load_pytorch()"));
  EXPECT_THROW(load_weights(two, folder.path("missing.h5")), NoCheckpointError);
}

TEST(LoadPytorch, ListsEveryProblemAndChangesNothing) {
  const io::ScratchFolder folder;
  const Runtime runtime({.seed = 1});
  toy::Two two;
  const std::vector<float> before = numbers(two.second.weight.value());
  const std::string path = folder.path("w.safetensors");
  io::write_safetensors(path, {.tensors = {{"first.weight", Tensor::zeros({4, 16})},
                                           {"second.weight", Tensor::zeros({2, 16})},
                                           {"other", Tensor::zeros({1})}}});
  const std::string error = io::error_of<DataError>([&] { load_pytorch(two, path); });
  for (const char* word : {"w.safetensors: missing: first.bias, second.bias, seen; unexpected: other; different: ",
                           "first.weight (wanted f32 (16, 4), got f32 (4, 16))"})
    EXPECT_THAT(error, HasSubstr(word));
  EXPECT_EQ(numbers(two.second.weight.value()), before);
  EXPECT_THROW(load_pytorch(two, path, {.strict = false}), DataError) << "a wrong shape is an error without strict too";
  PytorchOptions options{.strict = false};
  options.names.add("first.weight -> first.weight : transpose");
  const nn::LoadResult result = load_pytorch(two, path, options);
  EXPECT_THAT(result.missing, ElementsAre("first.bias", "second.bias", "seen"));
  EXPECT_THAT(result.unexpected, ElementsAre("other"));
  EXPECT_EQ(two.second.weight.value().at(0), 0);
}

TEST(LoadPytorch, PrefixesOfWrappersAreRemoved) {
  const io::ScratchFolder folder;
  const Runtime runtime({.seed = 1});
  toy::Two two;
  const std::string path = folder.path("w.safetensors");
  save_pytorch(two, path);
  io::Safetensors content = io::read_safetensors(path), wrapped;
  for (const auto& [name, tensor] : content.tensors) wrapped.tensors.emplace("_orig_mod.module." + name, tensor);
  io::write_safetensors(path, wrapped);
  toy::Two other;
  load_pytorch(other, path);
  EXPECT_EQ(numbers(other.first.weight.value()), numbers(two.first.weight.value()));

  // The wrapper's prefix ("module.") precedes the prefix in the rules ("net.").
  io::Safetensors inner;
  for (const auto& [name, tensor] : content.tensors) inner.tensors.emplace("module.net." + name, tensor);
  io::write_safetensors(path, inner);
  PytorchOptions options;
  options.names.add("prefix net.");
  toy::Two third;
  load_pytorch(third, path, options);
  EXPECT_EQ(numbers(third.first.weight.value()), numbers(two.first.weight.value()));
}

}  // namespace
}  // namespace binade::amp
