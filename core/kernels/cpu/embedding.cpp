#include <algorithm>
#include <cstring>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/faults.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

/// The positions of the tokens, sorted by index and then by position. Row r of the table is looked up by the tokens at
/// positions tokens[begin[r]] up to tokens[begin[r + 1] - 1].
struct Lookups {
  std::vector<std::int64_t> begin, tokens;
};

Lookups group_lookups(const EmbeddingGradientArgs& a) {
  Lookups result{std::vector<std::int64_t>(static_cast<std::size_t>(a.rows) + 2, 0),
                 std::vector<std::int64_t>(static_cast<std::size_t>(a.count))};
  // next[row] is the position in `tokens` for the row's next token. In the end it is begin[row + 1].
  std::int64_t* next = result.begin.data() + 1;
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::int64_t index = a.indices[i];
    // Checked again, because the indices may be memory of the user, who can write to it after forward.
    if (index < 0 || index >= a.rows) [[unlikely]]
      throw DataError(fmt::format(
          "embedding: wanted indices in [0, {}) in backward as in forward, got {} at element {}", a.rows, index, i));
    ++next[index + 1];
  }
  for (std::int64_t row = 0; row < a.rows; ++row) next[row + 1] += next[row];
  for (std::int64_t i = 0; i < a.count; ++i) result.tokens[static_cast<std::size_t>(next[a.indices[i]]++)] = i;
  return result;
}

}  // namespace

void run_embedding_rows(const EmbeddingRowsArgs& a) {
  for (std::int64_t i = 0; i < a.count; ++i)
    if (a.indices[i] < 0 || a.indices[i] >= a.rows) [[unlikely]]
      throw DataError(describe({.call = a.call, .position = i, .value = a.indices[i]}));
  const std::size_t bytes = static_cast<std::size_t>(a.cols) * size_of(a.weight.dtype);
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / std::max<std::int64_t>(1, a.cols));
  parallel_for(a.cols == 0 ? 0 : a.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(a.y.at(i * a.cols).data, a.weight.at(a.indices[i] * a.pitch).data, bytes);
  });
}

void run_embedding_gradient(const EmbeddingGradientArgs& a) {
  check<DTypeError>(a.gw.dtype == accumulate_dtype(a.gy.dtype),
                    "embedding: a gradient of {} is summed in {}, not in {}", name_of(a.gy.dtype),
                    name_of(accumulate_dtype(a.gy.dtype)), name_of(a.gw.dtype));
  const Lookups lookups = group_lookups(a);
  level().embedding.gradient(a, lookups.begin.data(), lookups.tokens.data());
}

}  // namespace binade::cpu
