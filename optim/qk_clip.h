#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "binade/autograd/hooks.h"
#include "binade/autograd/variable.h"

namespace binade::optim {

/// QK-clip (Kimi team, "Kimi K2: open agentic intelligence", 2025): keeps the attention logits of each head below a
/// limit. If the largest logit S of a head in the forward pass is above the limit, the rows of query and key of that
/// head are multiplied by sqrt(limit / S) after the update. If query heads share a key head, the key gets the smallest
/// of their factors, and the other queries get larger factors in return.
///
/// A hook computes the logits of each forward pass in training mode, (B, heads, T, S) in f32, separately from the
/// attention. It includes keys that a mask other than `causal` hides. The last forward pass of each micro-batch of a
/// step counts; passes of an attempt that the Trainer aborted do not count.
class QkClip {
 public:
  struct Heads {
    std::int64_t query = 1, key = 1;  ///< numbers of heads
    bool causal = false;
    double limit = 100;
  };
  /// `query` and `key`: the parameters of the projections, weight (out, in) and, if any, bias (out).
  QkClip(const Heads& heads, std::vector<Variable> query, std::vector<Variable> key);
  ~QkClip();
  QkClip(const QkClip&) = delete;
  QkClip& operator=(const QkClip&) = delete;

  /// Adds the hooks to the layers query and key of an attention.
  template <class Layer>
  static std::unique_ptr<QkClip> watching(Layer& query, Layer& key, const Heads& heads) {
    auto clip = std::make_unique<QkClip>(heads, variables_of(query), variables_of(key));
    QkClip* const self = clip.get();
    clip->hooks_.push_back(query.register_forward_hook([self](auto& layer, const Variable&, const Variable& y) {
      if (layer.training()) self->see(self->query_, y.value());
    }));
    clip->hooks_.push_back(key.register_forward_hook([self](auto& layer, const Variable&, const Variable& y) {
      if (layer.training()) self->see(self->key_, y.value());
    }));
    return clip;
  }

  /// Returns the factors of the rows of a parameter, as a vector of one factor per row; undefined if the parameter
  /// belongs to neither query nor key, or no head is above the limit.
  Tensor factors_of(const Variable::State* parameter) const;
  /// Returns the largest logit of each head in the last step.
  std::vector<double> largest() const;

 private:
  template <class Layer>
  static std::vector<Variable> variables_of(Layer& layer) {
    std::vector<Variable> all;
    for (const auto& [name, parameter] : named_parameters(layer)) all.push_back(*parameter);
    return all;
  }
  /// Stores the output of one projection in `projection`, query_ or key_. Once both are known, computes the logits.
  void see(Tensor& projection, const Tensor& output);

  Heads heads_;
  std::vector<Variable> of_query_, of_key_;
  std::vector<HookHandle> hooks_;
  Tensor query_, key_;                                      // of the running forward pass, in any order
  std::uint64_t step_ = 0, attempt_ = 0;                    // of largest_
  std::map<std::uint32_t, std::vector<double>> largest_{};  // of each micro-batch, per head
};

}  // namespace binade::optim
