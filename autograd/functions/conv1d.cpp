#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

void check_sequences(const char* name, const Variable& x, const Variable& w, const char* filters) {
  check<ShapeError>(x.value().rank() == 3 && w.value().rank() == 3, "{}: wanted x (N, L, C) and w {}, got {} and {}",
                    where(name), filters, x.shape(), w.shape());
}

/// (N, L, C) as (N, 1, L, C).
Variable as_image(const Variable& x) { return reshape(x, {x.dim(0), 1, x.dim(1), x.dim(2)}); }
Variable as_sequence(const Variable& y) { return reshape(y, {y.dim(0), y.dim(2), y.dim(3)}); }

}  // namespace

Variable conv1d(const Variable& x, const Variable& w, const Variable& bias, const Conv1dParams& p) {
  check_sequences("conv1d", x, w, "(K, R, C / groups)");
  return as_sequence(
      conv2d(as_image(x), as_image(w), bias,
             {.stride = {1, p.stride}, .padding = {0, p.padding}, .dilation = {1, p.dilation}, .groups = p.groups}));
}

Variable conv_transpose1d(const Variable& x, const Variable& w, const Variable& bias, const ConvTranspose1dParams& p) {
  check_sequences("conv_transpose1d", x, w, "(C, R, K / groups)");
  return as_sequence(conv_transpose2d(as_image(x), as_image(w), bias,
                                      {.stride = {1, p.stride},
                                       .padding = {0, p.padding},
                                       .output_padding = {0, p.output_padding},
                                       .dilation = {1, p.dilation},
                                       .groups = p.groups}));
}

}  // namespace binade
