// 6. Checkpoints: a run that was cut goes on to the same bits.
#include <binade.h>

#include <cstdio>
#include <filesystem>

using namespace binade;

struct Net : nn::Module {  // x (B, 4) -> (B, 4)
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

Tensor batch_of(std::int64_t step) {
  const RandomStream numbers{3, RngPurpose::kData, static_cast<std::uint64_t>(step)};
  std::vector<float> x(32 * 4);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(numbers.normal(i));
  return Tensor::from(x, {32, 4});
}

/// Trains up to `steps`; starts from the newest checkpoint of `folder` when there is one. Returns the state's hash.
std::string train(const std::string& folder, std::int64_t steps) {
  Runtime runtime({.seed = 1});
  Net model;
  optim::AdamW optimizer(model, {.lr = 1e-2});
  amp::Trainer trainer(runtime, model, optimizer,
                       {.precision = amp::Policy::bf16(), .ema = optim::EmaOptions{.decay = 0.99}});
  io::CheckpointStore checkpoints(folder);
  if (!checkpoints.entries().empty()) trainer.load_state(checkpoints.load_newest().state);
  std::printf("from step %lld to %lld\n", static_cast<long long>(trainer.steps()), static_cast<long long>(steps));

  while (trainer.steps() < steps)
    trainer.step(batch_of(trainer.steps()), [&](const Tensor& x) { return nn::mse(model(x), x); });
  checkpoints.save({.step = trainer.steps(), .state = trainer.state(), .state_hash = trainer.state_hash()});
  return trainer.state_hash();
}

int main() {
  const auto folder = std::filesystem::temp_directory_path() / "binade-06-resume";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "whole");
  std::filesystem::create_directories(folder / "parts");

  const std::string whole = train(folder / "whole", 30);
  train(folder / "parts", 11);
  const std::string parts = train(folder / "parts", 30);
  std::printf("whole %s\nparts %s\n%s\n", whole.c_str(), parts.c_str(), whole == parts ? "the same bits" : "DIFFERENT");
  std::filesystem::remove_all(folder);
  return whole == parts ? 0 : 1;
}
