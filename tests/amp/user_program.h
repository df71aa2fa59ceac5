#pragma once

#include "binade/nn/module.h"

// A user's program, compiled with debug information, for source_place_test.cpp.
namespace somebody {

/// y = log(layer(x)).
struct LogNet : binade::nn::Module {
  binade::nn::Module* layer = nullptr;
  void visit(binade::nn::Visitor& v) override;
  binade::Variable forward(const binade::Variable& x) override;
};

extern const int kLineOfLayer, kLineOfLog;

}  // namespace somebody
