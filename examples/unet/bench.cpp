#include <CLI/CLI.hpp>

#include "binade/io/data/image_data.h"
#include "examples/common/bench_settings.h"
#include "examples/common/program.h"
#include "examples/unet/unet.h"
#include "examples/unet/unet_commands.h"

namespace binade::examples {
namespace {

/// The workloads of docs/performance.md and docs/performance-gpu.md; unet-dry only tries a harness.
struct Images {
  const char* name;
  UNetOptions model;
  std::int64_t batch, side;
};
const Images kImages[] = {{"unet", {.in = 1, .classes = 1, .base = 32, .depth = 4}, 4, 128},
                          {"unet-gpu", {.in = 3, .classes = 1, .base = 64, .depth = 4}, 1, 512},
                          {"unet-dry", {.in = 3, .classes = 1, .base = 4, .depth = 1}, 1, 8}};

Tensor random_images(const Shape& shape, std::uint32_t which, bool binary) {
  const RandomStream numbers{1, RngPurpose::kData, 0, 0, which};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = binary ? (numbers.uniform(i) > 0.5f ? 1.0f : 0.0f) : static_cast<float>(numbers.normal(i));
  return Tensor::from(values, shape);
}

int bench(Settings& table, BenchSettings& s) {
  table.apply_flags();
  const Images& images = *std::ranges::find(kImages, s.workload, &Images::name);
  Runtime runtime({.device = choose_device(s.train.device),
                   .seed = 1,
                   .threads = static_cast<int>(s.train.threads),
                   .deterministic = s.train.deterministic,
                   .timed_plans = s.train.plans == "timed"});
  const amp::Policy policy = choose_policy(s.train);
  UNet model(images.model);
  s.train.lr = 1e-4;
  s.train.optimizer = "adam";
  const auto optimizer = make_optimizer(s.train, model);
  amp::Trainer trainer(runtime, model, *optimizer, {.precision = policy, .record = s.record, .ahead = kStepsAhead});
  const Shape shape{s.batch > 0 ? s.batch : images.batch, images.side, images.side, images.model.in};
  const Shape masks{shape[0], images.side, images.side, 1};
  const io::ImageBatch batch = io::ImageBatch{random_images(shape, 0, false), random_images(masks, 1, true), {}}.to(
      runtime.device());
  return run_bench(s, trainer, nn::count_parameters(model), [&] {
    trainer.step(batch, [&model](const io::ImageBatch& b) { return nn::bce_with_logits(model(b.images), b.masks); });
  });
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* app = program.add_subcommand("bench", "Times training steps on random images");
  auto s = std::make_shared<BenchSettings>();
  auto table = std::make_shared<Settings>();
  add_bench_settings(*table, *s, {"unet", "unet-gpu", "unet-dry"});
  table->declare(*app);
  return [app, s, table] { return app->parsed() ? bench(*table, *s) : 0; };
}

}  // namespace binade::examples
