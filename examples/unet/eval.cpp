#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "examples/common/model_file.h"
#include "examples/common/program.h"
#include "examples/unet/commands.h"
#include "examples/unet/evaluation.h"
#include "examples/unet/image_source.h"
#include "examples/unet/picture.h"
#include "examples/unet/unet_settings.h"
#include "io/json_lines.h"
#include "io/run_folder.h"

namespace binade::examples {
namespace {

struct EvalSettings {
  ModelChoice model;
  TrainSettings data;
  std::string pictures;
};

/// --data and --val-fraction default to what the run was trained with.
void take_data_from_run(Settings& table, EvalSettings& s) {
  if (s.model.run.empty()) return;
  UNetSettings trained;
  Settings stored;
  add_unet_settings(stored, trained);
  stored.apply_json(io::read_run_config(s.model.run), s.model.run + "/config.json");
  if (!table.given("data")) s.data.data = trained.train.data;
  if (!table.given("val-data")) s.data.val_data = table.given("data") ? "" : trained.train.val_data;
  if (!table.given("val-fraction")) s.data.val_fraction = trained.train.val_fraction;
}

/// Writes NAME.png: image, truth and prediction beside one another.
EachPrediction picture_writer(const std::string& folder, std::int64_t classes) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  check<StorageError>(!error, "eval: cannot make the folder {}: {}", folder, error.message());
  return [folder, classes](const io::ImageSample& sample, const Tensor& ids) {
    const std::string stem = std::filesystem::path(sample.name).stem().string();
    io::write_png(folder + "/" + stem + ".png", picture_of(sample, ids, static_cast<int>(classes)));
  };
}

int eval(Settings& table, EvalSettings& s) {
  table.apply_flags();
  take_data_from_run(table, s);
  if (s.data.val_fraction == 0) s.data.val_fraction = 0.2;
  Runtime runtime({.device = choose_device(s.data.device), .threads = static_cast<int>(s.data.threads)});
  const StateDict checkpoint = read_checkpoint(s.model);
  UNet model(parse_unet_architecture(checkpoint.text("progress/architecture")));
  load_model(model, checkpoint);
  const ImageSource source = read_image_source(s.data, model.options().classes, static_cast<int>(model.options().in));
  const PolicyScope policy(policy_of(checkpoint));
  const MaskScore score = evaluate(model, source.split.validation, checkpoint.text("progress/loss"),
                                   picture_writer(s.pictures, model.options().classes));
  std::printf("%s\n", io::JsonObject()
                          .add("step", checkpoint.integer("progress/step"))
                          .add("val_loss", static_cast<float>(score.loss))
                          .add("val_dice", static_cast<float>(score.dice))
                          .add("val_iou", static_cast<float>(score.iou))
                          .add("background_dice", static_cast<float>(score.background_dice))
                          .add("images", source.split.validation.size())
                          .text()
                          .c_str());
  return 0;
}

}  // namespace

Command add_eval(CLI::App& program) {
  CLI::App* app = program.add_subcommand("eval", "Segments the held-out images; prints one JSON object");
  auto s = std::make_shared<EvalSettings>();
  auto table = std::make_shared<Settings>();
  table->add({.name = "run", .target = &s->model.run, .help = "run folder: its newest verified checkpoint"});
  table->add({.name = "checkpoint", .target = &s->model.checkpoint, .help = "one checkpoint file"});
  table->add({.name = "data", .target = &s->data.data, .help = "images and masks (the run's own when left out)"});
  table->add({.name = "val-data", .target = &s->data.val_data, .help = "held-out images of their own"});
  table->add({.name = "val-fraction",
              .target = &s->data.val_fraction,
              .help = "share held out of --data",
              .low = 0,
              .high = 0.9});
  table->add(
      {.name = "pictures", .target = &s->pictures, .help = "folder for image, truth and prediction as PNG files"});
  table->add({.name = "threads", .target = &s->data.threads, .help = "CPU threads (0: all)", .low = 0, .high = 1024});
  table->add({.name = "device", .target = &s->data.device, .help = "auto, cpu, cuda or cuda:N"});
  table->declare(*app);
  return [app, s, table] { return app->parsed() ? eval(*table, *s) : 0; };
}

}  // namespace binade::examples
