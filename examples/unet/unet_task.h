#pragma once

#include <string>
#include <vector>

#include "examples/common/task_program.h"
#include "examples/unet/image_source.h"
#include "examples/unet/unet_settings.h"

namespace binade::examples {

struct UNetEvalSettings : EvalSettings {
  std::string pictures{};  ///< folder for pictures of image, truth and prediction; empty: none
};

/// Segmentation of images with a U-Net (examples/common/task_program.h).
struct UNetTask {
  using Setup = UNetSettings;
  using EvalSetup = UNetEvalSettings;
  using Model = UNet;
  using Batch = io::ImageBatch;
  using Data = ImageSource;

  static constexpr TaskTexts texts{
      .program = "binade-unet",
      .run = "unet",
      .about = "Trains, evaluates and applies a U-Net that segments images.",
      .train = "Trains on images and masks; commits checkpoints; evaluates on what was held out",
      .eval = "Segments the held-out images; prints one JSON object",
      .bench = "Times training steps on random images",
      .weights = kUNetWeightFlags,
      .unit = "images",
      .score = "val_dice",
      .higher_is_better = true};
  static constexpr InputCount inputs{
      .name = "channels", .help = "1 for grey images, 3 for color", .usual = 1, .most = 64};

  static void add_setup(Settings& table, UNetSettings& s) { add_unet_settings(table, s); }
  static void complete(UNetSettings& s) { complete_unet_settings(s); }
  static void add_eval_setup(Settings& table, UNetEvalSettings& s);
  static ImageSource read_data(const UNetSettings& s) { return read_image_source(s.train, s.classes); }
  static std::int64_t count_inputs(const ImageSource& data) { return data.split.train.channels; }
  static UNetOptions model_options(const UNetSettings& s, std::int64_t channels) { return unet_options(s, channels); }
  static UNetOptions model_options(const StateDict& checkpoint) { return read_unet_architecture(checkpoint); }
  static void start(UNet& model, const UNetSettings& s, const ImageSource& data);
  static Variable probe(const UNetSettings& s, UNet& model);
  static io::Loader<io::ImageBatch> loader(const UNetSettings& s, const ImageSource& data);
  static Variable loss(const UNetSettings& s, UNet& model, const io::ImageBatch& batch);
  static std::int64_t units_per_sample(const UNetSettings&) { return 1; }
  static void add_constants(StateDict& constants, const UNetSettings& s, const ImageSource& data);
  static amp::Evaluation evaluate(const UNetSettings& s, UNet& model, const ImageSource& data);
  static void evaluate_checkpoint(io::JsonObject& result, UNet& model, const StateDict& checkpoint,
                                  const UNetEvalSettings& s);
  static std::vector<std::string> workloads();
  static BenchWorkload<UNetTask> workload(const std::string& name, std::int64_t batch);
  static void tune(TrainSettings& s) { s.optimizer = "adam"; }
};

/// Declares the command `predict`, which segments images from files.
Command add_predict(CLI::App& program);

}  // namespace binade::examples
