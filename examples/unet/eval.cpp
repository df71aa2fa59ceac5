#include <CLI/CLI.hpp>
#include <filesystem>

#include "binade/core/state_counts.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/terminal/console.h"
#include "examples/common/eval_settings.h"
#include "examples/common/program.h"
#include "examples/unet/evaluation.h"
#include "examples/unet/image_source.h"
#include "examples/unet/picture.h"
#include "examples/unet/unet_commands.h"
#include "examples/unet/unet_settings.h"

namespace binade::examples {
namespace {

struct UNetEvalSettings : EvalSettings {
  std::string pictures;
};

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

int eval(Settings& table, UNetEvalSettings& s) {
  UNetSettings trained;
  Settings stored;
  add_unet_settings(stored, trained);
  settle_eval_settings(table, s, stored, trained.train);
  Runtime runtime({.device = choose_device(s.data.device), .threads = static_cast<int>(s.data.threads)});
  const StateDict checkpoint = read_checkpoint(s.model, "binade-unet", kUNetRunOfWeights);
  const nn::init::SkipScope skip;
  UNet model(read_unet_architecture(checkpoint));
  load_model(model, checkpoint);
  const ImageSource source = read_image_source(s.data, model.options().classes, static_cast<int>(model.options().in));
  const PolicyScope policy(policy_of(checkpoint));
  const MaskScore score = evaluate(model, source.split.validation, checkpoint.text("progress/loss"),
                                   picture_writer(s.pictures, model.options().classes));
  io::print(io::JsonObject()
                .add("step", read_count(checkpoint, "progress/step"))
                .add("val_loss", static_cast<float>(score.loss))
                .add("val_dice", static_cast<float>(score.dice))
                .add("val_iou", static_cast<float>(score.iou))
                .add("background_dice", static_cast<float>(score.background_dice))
                .add("images", source.split.validation.size())
                .text() +
            "\n");
  return 0;
}

}  // namespace

Command add_eval(CLI::App& program) {
  CLI::App* app = program.add_subcommand("eval", "Segments the held-out images; prints one JSON object");
  auto s = std::make_shared<UNetEvalSettings>();
  auto table = std::make_shared<Settings>();
  add_eval_settings(*table, *s);
  table->add({.name = "pictures",
              .target = &s->pictures,
              .help = "folder for image, truth and prediction as PNG files",
              .value = "DIR"});
  table->declare(*app);
  return [app, s, table] { return app->parsed() ? eval(*table, *s) : 0; };
}

}  // namespace binade::examples
