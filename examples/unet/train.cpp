#include <CLI/CLI.hpp>

#include "binade/io/terminal/console.h"
#include "binade/run/known_programs.h"
#include "examples/common/model_file.h"
#include "examples/common/train_program.h"
#include "examples/unet/evaluation.h"
#include "examples/unet/image_source.h"
#include "examples/unet/picture.h"
#include "examples/unet/prior.h"
#include "examples/unet/unet_commands.h"
#include "examples/unet/unet_settings.h"

namespace binade::examples {
namespace {

/// What a training step records, on the smallest image there is. Evaluation mode: statistics must not move.
Variable probe_loss(UNet& model, const UNetSettings& s) {
  const std::int64_t side = model.multiple();
  model.eval();
  const Device device = Runtime::current_device();
  const Variable logits = model(Tensor::zeros({1, side, side, model.options().in}, DType::f32, device));
  model.train();
  return segmentation_loss(s.loss, logits, Tensor::zeros({1, side, side}, DType::u8, device));
}

io::ImageLoaderOptions loader_options(const UNetSettings& s) {
  return {.batch = s.train.batch,
          .size = s.size,
          .seed = static_cast<std::uint64_t>(s.train.seed),
          .augment = augment_options(s)};
}

enum class Purpose { kTrain, kPreflight, kInit };

/// `to` is the file that Purpose::kInit writes.
int train(Settings& table, UNetSettings& s, Purpose purpose, const std::string& to) {
  settle_settings(table, s.train, [&] { complete_unet_settings(s); });
  const TrainSettings& t = s.train;
  Runtime runtime({.device = choose_device(t.device),
                   .seed = static_cast<std::uint64_t>(t.seed),
                   .threads = static_cast<int>(t.threads),
                   .deterministic = t.deterministic,
                   .timed_plans = t.plans == "timed"});
  const amp::Policy policy = choose_policy(s.train);
  const ImageSource source = read_image_source(t, s.classes);

  const nn::init::SkipScope skip(t.loads);
  UNet model(unet_options(s, source.split.train.channels));
  {
    const PolicyScope scope(policy);
    check_overrides(policy, model, probe_loss(model, s));
  }
  if (!t.init_from.empty() && !t.loads) load_weights(model, t.init_from);
  if (t.init_from.empty() && !t.loads) model.start_at(prior_logits(source.split.train, s.classes));
  if (purpose == Purpose::kInit) return write_first_weights(model, t, to);
  const std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(t, model);
  amp::Trainer trainer(runtime, model, *optimizer, trainer_options(t, policy));

  auto loader = io::training_batches(source.split.train, loader_options(s));

  const auto maths = [&](const io::ImageBatch& b) { return segmentation_loss(s.loss, model(b.images), b.masks); };
  if (purpose == Purpose::kPreflight) return tell_as_json(preflight_and_tell(trainer, loader, maths));

  StateDict constants = run_constants(source.content, architecture_json(model.options()));
  constants.put("progress/loss", s.loss);
  amp::RunOptions run = run_options(std::string(amp::kBinadeUnet.name), "unet", table, t, runtime, constants);
  run.unit = "images";
  run.units_per_step = static_cast<double>(t.batch * t.accumulate);
  run.score = "val_dice";
  run.higher_is_better = true;
  run.evaluate = [&]() -> amp::Evaluation {
    std::optional<io::Image> first;
    const MaskScore score = evaluate(model, source.split.validation, s.loss,
                                     [&](const io::ImageSample& sample, const Tensor& ids) {
                                       if (!first) first = picture_of(sample, ids, static_cast<int>(s.classes));
                                     });
    return {.numbers = {{"val_loss", score.loss}, {"val_dice", score.dice}, {"val_iou", score.iou}}, .picture = first};
  };
  return train_and_tell(t, trainer, std::move(run), loader, maths);
}

int modules(Settings& table, UNetSettings& s, std::int64_t channels) {
  table.apply_flags();
  complete_unet_settings(s);
  Runtime runtime;
  UNet model(unet_options(s, channels));
  io::print(describe_modules(model, probe_loss(model, s)));
  return 0;
}

/// A sub-command with the settings of a training.
Command add(CLI::App& program, const char* name, const char* help, Purpose purpose) {
  CLI::App* app = program.add_subcommand(name, help);
  auto settings = std::make_shared<UNetSettings>();
  auto table = std::make_shared<Settings>();
  add_unet_settings(*table, *settings);
  table->declare(*app);
  auto to = std::make_shared<std::string>();
  if (purpose == Purpose::kInit) app->add_option("file", *to, "safetensors file to write")->required();
  return [app, settings, table, purpose, to] {
    if (!app->parsed()) return 0;
    return run_training(*table, settings->train, "unet", [&] { return train(*table, *settings, purpose, *to); });
  };
}

}  // namespace

Command add_train(CLI::App& program) {
  return add(program, "train", "Trains on images and masks; commits checkpoints; evaluates on what was held out",
             Purpose::kTrain);
}

Command add_preflight(CLI::App& program) {
  return add(program, "preflight", "Lists what is risky about a training before its first step", Purpose::kPreflight);
}

Command add_init(CLI::App& program) {
  return add(program, "init", "Writes the weights that a training with these settings would start from",
             Purpose::kInit);
}

Command add_modules(CLI::App& program) {
  CLI::App* app = program.add_subcommand("modules", "Prints every module path, parameter and op of a model");
  auto s = std::make_shared<UNetSettings>();
  auto channels = std::make_shared<std::int64_t>(1);
  auto table = std::make_shared<Settings>();
  add_unet_settings(*table, *s);
  table->add(
      {.name = "channels", .target = channels.get(), .help = "1 for grey images, 3 for color", .low = 1, .high = 64});
  table->declare(*app);
  return [app, s, channels, table] { return app->parsed() ? modules(*table, *s, *channels) : 0; };
}

}  // namespace binade::examples
