#include <limits>

#include "binade/cuda/device/attention_graph.h"
#include "binade/cuda/device/cudnn_plans.cuh"

/// Attention by cuDNN.
namespace binade::cuda {
namespace {

std::string why_no_library(const AttentionKey& key) {
  return no_library_for(key, cudnnGetVersion(), context().capability / 10);
}

PlanCache<AttentionKey>& plans() {
  // Never destroyed: the CUDA driver may shut down before static objects are destroyed.
  static auto* only = new PlanCache<AttentionKey>({.what = "an attention",
                                                   .family = kAttentionFamily,
                                                   .forms = kAttentionForms,
                                                   .no_library = &why_no_library,
                                                   .propose = &propose_attention_engines,
                                                   .restore = &restore_attention_plan});
  return *only;
}

/// A tensor of the call, by the address of its first sample and the bytes between samples.
struct Tokens {
  AttentionTensor id;
  const void* data;
  std::int64_t bytes;
};

/// Computes the attention `whole`, in several parts of its batch if necessary. `tensors`: the tensors of the graph that
/// are in memory.
bool run(const AttentionKey& whole, double scale, const std::vector<Tokens>& tensors) {
  const AttentionKey key = at_once(whole, EngineTarget{}.most_workspace);
  return plans().with_plan(key, [&](const EnginePlan& plan) {
    const auto factor = static_cast<float>(scale);
    const float hidden = -std::numeric_limits<float>::infinity(), one = 1;
    const auto keys = static_cast<std::int32_t>(key.keys), queries = static_cast<std::int32_t>(key.queries);
    const PlanTensor numbers[] = {{kAttentionScale, &factor},
                                  {kAttentionHidden, &hidden},
                                  {kAttentionKeyCount, &keys},
                                  {kAttentionQueryCount, &queries},
                                  {kAttentionOne, &one}};
    for (std::int64_t first = 0; first < whole.batch; first += key.batch) {
      std::vector<PlanTensor> all;
      for (const Tokens& t : tensors) all.push_back({t.id, static_cast<const char*>(t.data) + first * t.bytes});
      for (const PlanTensor& number : numbers)
        if (has_tensor(key, static_cast<AttentionTensor>(number.id))) all.push_back(number);
      execute(plan, all, "an attention");
    }
  });
}

/// Makes the descriptions of a key's tensors: id, address, and bytes between samples.
struct Samples {
  const AttentionKey& key;
  std::int64_t half = 2;

  Tokens queries(AttentionTensor id, const void* data, const AttentionKey::Steps& steps) const {
    return {id, data, key.queries * steps.token * half};
  }
  Tokens keys(AttentionTensor id, const void* data, const AttentionKey::Steps& steps) const {
    return {id, data, key.keys * steps.token * half};
  }
  Tokens rows(AttentionTensor id, const void* data) const {
    return {id, data, key.heads * key.queries * static_cast<std::int64_t>(sizeof(float))};
  }
};

/// An output of cuDNN. If the caller does not want it, cuDNN writes it to workspace.
class OptionalOutput {
 public:
  OptionalOutput(void* wanted, std::int64_t bytes) : wanted_(wanted), buffer_(wanted != nullptr ? 0 : bytes) {}
  void* data() const { return wanted_ != nullptr ? wanted_ : buffer_.data(); }

 private:
  void* wanted_;
  Buffer<char> buffer_;
};

}  // namespace

bool library_attention(const AttentionForward& f) {
  const AttentionArgs& a = f.args;
  const AttentionKey key = attention_key(f);
  const Samples at{key};
  const OptionalOutput lse(f.lse, a.batch * at.rows(kAttentionLse, nullptr).bytes);
  return run(key, a.scale,
             {at.queries(kAttentionQ, a.q.data, key.q), at.keys(kAttentionK, a.k.data, key.k),
              at.keys(kAttentionV, a.v.data, key.v), at.queries(kAttentionY, f.y, key.y),
              at.rows(kAttentionLse, lse.data())});
}

bool library_attention(const AttentionBackward& b) {
  const AttentionArgs& a = b.args;
  const AttentionKey key = attention_key(b);
  if (!why_no_library(key).empty()) return run(key, a.scale, {});  // adds a note with the reason, and allocates nothing
  const Samples at{key};
  const OptionalOutput gq(b.gq.data, a.batch * at.queries(kAttentionGq, nullptr, key.gq).bytes);
  const OptionalOutput gk(b.gk.data, a.batch * at.keys(kAttentionGk, nullptr, key.gk).bytes);
  const OptionalOutput gv(b.gv.data, a.batch * at.keys(kAttentionGv, nullptr, key.gv).bytes);
  const Buffer<char> delta(a.batch * at.rows(kAttentionDelta, nullptr).bytes);
  return run(key, a.scale,
             {at.queries(kAttentionQ, a.q.data, key.q), at.keys(kAttentionK, a.k.data, key.k),
              at.keys(kAttentionV, a.v.data, key.v), at.queries(kAttentionY, b.y.data, key.y),
              at.rows(kAttentionLse, b.lse), at.queries(kAttentionGy, b.gy.data, key.gy),
              at.queries(kAttentionGq, gq.data(), key.gq), at.keys(kAttentionGk, gk.data(), key.gk),
              at.keys(kAttentionGv, gv.data(), key.gv), at.rows(kAttentionDelta, delta.data())});
}

void forget_attention_plans() { plans().forget(); }
std::string attention_plans() { return plans().text(); }
int use_attention_plans(const std::string& text) { return plans().use(text); }

}  // namespace binade::cuda
