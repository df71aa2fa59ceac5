#include "examples/unet/unet_settings.h"

#include <nlohmann/json.hpp>

#include "examples/common/architecture.h"

namespace binade::examples {
namespace {

constexpr std::int64_t kMostBase = 4096, kMostDepth = 8, kMostClasses = 255, kMostChannels = 4096;

}  // namespace

void add_unet_settings(Settings& t, UNetSettings& s) {
  using enum OnResume;
  s.train.batch = 4;
  s.train.steps = 300;
  s.train.optimizer = "adam";
  s.train.min_lr = 1e-5;
  s.train.val_fraction = 0.2;
  add_train_settings(t, s.train);
  t.add("base", &s.base, "channels of the first level", {.on_resume = kIncompatible, .low = 1, .high = kMostBase});
  t.add("depth", &s.depth, "number of times that the image is halved",
        {.on_resume = kIncompatible, .low = 1, .high = kMostDepth});
  t.add("size", &s.size, "side of the random training crop; evaluation uses whole images", {.low = 1, .high = 1 << 14});
  t.add("classes", &s.classes, "1: a binary mask; more: the pixel value is the class",
        {.on_resume = kIncompatible, .low = 1, .high = kMostClasses});
  t.add("loss", &s.loss, "training loss (default: bce+dice for a binary mask, ce for more classes)",
        {.on_resume = kFixed, .choices = {"bce", "dice", "bce+dice", "ce"}});
  t.add("augment", &s.augment, "random flips and quarter turns, and --rotate and --elastic");
  t.add("rotate", &s.rotate, "random rotations by up to this angle", {.low = 0, .high = 180, .value = "DEGREES"});
  t.add("elastic", &s.elastic, "elastic distortion; 200 displaces pixels by about 3 at --elastic-sigma 10",
        {.low = 0, .high = 1e6, .value = "ALPHA"});
  t.add("elastic-sigma", &s.elastic_sigma, "standard deviation of the distortion's smoothing",
        {.low = 0.1, .high = 1000, .value = "PIXELS"});
  t.add("recompute", &s.recompute, "recompute activations of levels instead of keeping them",
        {.on_resume = kMayChange});
}

void complete_unet_settings(UNetSettings& s) {
  const std::int64_t multiple = std::int64_t{1} << s.depth;
  check<ArgumentError>(s.size % multiple == 0, "--size: wanted a multiple of {} (2^depth), got {}", multiple, s.size);
  if (s.loss.empty()) s.loss = s.classes > 1 ? "ce" : "bce+dice";
  check<ArgumentError>((s.loss == "ce") == (s.classes > 1), "--loss: wanted {} for --classes {}, got {}",
                       s.classes > 1 ? "ce" : "bce, dice or bce+dice", s.classes, s.loss);
  check<ArgumentError>(s.augment || (s.rotate == 0 && s.elastic == 0),
                       "--augment: wanted on with --rotate or --elastic, got off");
  complete_train_settings(s.train);
}

io::AugmentOptions augment_options(const UNetSettings& s) {
  if (!s.augment) return io::AugmentOptions::none();
  return {.rotate_degrees = s.rotate, .elastic_alpha = s.elastic, .elastic_sigma = s.elastic_sigma};
}

UNetOptions unet_options(const UNetSettings& s, std::int64_t channels) {
  return {.in = channels, .classes = s.classes, .base = s.base, .depth = s.depth, .recompute = s.recompute};
}

std::string architecture_json(const UNetOptions& o) {
  return nlohmann::ordered_json{
      {"model", "unet"}, {"in", o.in}, {"classes", o.classes}, {"base", o.base}, {"depth", o.depth}}
      .dump();
}

UNetOptions read_unet_architecture(const StateDict& checkpoint) {
  const Architecture a(checkpoint, "unet");
  const UNetOptions o{.in = a.integer("in", 1, kMostChannels),
                      .classes = a.integer("classes", 1, kMostClasses),
                      .base = a.integer("base", 1, kMostBase),
                      .depth = a.integer("depth", 1, kMostDepth)};
  const auto expect_pair = [&](const std::string& path, std::int64_t in, std::int64_t out) {
    a.expect(path + ".conv1.weight", {out, 3, 3, in});
    a.expect(path + ".conv2.weight", {out, 3, 3, out});
  };
  for (std::int64_t level = 0; level < o.depth; ++level) {
    const std::int64_t width = o.base << level;
    expect_pair(fmt::format("encoder.{}", level), level == 0 ? o.in : width / 2, width);
    expect_pair(fmt::format("decoder.{}", level), 2 * width, width);
    a.expect(fmt::format("decoder.{}.up.weight", level), {2 * width, 2, 2, width});
  }
  expect_pair("middle", o.base << (o.depth - 1), o.base << o.depth);
  a.expect("head.weight", {o.classes, 1, 1, o.base});
  a.expect_none(fmt::format("encoder.{}.conv1.weight", o.depth));
  return o;
}

Variable segmentation_loss(const std::string& name, const Variable& logits, const Tensor& masks) {
  const ModulePathScope path("loss");
  if (name == "ce") return cross_entropy(logits, masks.to(DType::i32));
  // The name may come from a checkpoint, so it was not checked like a setting.
  check<CheckpointError>(name == "bce" || name == "dice" || name == "bce+dice",
                         "loss: wanted ce, bce, dice or bce+dice, the checkpoint was trained with '{}'", name);
  const Tensor truth = masks.reshape(logits.shape()).to(DType::f32);
  if (name == "bce") return bce_with_logits(logits, truth);
  const Variable overlap = dice(sigmoid(cast(logits, DType::f32)), truth);
  return name == "dice" ? overlap : bce_with_logits(logits, truth) + overlap;
}

}  // namespace binade::examples
