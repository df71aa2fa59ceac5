#pragma once

#include "binade/nn/module.h"

// A program of somebody's own, compiled with debug information, for the test of places in the source.
namespace somebody {

/// y = log(x) of a layer's result.
struct LogNet : binade::nn::Module {
  binade::nn::Module* layer = nullptr;
  void visit(binade::nn::Visitor& v) override;
  binade::Variable forward(const binade::Variable& x) override;
};

extern const int kLineOfLayer, kLineOfLog;

}  // namespace somebody
