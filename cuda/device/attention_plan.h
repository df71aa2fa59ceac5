#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "binade/core/kernels/attention.h"
#include "binade/cuda/device/engine_choice.h"

/// The key by which the library plan of an attention is stored. It consists of plain values; this file includes no
/// header of a library.
namespace binade::cuda {

/// The direction that a plan computes.
enum class AttentionPass : int { kForward, kBackward };

/// Everything that the choice of an engine depends on; equal keys get equal engines. The scale of the logits is an
/// argument of the engine and not part of the key.
struct AttentionKey {
  /// Elements between tokens and between heads.
  struct Steps {
    std::int64_t token = 0, head = 0;
    bool operator==(const Steps&) const = default;
  };

  AttentionPass pass = AttentionPass::kForward;
  DType dtype = DType::bf16;
  std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, depth = 0;
  bool causal = false;
  Steps q{}, k{}, v{}, y{};      ///< queries, keys, values, result
  Steps gy{}, gq{}, gk{}, gv{};  ///< gradients of these; backward only
  bool mask = false;             ///< a mask is added to the logits
  bool dropout = false;          ///< some probabilities are dropped
  bool aligned = true;           ///< every vector is aligned to 16 bytes

  static constexpr int kNumbers = 28;  ///< number of members
  /// All members, in the order of text().
  std::array<std::int64_t, kNumbers> numbers() const;
  /// Returns "attention forward bf16 batch 8 queries 64 keys 64 heads 12 12 depth 64 causal 1 q 2304 64 ...", unique
  /// for each key.
  std::string text() const;
};
inline bool operator==(const AttentionKey& a, const AttentionKey& b) { return a.numbers() == b.numbers(); }

constexpr std::string_view kAttentionFamily = "attention";  ///< the first word of a key's text

/// The form of the graph that computes a key, which depends on the cuDNN version. There is one form: products, a
/// pointwise operation for each step of mask and softmax, and reductions.
enum AttentionForm : int { kComposed };
/// Number of values of AttentionForm.
constexpr int kAttentionForms = 1;

/// Return the key of a call.
AttentionKey attention_key(const AttentionForward& call);
AttentionKey attention_key(const AttentionBackward& call);

/// Returns why the library is not used for this attention; empty if it is. `version`: 10000 major + 100 minor + patch
/// of the loaded cuDNN; `architecture`: the device's major compute capability.
std::string no_library_for(const AttentionKey& key, std::size_t version, int architecture);

/// Returns `key` with its batch replaced by the number of samples to compute at once, a divisor of the batch. While it
/// runs, a deterministic backward holds the gradients of all logits of these samples in at most `most_workspace` bytes.
AttentionKey at_once(const AttentionKey& key, std::int64_t most_workspace);

}  // namespace binade::cuda
