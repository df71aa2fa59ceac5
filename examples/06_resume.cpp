// 6. Runs: checkpoints and logs. An interrupted run resumes and ends with the same bits.
#include <binade.h>

#include <cstdio>
#include <filesystem>

using namespace binade;

struct Net : nn::Module {  // maps x (B, 4) to (B, 4)
  nn::LayerNorm norm;
  nn::Mlp mlp;
  nn::Dropout dropout;
  Net() : norm({.dim = 4}), mlp({.dim = 4, .hidden = 32}), dropout({.p = 0.2}) {}
  void visit(nn::Visitor& v) override {
    v("norm", norm);
    v("mlp", mlp);
    v("dropout", dropout);
  }
  Variable forward(const Variable& x) override { return dropout(mlp(norm(x))); }
};

struct Batch {
  Tensor x;
  io::BatchOrigin origin{};  // the samples of the batch, so that a resumed run continues within an epoch
};

/// Loads 320 samples in shuffled batches of 32. A data set is any function that makes the batch of given samples.
io::Loader<Batch> numbers() {
  return {{.batch = 32, .seed = 3, .samples = 320}, [](const io::BatchOrigin& origin) {
            std::vector<float> x;
            for (const std::int64_t sample : origin.samples) {
              const RandomStream values{3, RngPurpose::kData, static_cast<std::uint64_t>(sample)};
              for (std::uint64_t i = 0; i < 4; ++i) x.push_back(static_cast<float>(values.normal(i)));
            }
            return Batch{Tensor::from(x, {32, 4})};
          }};
}

/// A complete training program, which stops after `cut` steps as if it were killed. Returns the hash of the state.
std::string train(const std::string& folder, std::int64_t cut) {
  Runtime runtime({.seed = 1});
  Net model;
  optim::AdamW optimizer(model, {.lr = 1e-2});
  amp::Trainer trainer(runtime, model, optimizer,
                       {.precision = amp::Policy::bf16(), .ema = optim::EmaOptions{.decay = 0.99}});
  io::Loader<Batch> loader = numbers();

  amp::TrainingRun run(trainer, {.folder = folder, .steps = 30, .checkpoint_every = 10, .log_every = 10});
  run.resume_if_possible();  // weights, moments, averages, scale, schedule, random numbers, data cursor
  for (const auto& batch : run.batches(loader)) {
    run.step(batch, [&](const Batch& b) { return nn::mse(model(b.x), b.x); });
    if (trainer.steps() == cut) break;
  }
  return trainer.state_hash();
}

int main() {
  const auto folder = std::filesystem::temp_directory_path() / "binade-06-resume";
  std::filesystem::remove_all(folder);

  const std::string whole = train(folder / "whole", 30);
  train(folder / "parts", 17);
  const std::string parts = train(folder / "parts", 30);
  std::printf("whole %s\nparts %s\n%s\n", whole.c_str(), parts.c_str(), whole == parts ? "the same bits" : "DIFFERENT");
  std::filesystem::remove_all(folder);
  return whole == parts ? 0 : 1;
}
