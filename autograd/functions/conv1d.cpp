#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

/// Checks shapes here, because conv2d() would report them as shapes of images. `filters` is the wanted shape of w.
/// Axis `read` of w must have the number of channels of x, divided by `shared`, as its extent.
void check_sequences(const char* name, const Variable& x, const Variable& w, const char* filters, int read,
                     std::int64_t shared) {
  check<ShapeError>(x.value().rank() == 3 && w.value().rank() == 3, "{}: wanted x (N, L, C) and w {}, got {} and {}",
                    where(name), filters, x.shape(), w.shape());
  check<ArgumentError>(shared > 0 && x.dim(2) % shared == 0,
                       "{}: wanted channels in equal groups, got x {} in {} groups", where(name), x.shape(), shared);
  check<ShapeError>(w.dim(read) == x.dim(2) / shared, "{}: wanted w {} for x {}, got {}", where(name), filters,
                    x.shape(), w.shape());
}

/// (N, L, C) as (N, 1, L, C).
Variable as_image(const Variable& x) { return reshape(x, {x.dim(0), 1, x.dim(1), x.dim(2)}); }
Variable as_sequence(const Variable& y) { return reshape(y, {y.dim(0), y.dim(2), y.dim(3)}); }

}  // namespace

Variable conv1d(const Variable& x, const Variable& w, const Variable& bias, const Conv1dParams& p) {
  check_sequences("conv1d", x, w, "(K, R, C / groups)", 2, p.groups);
  const std::int64_t reach = p.dilation * (w.dim(1) - 1) + 1;
  check<ShapeError>(p.dilation < 1 || p.padding < 0 || x.dim(1) + 2 * p.padding >= reach,
                    "{}: wanted sequences at least as long as the filters, got x {} and w {} with padding {} and "
                    "dilation {}",
                    where("conv1d"), x.shape(), w.shape(), p.padding, p.dilation);
  const Variable images = as_image(x), filters = as_image(w);
  return as_sequence(
      conv2d(images, filters, bias,
             {.stride = {1, p.stride}, .padding = {0, p.padding}, .dilation = {1, p.dilation}, .groups = p.groups}));
}

Variable conv_transpose1d(const Variable& x, const Variable& w, const Variable& bias, const ConvTranspose1dParams& p) {
  check_sequences("conv_transpose1d", x, w, "(C, R, K / groups)", 0, 1);
  const Variable images = as_image(x), filters = as_image(w);
  return as_sequence(conv_transpose2d(images, filters, bias,
                                      {.stride = {1, p.stride},
                                       .padding = {0, p.padding},
                                       .output_padding = {0, p.output_padding},
                                       .dilation = {1, p.dilation},
                                       .groups = p.groups}));
}

}  // namespace binade
