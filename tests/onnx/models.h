#pragma once

#include <memory>
#include <string>
#include <vector>

#include "binade/io/onnx/export.h"

namespace binade::onnx {

/// A model with an example for the tests of ONNX files.
struct Sample {
  std::string name{};
  std::unique_ptr<nn::Module> model{};
  Forward forward{};
  std::vector<Variable> inputs{};
  bool batched = true;  ///< the first axis of all inputs is that of the samples
};

/// Small models of all kinds: an MLP, convolutions with batch norm, attention, recurrent layers, the examples' U-Net
/// and GPT, and elementwise functions. The weights depend on the seed of the Runtime alone.
std::vector<Sample> samples();

}  // namespace binade::onnx
