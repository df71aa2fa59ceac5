#pragma once

#include <cstdint>
#include <string>

#include "binade/io/data/augment.h"
#include "examples/common/train_settings.h"
#include "examples/unet/unet.h"

namespace binade::examples {

/// Settings of `binade-unet train`; each member except `train` holds the value of the flag of the same name.
struct UNetSettings {
  TrainSettings train{};
  std::int64_t base = 16, depth = 3, size = 128, classes = 1;
  std::string loss{};  ///< default: bce+dice for one class, otherwise ce
  bool augment = true;
  double rotate = 0, elastic = 0, elastic_sigma = 10;  ///< see io::AugmentOptions
  bool recompute = false;
};

/// The flags with which `train` makes a run from a file of weights alone, for error texts.
inline constexpr const char* kUNetWeightFlags = "--data IMAGES --base N --depth N --classes N";

/// Adds all settings of `binade-unet train` to the table.
void add_unet_settings(Settings& table, UNetSettings& s);
/// Fills in the settings that follow from others and checks them. Throws ArgumentError.
void complete_unet_settings(UNetSettings& s);

/// Returns the options of --augment, --rotate and --elastic.
io::AugmentOptions augment_options(const UNetSettings& s);

/// Returns the model's shape for images with `channels` channels.
UNetOptions unet_options(const UNetSettings& s, std::int64_t channels);

/// Returns the model's shape as one line of JSON, which checkpoints store.
std::string architecture_json(const UNetOptions& options);
/// Returns the model's shape from a checkpoint. Throws CheckpointError if it does not describe a U-Net.
UNetOptions read_unet_architecture(const StateDict& checkpoint);

/// Computes the loss that --loss names. logits (N, H, W, classes); masks u8 (N, H, W): 0 or 1, or class ids.
Variable segmentation_loss(const std::string& name, const Variable& logits, const Tensor& masks);

}  // namespace binade::examples
