#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "binade/core/kernels/conv.h"
#include "binade/cuda/device/engine_choice.h"

/// The key by which the library plan of a convolution is stored. It consists of plain values; this file includes no
/// header of a library.
namespace binade::cuda {

/// The convolution that a plan computes: forward, or one of the two gradients.
enum class ConvPass : int { kForward, kDataGradient, kWeightGradient };

/// Everything that the choice of an engine depends on; equal keys get equal engines.
struct ConvKey {
  ConvPass pass = ConvPass::kForward;
  DType in = DType::f32;   ///< dtype of the inputs
  DType out = DType::f32;  ///< dtype of the result
  ConvShape shape;
  std::int64_t x_pitch = 0, y_pitch = 0;                     ///< elements between neighboring pixels
  int x_alignment = 16, w_alignment = 16, y_alignment = 16;  ///< in bytes: a power of two, at most 16
  bool bias = false;                                         ///< the convolution adds a bias
  bool tf32 = false;                                         ///< f32 inputs may be rounded to TF32

  static constexpr int kNumbers = 25;  ///< number of members
  /// All members, in the order of text().
  std::array<std::int64_t, kNumbers> numbers() const;
  /// Returns "conv forward bf16 bf16 x 8 64 64 32 pitch 32 align 16 ...", unique for each key.
  std::string text() const;
};
inline bool operator==(const ConvKey& a, const ConvKey& b) { return a.numbers() == b.numbers(); }

/// Return the key of a call.
ConvKey conv_key(const ConvArgs& a);
ConvKey conv_key(const ConvWeightArgs& a);

/// Returns why no library is used for this convolution; empty if one is.
std::string no_library_for(const ConvKey& key);

/// The form of a key's graph. kDirect: the convolution writes the result itself. kThroughFloat: it passes f32 sums to a
/// pointwise operation (bias or identity) that rounds them.
enum ConvForm : int { kDirect, kThroughFloat };

constexpr std::string_view kConvFamily = "conv";  ///< the first word of a key's text
constexpr int kConvForms = 2;                     ///< number of values of ConvForm

}  // namespace binade::cuda
