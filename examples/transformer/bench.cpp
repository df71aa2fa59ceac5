#include <CLI/CLI.hpp>

#include "binade/io/data/text_data.h"
#include "examples/common/bench_settings.h"
#include "examples/common/program.h"
#include "examples/transformer/gpt.h"
#include "examples/transformer/gpt_commands.h"

namespace binade::examples {
namespace {

/// The workloads of docs/performance.md and docs/performance-gpu.md: a shape, a batch, and how many of the positions
/// are used. gpt-dry only tries a harness.
struct Shape {
  const char* name;
  GptOptions model;
  std::int64_t batch, length;
};
const Shape kShapes[] = {
    {"gpt-tiny", {.layers = 4, .heads = 4, .dim = 128, .context = 64, .vocabulary = 256, .table = 256}, 16, 64},
    {"gpt", {.layers = 6, .heads = 6, .dim = 384, .context = 256, .vocabulary = 256, .table = 256}, 8, 256},
    {"gpt2",
     {.layers = 12, .heads = 12, .dim = 768, .context = 1024, .vocabulary = 50257, .table = 50304, .tanh_gelu = true},
     4,
     64},
    {"gpt2-1024",
     {.layers = 12, .heads = 12, .dim = 768, .context = 1024, .vocabulary = 50257, .table = 50304, .tanh_gelu = true},
     4,
     1024},
    {"gpt-dry", {.layers = 1, .heads = 2, .dim = 16, .context = 8, .vocabulary = 29, .table = 32}, 2, 8}};

Tensor random_tokens(const Shape& shape, std::uint32_t which) {
  const RandomStream numbers{1, RngPurpose::kData, 0, 0, which};
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.batch * shape.length));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(numbers.below(i, static_cast<std::uint64_t>(shape.model.vocabulary)));
  return Tensor::from(tokens, {shape.batch, shape.length});
}

int bench(Settings& table, BenchSettings& s) {
  table.apply_flags();
  Shape shape = *std::ranges::find(kShapes, s.workload, &Shape::name);
  if (s.batch > 0) shape.batch = s.batch;
  Runtime runtime({.device = choose_device(s.train.device),
                   .seed = 1,
                   .threads = static_cast<int>(s.train.threads),
                   .deterministic = s.train.deterministic,
                   .timed_plans = s.train.plans == "timed"});
  const amp::Policy policy = choose_policy(s.train);
  Gpt model(shape.model);
  s.train.lr = 1e-4;
  s.train.weight_decay = 0.01;
  const auto optimizer = make_optimizer(s.train, model);
  amp::Trainer trainer(runtime, model, *optimizer, {.precision = policy, .record = s.record, .ahead = kStepsAhead});
  const io::TextBatch batch = io::TextBatch{random_tokens(shape, 0), random_tokens(shape, 1), {}}.to(runtime.device());
  return run_bench(s, trainer, nn::count_parameters(model), [&] {
    trainer.step(batch, [&model](const io::TextBatch& b) { return nn::cross_entropy(model(b.tokens), b.targets); });
  });
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* app = program.add_subcommand("bench", "Times training steps on random tokens");
  auto s = std::make_shared<BenchSettings>();
  auto table = std::make_shared<Settings>();
  add_bench_settings(*table, *s, {"gpt-tiny", "gpt", "gpt2", "gpt2-1024", "gpt-dry"});
  table->declare(*app);
  return [app, s, table] { return app->parsed() ? bench(*table, *s) : 0; };
}

}  // namespace binade::examples
