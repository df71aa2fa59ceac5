#include "examples/unet/unet_task.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "binade/run/known_programs.h"
#include "examples/unet/evaluation.h"

namespace binade::examples {

static_assert(UNetTask::texts.program == amp::kBinadeUnet.name);  // by which binade-doctor replay finds the program

namespace {

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

}  // namespace

void UNetTask::add_eval_setup(Settings& table, UNetEvalSettings& s) {
  add_eval_settings(table, s);
  table.add("pictures", &s.pictures, "folder for image, truth and prediction as PNG files", {.value = "DIR"});
}

void UNetTask::start(UNet& model, const UNetSettings& s, const ImageSource& data) {
  model.start_at(prior_logits(data.split.train, s.classes));
}

/// Uses the smallest possible image. The model is in evaluation mode, so that batch-norm statistics do not change.
Variable UNetTask::probe(const UNetSettings& s, UNet& model) {
  const std::int64_t side = model.multiple();
  model.eval();
  const Device device = Runtime::current_device();
  const Variable logits = model(Tensor::zeros({1, side, side, model.options().in}, DType::f32, device));
  model.train();
  return segmentation_loss(s.loss, logits, Tensor::zeros({1, side, side}, DType::u8, device));
}

io::Loader<io::ImageBatch> UNetTask::loader(const UNetSettings& s, const ImageSource& data) {
  return io::training_batches(data.split.train, {.batch = s.train.batch,
                                                 .size = s.size,
                                                 .seed = static_cast<std::uint64_t>(s.train.seed),
                                                 .augment = augment_options(s)});
}

Variable UNetTask::loss(const UNetSettings& s, UNet& model, const io::ImageBatch& batch) {
  return segmentation_loss(s.loss, model(batch.images), batch.masks);
}

void UNetTask::add_constants(StateDict& constants, const UNetSettings& s, const ImageSource&) {
  constants.put("progress/loss", s.loss);
}

amp::Evaluation UNetTask::evaluate(const UNetSettings& s, UNet& model, const ImageSource& data) {
  std::optional<io::Image> first;
  const MaskScore score = examples::evaluate(model, data.split.validation, s.loss,
                                             [&](const io::ImageSample& sample, const Tensor& ids) {
                                               if (!first) first = picture_of(sample, ids, static_cast<int>(s.classes));
                                             });
  return {.numbers = {{"val_loss", score.loss}, {"val_dice", score.dice}, {"val_iou", score.iou}}, .picture = first};
}

void UNetTask::evaluate_checkpoint(io::JsonObject& result, UNet& model, const StateDict& checkpoint,
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

std::vector<std::string> UNetTask::workloads() {
  std::vector<std::string> names;
  for (const Images& images : kImages) names.emplace_back(images.name);
  return names;
}

BenchWorkload<UNetTask> UNetTask::workload(const std::string& name, std::int64_t batch) {
  const Images& images = *std::ranges::find(kImages, name, &Images::name);
  const Shape shape{batch > 0 ? batch : images.batch, images.side, images.side, images.model.in};
  const Shape masks{shape[0], images.side, images.side, 1};
  return {.model = images.model,
          .batch = {random_images(shape, 0, false), random_images(masks, 1, true), {}},
          .loss = [](UNet& model, const io::ImageBatch& b) { return nn::bce_with_logits(model(b.images), b.masks); }};
}

}  // namespace binade::examples
