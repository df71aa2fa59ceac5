#include <CLI/CLI.hpp>

#include "examples/common/bench_settings.h"
#include "examples/common/program.h"
#include "examples/unet/unet.h"
#include "examples/unet/unet_commands.h"
#include "io/image_data.h"

namespace binade::examples {
namespace {

Tensor random_images(const Shape& shape, std::uint32_t which, bool binary) {
  const RandomStream numbers{1, RngPurpose::kData, 0, 0, which};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = binary ? (numbers.uniform(i) > 0.5f ? 1.0f : 0.0f) : static_cast<float>(numbers.normal(i));
  return Tensor::from(values, shape);
}

int bench(Settings& table, BenchSettings& s) {
  table.apply_flags();
  Runtime runtime({.device = choose_device(s.train.device), .seed = 1, .threads = static_cast<int>(s.train.threads)});
  const amp::Policy policy = choose_policy(s.train);
  UNet model({.in = 1, .classes = 1, .base = 32, .depth = 4});
  s.train.lr = 1e-4;
  s.train.optimizer = "adam";
  const auto optimizer = make_optimizer(s.train, model);
  amp::Trainer trainer(runtime, model, *optimizer, {.precision = policy, .record = true});
  const Shape shape{4, 128, 128, 1};
  const io::ImageBatch batch = io::ImageBatch{random_images(shape, 0, false), random_images(shape, 1, true), {}}.to(
      runtime.device());
  const auto step = [&] {
    return trainer.step(batch, [&](const io::ImageBatch& b) { return nn::bce_with_logits(model(b.images), b.masks); })
        .loss;
  };
  const Workload workload{s.workload, s.train.precision, nn::count_parameters(model), step,
                          [&](bool on) { trainer.set_telemetry(on); }};
  return run_bench(s, workload);
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* app = program.add_subcommand("bench", "Times training steps on random images");
  auto s = std::make_shared<BenchSettings>();
  auto table = std::make_shared<Settings>();
  add_bench_settings(*table, *s, {"unet"});
  table->declare(*app);
  return [app, s, table] { return app->parsed() ? bench(*table, *s) : 0; };
}

}  // namespace binade::examples
