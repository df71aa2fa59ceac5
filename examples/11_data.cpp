// 11. Data: your own data set, transforms, several workers, and a run that resumes inside an epoch.
#include <binade.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

using namespace binade;

/// Sequences of different lengths, each a wave of one of two frequencies. Any class with size() and get() is a data
/// set.
struct Waves {
  struct Sample {
    io::Sequence wave{};     // (length, 1)
    std::int64_t label = 0;  // 0 slow, 1 quick
    struct Batch {           // a batch of samples, with one member for each member of Sample
      io::PaddedSequences wave{};
      Tensor labels{};
    };
  };

  std::int64_t size() const { return 400; }
  std::int64_t length(std::int64_t i) const { return 20 + i * 7 % 45; }
  Sample get(std::int64_t i) const {
    Tensor wave = Tensor::empty({length(i), 1});
    const double turn = i % 2 == 0 ? 0.2 : 0.5;
    for (std::int64_t t = 0; t < length(i); ++t)
      wave.mutable_data<float>()[t] = static_cast<float>(std::sin(turn * static_cast<double>(t + i)));
    return {{wave}, i % 2};
  }
};

struct Net : nn::Module {  // maps wave (N, L, 1) and its mask (N, L) to (N, 2)
  nn::Conv1d conv;
  nn::Linear head;
  Net() : conv({.in = 1, .out = 16, .kernel = 5, .padding = 2}), head({.in = 16, .out = 2}) {}
  void visit(nn::Visitor& v) override {
    v("conv", conv);
    v("head", head);
  }
  Variable operator()(const io::PaddedSequences& x) {
    const Tensor mask = x.mask.to(DType::f32).reshape({x.mask.dim(0), x.mask.dim(1), 1});
    return head(sum(relu(conv(x.values)) * Variable(mask), 1) / sum(Variable(mask), 1));
  }
};

/// Trains, and stops after `cut` steps as if killed. Returns the hash of the state.
std::string train(const std::string& folder, std::int64_t cut, int workers) {
  Runtime runtime({.seed = 1});
  Net model;
  optim::AdamW optimizer(model, {.lr = 1e-2});
  amp::Trainer trainer(runtime, model, optimizer);

  // Adds noise drawn from the random numbers of the sample's slot, so that a resumed run draws the same noise.
  const auto noisy = io::transform(Waves(), [](Waves::Sample sample, const io::SampleContext& context) {
    sample.wave.values = io::random_noise(sample.wave.values, context.random(), 5, 20);
    return sample;
  });
  // Batches of similar lengths, of at most 1000 values with their padding.
  io::BucketOptions buckets{.tokens = 1000, .seed = 3};
  for (std::int64_t i = 0; i < Waves().size(); ++i) buckets.lengths.push_back(Waves().length(i));
  auto loader = io::make_loader(
      noisy, {.seed = 3, .workers = workers, .batch_sampler = std::make_shared<io::BucketBatchSampler>(buckets)});

  amp::TrainingRun run(trainer, {.folder = folder, .steps = 60, .checkpoint_every = 20, .log_every = 20});
  run.resume_if_possible();
  for (const auto& batch : run.batches(loader)) {
    run.step(batch, [&](const auto& b) { return nn::cross_entropy(model(b->wave), b->labels); });
    if (trainer.steps() == cut) break;
  }
  return trainer.state_hash();
}

int main() {
  const auto folder = std::filesystem::temp_directory_path() / "binade-11-data";
  std::filesystem::remove_all(folder);
  const std::string whole = train(folder / "whole", 60, 1);
  train(folder / "parts", 33, 3);
  const std::string parts = train(folder / "parts", 60, 2);
  std::printf("one worker     %s\nthree and two  %s\n%s\n", whole.c_str(), parts.c_str(),
              whole == parts ? "the same bits" : "DIFFERENT");
  std::filesystem::remove_all(folder);
  return whole == parts ? 0 : 1;
}
