#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "binade/optim/optimizer.h"

namespace binade::optim {

/// During the lifetime of the object, the values of a model's parameters are averages of the weights, for evaluation
/// and export. 16-bit copies are made again from them. An update of the weights meanwhile throws AutogradError.
class AveragedWeights {
 public:
  /// Puts the averages of an optimizer that keeps some (schedule-free AdamW, ASGD) into the model. Does nothing for
  /// other optimizers.
  explicit AveragedWeights(Optimizer& optimizer);
  /// `averages`: a tensor with the layout of `parameters`.
  AveragedWeights(FlatParameters& parameters, const Tensor& averages);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

  /// True while an AveragedWeights object replaces the values of these parameters.
  static bool in_place(const FlatParameters& parameters);
  /// Throws AutogradError if in_place(): "WHAT: not possible while averaged weights are in the model; ADVICE".
  static void refuse(const FlatParameters& parameters, std::string_view what, std::string_view advice);

 private:
  /// State of one parameter, which the destructor restores.
  struct Kept {
    Tensor value{}, low{};
    std::uint64_t low_version = 0;
    LowPlace low_place{};
  };
  void put(const Tensor& averages);

  FlatParameters& parameters_;
  std::vector<Kept> kept_;
};

}  // namespace binade::optim
