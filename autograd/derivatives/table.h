#pragma once

#include <span>

#include "binade/autograd/derivative.h"

namespace binade::derivatives {

/// The derivative of one of Binade's ops. If it has none, `derivative` is null and `advice` tells the user what to do.
struct Entry {
  const OpInfo* op{};
  Derivative derivative{};
  const char* advice = nullptr;
};

std::span<const Entry> derivatives_of_unary_ops();
std::span<const Entry> derivatives_of_binary_ops();
std::span<const Entry> derivatives_of_rare_ops();
std::span<const Entry> derivatives_of_shape_ops();
std::span<const Entry> derivatives_of_reductions();
std::span<const Entry> derivatives_of_products();
std::span<const Entry> derivatives_of_convolutions();
std::span<const Entry> derivatives_of_norms();
std::span<const Entry> derivatives_of_image_ops();
std::span<const Entry> derivatives_of_losses();
std::span<const Entry> derivatives_of_attention();
std::span<const Entry> derivatives_of_index_ops();
std::span<const Entry> derivatives_of_linear_algebra();
std::span<const Entry> derivatives_of_signal_ops();

/// Returns the derivative of the op that `node` records: its own or that in the lists above. Throws AutogradError with
/// op, module path and advice if there is none.
Derivative derivative_of(const Node& node);

}  // namespace binade::derivatives
