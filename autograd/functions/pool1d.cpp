#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

using Pool2d = Variable (*)(const Variable&, const PoolOptions&);

Variable pooled(const char* name, const Variable& x, const Pool1dOptions& o, Pool2d pool) {
  check<ShapeError>(x.value().rank() == 3, "{}: wanted sequences (N, L, C), got {}", where(name), x.shape());
  const Variable y = pool(reshape(x, {x.dim(0), 1, x.dim(1), x.dim(2)}),
                          {.kernel = {1, o.kernel},
                           .stride = {1, o.stride == 0 ? o.kernel : o.stride},
                           .padding = {0, o.padding},
                           .count_include_pad = o.count_include_pad});
  return reshape(y, {y.dim(0), y.dim(2), y.dim(3)});
}

}  // namespace

Variable max_pool1d(const Variable& x, const Pool1dOptions& o) { return pooled("max_pool1d", x, o, max_pool2d); }
Variable avg_pool1d(const Variable& x, const Pool1dOptions& o) { return pooled("avg_pool1d", x, o, avg_pool2d); }

}  // namespace binade
