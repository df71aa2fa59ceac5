#include <CLI/CLI.hpp>

#include "examples/common/program.h"
#include "examples/common/step_server.h"
#include "examples/unet/unet.h"
#include "examples/unet/unet_commands.h"

namespace binade::examples {
namespace {

struct BenchSettings {
  TrainSettings train;
  std::string workload = "unet";
  bool interactive = false;
  std::int64_t overhead = 0;
  std::int64_t steps = 10;
};

Tensor random_images(const Shape& shape, std::uint32_t which, bool binary) {
  const RandomStream numbers{1, RngPurpose::kData, 0, 0, which};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = binary ? (numbers.uniform(i) > 0.5f ? 1.0f : 0.0f) : static_cast<float>(numbers.normal(i));
  return Tensor::from(values, shape);
}

int bench(Settings& table, BenchSettings& s) {
  table.apply_flags();
  Runtime runtime({.seed = 1, .threads = static_cast<int>(s.train.threads)});
  const amp::Policy policy = choose_policy(s.train);
  UNet model({.in = 1, .classes = 1, .base = 32, .depth = 4});
  s.train.lr = 1e-4;
  s.train.optimizer = "adam";
  const auto optimizer = make_optimizer(s.train, model);
  amp::Trainer trainer(runtime, model, *optimizer, {.precision = policy});
  const Shape shape{4, 128, 128, 1};
  const Tensor images = random_images(shape, 0, false), masks = random_images(shape, 1, true);
  const auto step = [&] {
    return trainer.step(images, [&](const Tensor& x) { return nn::bce_with_logits(model(x), masks); }).loss;
  };
  const Workload workload{s.workload, s.train.precision, nn::count_parameters(model), step,
                          [&](bool on) { trainer.set_telemetry(on); }};
  if (s.overhead > 0) return measure_overhead(workload, static_cast<int>(s.overhead));
  return serve_steps(workload, s.interactive, static_cast<int>(s.steps));
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* app = program.add_subcommand("bench", "Times training steps on random images");
  auto s = std::make_shared<BenchSettings>();
  auto table = std::make_shared<Settings>();
  table->add({.name = "workload", .target = &s->workload, .help = "model and batch", .choices = {"unet"}});
  table->add({.name = "precision",
              .target = &s->train.precision,
              .help = "what products compute in",
              .choices = {"fp32", "tf32", "fp16", "bf16", "pure-fp16", "pure-bf16"}});
  table->add({.name = "threads", .target = &s->train.threads, .help = "CPU threads (0: all)", .low = 0, .high = 1024});
  table->add({.name = "steps", .target = &s->steps, .help = "steps timed", .low = 1, .high = 1e6});
  table->add({.name = "overhead",
              .target = &s->overhead,
              .help = "pairs of steps, with and without telemetry: what it costs",
              .low = 0,
              .high = 1e6});
  table->add({.name = "interactive",
              .target = &s->interactive,
              .help = "wait for 'step N' on stdin",
              .on_resume = OnResume::kNotASetting});
  table->declare(*app);
  return [app, s, table] { return app->parsed() ? bench(*table, *s) : 0; };
}

}  // namespace binade::examples
