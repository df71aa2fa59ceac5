#include "binade/cuda/device/attention.cuh"
#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/products.cuh"

/// Attention by a library. The library's kernels record no observed maxima, so a kernel of Binade reads the results
/// again to record them.
namespace binade::cuda {
namespace {

/// Observes rows of `columns` contiguous elements, `pitch` elements apart.
void observe(const void* data, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
  if (data == nullptr) return;
  const Finish at{.y = {const_cast<void*>(data), dtype}, .row = pitch, .batch = {}, .words = context().amax_words};
  observe_products(at, 1, rows, columns);
}

}  // namespace

bool attention_by_library(const AttentionForward& f) {
  const AttentionArgs& a = f.args;
  const bool heads_adjacent = f.y_head == a.depth, tokens_adjacent = f.y_token == a.heads * f.y_head;
  if (!(heads_adjacent || tokens_adjacent) || !library_attention(f)) return false;
  const std::int64_t tokens = a.batch * a.queries;
  if (heads_adjacent)
    observe(f.y, a.dtype, tokens, a.heads * a.depth, f.y_token);
  else
    observe(f.y, a.dtype, tokens * a.heads, a.depth, f.y_head);
  return true;
}

bool attention_by_library(const AttentionBackward& b) {
  const AttentionArgs& a = b.args;
  for (const AttentionBackward::Gradient& g : {b.gq, b.gk, b.gv})
    if (g.data != nullptr && g.head != a.depth) return false;
  if (!library_attention(b)) return false;
  observe(b.gq.data, a.dtype, a.batch * a.queries, a.heads * a.depth, b.gq.token);
  observe(b.gk.data, a.dtype, a.batch * a.keys, a.key_heads * a.depth, b.gk.token);
  observe(b.gv.data, a.dtype, a.batch * a.keys, a.key_heads * a.depth, b.gv.token);
  return true;
}

}  // namespace binade::cuda
