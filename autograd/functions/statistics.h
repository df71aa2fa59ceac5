#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/scan.h"

/// Statistics: sums that leave out NaN, quantiles, the most frequent element, moments, covariances, histograms.
/// Negative axes count from the end.
namespace binade {

/// sum() and mean() of the elements other than NaN; the mean of none is NaN.
Variable nansum(const Variable& x, Axes axes = {}, bool keepdim = false);
Variable nanmean(const Variable& x, Axes axes = {}, bool keepdim = false);
/// median() of the elements other than NaN; NaN if there are none.
Variable nanmedian(const Variable& x);
IndexedResult nanmedian(const Variable& x, int axis, bool keepdim = false);

/// What quantile() returns for a rank between two elements.
enum class Quantile {
  kLinear,    ///< the weighted mean of both
  kLower,     ///< the smaller one
  kHigher,    ///< the larger one
  kNearest,   ///< the nearer one; halfway, the element at an even position
  kMidpoint,  ///< the mean of both
};
/// Options of quantile() and nanquantile().
struct QuantileOptions {
  bool keepdim = false;
  Quantile between = Quantile::kLinear;
};
/// The element at rank q (n - 1), q in [0, 1], of the n elements along `axis` in ascending order; without an axis, of
/// all elements. Computed and stored in f32 (f64 for f64). quantile() of NaN is NaN; nanquantile() leaves NaN out.
Variable quantile(const Variable& x, double q, std::optional<int> axis = {}, const QuantileOptions& options = {});
Variable nanquantile(const Variable& x, double q, std::optional<int> axis = {}, const QuantileOptions& options = {});
/// The same for several q, along a new first axis.
Variable quantile(const Variable& x, const std::vector<double>& q, std::optional<int> axis = {},
                  const QuantileOptions& options = {});
Variable nanquantile(const Variable& x, const std::vector<double>& q, std::optional<int> axis = {},
                     const QuantileOptions& options = {});

/// The most frequent element along `axis` (the smallest of several) and its last position. A NaN equals no other NaN,
/// so it is the result only if the whole row is NaN.
IndexedResult mode(const Variable& x, int axis = -1, bool keepdim = false);

/// The smallest and the largest element: min() and max().
struct MinMaxResult {
  Variable min{}, max{};
};
MinMaxResult aminmax(const Variable& x, Axes axes = {}, bool keepdim = false);
/// var() or stddev(), and mean().
struct SpreadResult {
  Variable spread{}, mean{};
};
SpreadResult var_mean(const Variable& x, Axes axes = {}, double correction = 1, bool keepdim = false);
SpreadResult std_mean(const Variable& x, Axes axes = {}, double correction = 1, bool keepdim = false);

/// Options of cov().
struct CovOptions {
  double correction = 1;   ///< 1: divided by n - 1, 0: by n
  Variable frequencies{};  ///< how often each observation counts (n), whole numbers; undefined: once
  Variable weights{};      ///< the weight of each observation (n); undefined: 1
};
/// The covariances of the rows of x (variables, observations), or the variance of x (observations). Computed and stored
/// in f32 (f64 for f64). NaN if there are not more observations than the correction.
Variable cov(const Variable& x, const CovOptions& options = {});
/// The correlations of the rows of x: cov() divided by both standard deviations, within [-1, 1].
Variable corrcoef(const Variable& x);

/// Counts of elements in bins, or the sums of their weights, and the bins' edges.
struct HistogramResult {
  Variable counts{}, edges{};
};
/// Options of histogram().
struct HistogramOptions {
  double low = 0, high = 0;  ///< range of the bins; both 0: from the smallest to the largest element
  Variable weights{};        ///< of each element, of the shape of x; undefined: 1
  bool density = false;      ///< true: divided by the total and by the width of each bin
};
/// Counts the elements of x (floating) in `bins` bins of equal width, or between `edges` in ascending order. A bin
/// contains its lower edge, the last bin both edges; elements outside, and NaN, are left out. Counts are f32 (f64 for
/// f64), without a gradient. Waits for a GPU.
HistogramResult histogram(const Variable& x, std::int64_t bins, const HistogramOptions& options = {});
HistogramResult histogram(const Variable& x, const Variable& edges, const HistogramOptions& options = {});

}  // namespace binade
