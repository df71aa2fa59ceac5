#include "binade/cuda/device/attention_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace binade::cuda {
namespace {

constexpr std::int64_t kVector = 8;  ///< halves in the 16 bytes that an engine reads at a time
constexpr std::int64_t kMostDepth = 128;
/// cuDNN's attention is used from 9.15.1 up to, but not including, 9.21. Earlier versions, such as 9.10.0 and 9.14.0,
/// give wrong results. Later ones recognize softmax only as a single operation, which the headers of 9.19 lack.
constexpr std::size_t kFirstVersion = 91501, kEndOfVersions = 92100;

AttentionKey::Steps steps_of(const AttentionArgs::Tokens& x) { return {x.token, x.head}; }

/// Returns the strides of a gradient. If the caller does not want the gradient, cuDNN still writes it, to contiguous
/// workspace.
AttentionKey::Steps steps_of(const AttentionBackward::Gradient& g, std::int64_t heads, std::int64_t depth) {
  if (g.data == nullptr) return {heads * depth, depth};
  return {g.token, g.head};
}

AttentionKey key_of(const AttentionArgs& a, AttentionPass pass) {
  return {.pass = pass,
          .dtype = a.dtype,
          .batch = a.batch,
          .queries = a.queries,
          .keys = a.keys,
          .heads = a.heads,
          .key_heads = a.key_heads,
          .depth = a.depth,
          .causal = a.causal,
          .q = steps_of(a.q),
          .k = steps_of(a.k),
          .v = steps_of(a.v),
          .mask = a.mask != nullptr,
          .dropout = a.dropout > 0};
}

bool all_aligned(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(), [](const void* at) { return alignment_of(at) == 16; });
}
bool in_vectors(std::initializer_list<AttentionKey::Steps> all) {
  return std::all_of(all.begin(), all.end(), [](const AttentionKey::Steps& steps) {
    return steps.token % kVector == 0 && steps.head % kVector == 0;
  });
}

/// Returns the bytes of workspace that backward needs for one sample: the gradients of its logits, and those of keys
/// and values before they are summed over the heads that share them. Engines compute tiles of 64 x 64.
double bytes_of_a_sample(const AttentionKey& key) {
  const auto padded = [](std::int64_t n) { return 64 * std::ceil(static_cast<double>(n) / 64); };
  const auto heads = static_cast<double>(key.heads);
  const double logits = padded(key.queries) * padded(key.keys);
  const double keys = static_cast<double>(key.keys) * static_cast<double>(key.depth);
  return 2 * heads * (logits + (key.heads == key.key_heads ? 0 : 2 * keys));
}

/// Returns the known defect of cuDNN's kernels (up to 9.25 on Hopper) that affects a key; empty if there is none.
std::string known_fault_of(const AttentionKey& key) {
  constexpr std::int64_t kTile = 128;
  if (key.pass != AttentionPass::kBackward) return {};
  const std::int64_t rest = key.keys % kTile;
  if (!key.causal && rest > 0 && rest <= kTile / 2)
    return "cuDNN's backward pass can give NaN if at most 64 keys are left for the last tile of 128 "
           "(github.com/NVIDIA/cudnn-frontend/issues/628)";
  if (key.queries == 1)
    return "cuDNN's backward pass can give NaN for a single query (github.com/NVIDIA/cudnn-frontend/issues/1072)";
  return {};
}

}  // namespace

std::array<std::int64_t, AttentionKey::kNumbers> AttentionKey::numbers() const {
  return numbers_of(pass, dtype, batch, queries, keys, heads, key_heads, depth, causal, q.token, q.head, k.token,
                    k.head, v.token, v.head, y.token, y.head, gy.token, gy.head, gq.token, gq.head, gk.token, gk.head,
                    gv.token, gv.head, mask, dropout, aligned);
}

std::string AttentionKey::text() const {
  return fmt::format(
      "{} {} {} batch {} queries {} keys {} heads {} {} depth {} causal {:d} q {} {} k {} {} v {} {} y {} {} gy {} {} "
      "gq {} {} gk {} {} gv {} {} mask {:d} dropout {:d} aligned {:d}",
      kAttentionFamily, pass == AttentionPass::kForward ? "forward" : "backward", name_of(dtype), batch, queries, keys,
      heads, key_heads, depth, causal, q.token, q.head, k.token, k.head, v.token, v.head, y.token, y.head, gy.token,
      gy.head, gq.token, gq.head, gk.token, gk.head, gv.token, gv.head, mask, dropout, aligned);
}

AttentionKey attention_key(const AttentionForward& call) {
  const AttentionArgs& a = call.args;
  AttentionKey key = key_of(a, AttentionPass::kForward);
  key.y = {call.y_token, call.y_head};
  key.aligned = all_aligned({a.q.data, a.k.data, a.v.data, call.y, call.lse});
  return key;
}

AttentionKey attention_key(const AttentionBackward& call) {
  const AttentionArgs& a = call.args;
  AttentionKey key = key_of(a, AttentionPass::kBackward);
  key.y = steps_of(call.y);
  key.gy = steps_of(call.gy);
  key.gq = steps_of(call.gq, a.heads, a.depth);
  key.gk = steps_of(call.gk, a.key_heads, a.depth);
  key.gv = steps_of(call.gv, a.key_heads, a.depth);
  key.aligned = all_aligned(
      {a.q.data, a.k.data, a.v.data, call.y.data, call.gy.data, call.lse, call.gq.data, call.gk.data, call.gv.data});
  return key;
}

std::string no_library_for(const AttentionKey& key, std::size_t version, int architecture) {
  if (version < kFirstVersion) return "cuDNN before 9.15.1 computes some sizes wrongly";
  if (version >= kEndOfVersions) return "the attention graph of this cuDNN version is unknown";
  // cuDNN has engines for other architectures too, but there a deterministic backward needs another graph.
  if (architecture != 9) return "cuDNN's attention is used on Hopper only";
  if (!is_half(key.dtype)) return "cuDNN's attention is for halves";
  if (key.mask) return "it has a mask, which is not passed to cuDNN";
  if (key.dropout) return "it has dropout, for which cuDNN has another random stream";
  if (key.depth % kVector != 0 || key.depth > kMostDepth) return "its depth is not a multiple of 8 up to 128";
  if (key.batch * key.heads * key.queries * key.keys == 0) return "it has no elements";
  if (key.causal && key.keys < key.queries) return "its first queries have no visible key";
  if (!key.aligned || !in_vectors({key.q, key.k, key.v, key.y, key.gy, key.gq, key.gk, key.gv}))
    return "its vectors are not aligned to 16 bytes";
  return known_fault_of(key);
}

AttentionKey at_once(const AttentionKey& key, std::int64_t most_workspace) {
  AttentionKey part = key;
  if (key.pass == AttentionPass::kForward || key.batch < 1) return part;
  constexpr double kRest = 4096;  // bytes of workspace for all other purposes
  const double fit = (static_cast<double>(most_workspace) - kRest) / bytes_of_a_sample(key);
  if (!(fit < static_cast<double>(key.batch))) return part;
  const std::int64_t rows = key.heads * key.queries;
  for (part.batch = std::max<std::int64_t>(1, static_cast<std::int64_t>(fit)); part.batch > 0; --part.batch)
    // The log-sum-exp of the next part must begin at a multiple of 16 bytes too.
    if (key.batch % part.batch == 0 && rows * part.batch % 4 == 0) return part;
  return key;
}

}  // namespace binade::cuda
