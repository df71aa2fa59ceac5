#pragma once

#include <string>

#include "binade/core/activation.h"
#include "binade/io/onnx/writing/recorder.h"

namespace binade::onnx {

/// Writes the activation that a product applies to its result x.
std::string activated(Call& c, const std::string& x, Activation activation);

}  // namespace binade::onnx
