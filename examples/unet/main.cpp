// binade-unet trains, evaluates and applies a U-Net that segments images.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "binade/run/known_programs.h"
#include "examples/common/task_program.h"
#include "examples/unet/evaluation.h"
#include "examples/unet/image_source.h"
#include "examples/unet/unet_settings.h"

namespace binade::examples {

/// Returns a function that writes NAME.png with image, truth and prediction side by side.
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

/// The workloads of docs/performance.md and docs/performance-gpu.md: model, batch and side of the images. unet-dry is
/// small and only tests benchmark scripts.
struct TimedImages {
  const char* name;
  UNetOptions model;
  std::int64_t batch, side;
};
const TimedImages kTimedImages[] = {{"unet", {.in = 1, .classes = 1, .base = 32, .depth = 4}, 4, 128},
                                    {"unet-gpu", {.in = 3, .classes = 1, .base = 64, .depth = 4}, 1, 512},
                                    {"unet-dry", {.in = 3, .classes = 1, .base = 4, .depth = 1}, 1, 8}};

Tensor random_images(const Shape& shape, std::uint32_t which, bool binary) {
  const RandomStream numbers{1, RngPurpose::kData, 0, 0, which};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = binary ? (numbers.uniform(i) > 0.5f ? 1.0f : 0.0f) : static_cast<float>(numbers.normal(i));
  return Tensor::from(values, shape);
}

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
  static_assert(texts.program == amp::kBinadeUnet.name);  // by which binade-doctor replay finds the program
  static constexpr InputCount inputs{
      .name = "channels", .help = "1 for grey images, 3 for color", .usual = 1, .most = 64};

  static void add_setup(Settings& table, UNetSettings& s) { add_unet_settings(table, s); }
  static void complete(UNetSettings& s) { complete_unet_settings(s); }
  static void add_eval_setup(Settings& table, UNetEvalSettings& s) {
    add_eval_settings(table, s);
    table.add("pictures", &s.pictures, "folder for image, truth and prediction as PNG files", {.value = "DIR"});
  }
  static ImageSource read_data(const UNetSettings& s) { return read_image_source(s.train, s.classes); }
  static std::int64_t count_inputs(const ImageSource& data) { return data.split.train.channels; }
  static UNetOptions model_options(const UNetSettings& s, std::int64_t channels) { return unet_options(s, channels); }
  static UNetOptions model_options(const StateDict& checkpoint) { return read_unet_architecture(checkpoint); }
  static void start(UNet& model, const UNetSettings& s, const ImageSource& data) {
    model.start_at(prior_logits(data.split.train, s.classes));
  }
  /// Uses the smallest possible image. The model is in evaluation mode, so that batch-norm statistics do not change.
  static Variable probe(const UNetSettings& s, UNet& model) {
    const std::int64_t side = model.multiple();
    model.eval();
    const Device device = Runtime::current_device();
    const Variable logits = model(Tensor::zeros({1, side, side, model.options().in}, DType::f32, device));
    model.train();
    return segmentation_loss(s.loss, logits, Tensor::zeros({1, side, side}, DType::u8, device));
  }
  static io::Loader<io::ImageBatch> loader(const UNetSettings& s, const ImageSource& data) {
    return io::training_batches(data.split.train, {.batch = s.train.batch,
                                                   .size = s.size,
                                                   .seed = static_cast<std::uint64_t>(s.train.seed),
                                                   .augment = augment_options(s)});
  }
  static Variable loss(const UNetSettings& s, UNet& model, const io::ImageBatch& batch) {
    return segmentation_loss(s.loss, model(batch.images), batch.masks);
  }
  static std::int64_t units_per_sample(const UNetSettings&) { return 1; }
  static void add_constants(StateDict& constants, const UNetSettings& s, const ImageSource&) {
    constants.put("progress/loss", s.loss);
  }
  static amp::Evaluation evaluate(const UNetSettings& s, UNet& model, const ImageSource& data) {
    std::optional<io::Image> first;
    const MaskScore score = examples::evaluate(model, data.split.validation, s.loss,
                                               [&](const io::ImageSample& sample, const Tensor& ids) {
                                                 if (!first)
                                                   first = picture_of(sample, ids, static_cast<int>(s.classes));
                                               });
    return {.numbers = {{"val_loss", score.loss}, {"val_dice", score.dice}, {"val_iou", score.iou}}, .picture = first};
  }
  static void evaluate_checkpoint(io::JsonObject& result, UNet& model, const StateDict& checkpoint,
                                  const UNetEvalSettings& s) {
    const UNetOptions& options = model.options();
    const ImageSource data = read_image_source(s.data, options.classes, static_cast<int>(options.in));
    const MaskScore score = examples::evaluate(model, data.split.validation, checkpoint.text("progress/loss"),
                                               picture_writer(s.pictures, options.classes));
    result.add("val_loss", static_cast<float>(score.loss))
        .add("val_dice", static_cast<float>(score.dice))
        .add("val_iou", static_cast<float>(score.iou))
        .add("background_dice", static_cast<float>(score.background_dice))
        .add("images", data.split.validation.size());
  }
  static std::vector<std::string> workloads() {
    std::vector<std::string> names;
    for (const TimedImages& images : kTimedImages) names.emplace_back(images.name);
    return names;
  }
  static BenchWorkload<UNetTask> workload(const std::string& name, std::int64_t batch) {
    const TimedImages& images = *std::ranges::find(kTimedImages, name, &TimedImages::name);
    const Shape shape{batch > 0 ? batch : images.batch, images.side, images.side, images.model.in};
    const Shape masks{shape[0], images.side, images.side, 1};
    return {.model = images.model,
            .batch = {random_images(shape, 0, false), random_images(masks, 1, true), {}},
            .loss = [](UNet& model, const io::ImageBatch& b) { return nn::bce_with_logits(model(b.images), b.masks); }};
  }
  static void tune(TrainSettings& s) { s.optimizer = "adam"; }
};

}  // namespace binade::examples

int main(int argc, char** argv) {
  using namespace binade::examples;
  return run_task<UNetTask>(argc, argv, {add_predict});
}
