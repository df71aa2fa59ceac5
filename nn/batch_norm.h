#pragma once

#include "binade/core/ops/output_view.h"
#include "binade/nn/module.h"

namespace binade::nn {

class StatisticsLog;

/// Options of BatchNorm1d, BatchNorm2d and BatchNorm3d.
struct BatchNormOptions {
  std::int64_t channels = 0;
  double momentum = 0.1;  ///< weight of the batch in the running statistics
  double eps = 1e-5;
  bool relu = false;  ///< true if a ReLU is applied to the result in the same pass
};

/// Batch norm of x (N, …, channels): see ops::BatchNorm. Training normalizes with the statistics of the batch and
/// updates the running ones,
///
///   running = (1 - momentum) running + momentum batch
///
/// once per forward, but not when a segment is recomputed. `batch` is the mean or the unbiased variance: the variance
/// times n / (n - 1) for n values per channel. Inside a step transaction a shadow copy is updated, which is committed
/// or dropped with the step. Evaluation normalizes with the running statistics. Throws ShapeError for another rank.
class BatchNorm : public WeightedModule {
 public:
  void visit(Visitor& v) override;
  std::string kind() const override { return kind_; }
  Variable forward(const Variable& x) override { return forward(x, Variable(), {}); }
  /// Returns act(norm(x) + residual), computed in one pass, where act is ReLU if options().relu, else the identity. An
  /// undefined residual is left out. `into`: where the result is stored.
  Variable operator()(const Variable& x, const Variable& residual, const ops::OutputView& into = {});
  using Module::operator();

  double momentum() const { return options_.momentum; }
  double eps() const { return options_.eps; }

  Buffer running_mean, running_var;  ///< (channels), initially 0 and 1
  Buffer num_batches_tracked;        ///< number of batches that updated the statistics, an i64 scalar

 protected:
  /// A layer for inputs with `least_rank` to `most_rank` dimensions. `layout` describes them in error messages.
  BatchNorm(const char* kind, const char* layout, int least_rank, int most_rank, const BatchNormOptions& options);

 private:
  friend class StatisticsLog;
  Variable forward(const Variable& x, const Variable& residual, const ops::OutputView& into);
  void move_statistics(const Tensor& mean, const Tensor& var, std::int64_t count);

  const char *kind_, *layout_;
  int least_rank_, most_rank_;
  BatchNormOptions options_;
};

/// Batch norm of rows (N, channels) or sequences (N, L, channels).
struct BatchNorm1d : BatchNorm {
  explicit BatchNorm1d(const BatchNormOptions& options)
      : BatchNorm("BatchNorm1d", "(N, C) or (N, L, C)", 2, 3, options) {}
};
/// Batch norm of images (N, H, W, channels).
struct BatchNorm2d : BatchNorm {
  explicit BatchNorm2d(const BatchNormOptions& options) : BatchNorm("BatchNorm2d", "(N, H, W, C)", 4, 4, options) {}
};
/// Batch norm of volumes (N, D, H, W, channels).
struct BatchNorm3d : BatchNorm {
  explicit BatchNorm3d(const BatchNormOptions& options) : BatchNorm("BatchNorm3d", "(N, D, H, W, C)", 5, 5, options) {}
};

}  // namespace binade::nn
