#pragma once

#include <optional>
#include <set>

#include "binade/core/error.h"
#include "binade/optim/custom_optimizer.h"
#include "binade/optim/qk_clip.h"

namespace binade::optim {

/// The length of Muon's step of an (r, c) matrix, as a factor of the learning rate.
enum class MuonScale : std::uint8_t {
  kShape,      ///< sqrt(max(1, r / c)): Muon's own
  kLikeAdamW,  ///< 0.2 sqrt(max(r, c)): the root mean square of AdamW's steps, so that both share one learning rate
};

struct MuonOptions {
  double lr = 1e-3;           ///< of matrices
  double weight_decay = 0.1;  ///< decoupled from the gradient
  double momentum = 0.95;
  bool nesterov = true;
  MuonScale scale = MuonScale::kShape;
  std::int64_t iterations = 5;                ///< number of Newton-Schulz iterations
  double a = 3.4445, b = -4.775, c = 2.0315;  ///< each maps a singular value x to a x + b x^3 + c x^5
  double smallest_norm = 1e-7;                ///< a matrix is divided by its norm, or by this if that is smaller
  /// The dtype in which the products of the iterations are computed. Default: bf16 on a GPU and on a processor that
  /// multiplies bf16 in hardware, f32 on others
  std::optional<DType> products{};

  /// Matrices that step by AdamW like vectors. Default: tables of nn::Embedding, and parameters whose names say that
  /// they are an embedding or the head: see by_adamw()
  std::optional<ParameterMatch> adamw{};
  double adamw_lr = 3e-4;                        ///< rate of AdamW; a schedule scales it and lr alike
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  ///< of AdamW

  DecayFilter decays{};  ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024), as PyTorch defines it, with
/// AdamW for vectors, embeddings and the head. A weight of two or more dimensions is a
/// matrix (dimension 0, all others), or a vector if one of these two extents is 1, like WeightNorm's weight_g. A weight
/// matrix w with gradient g steps by its momentum after the singular values of the momentum were brought near 1:
///   m += (1 - momentum)(g - m);  n = nesterov ? g + momentum (m - g) : m;  w *= 1 - lr weight_decay;
///   x = n / max(|n|, smallest_norm);  `iterations` times: x = a x + (b x x^T + c (x x^T)^2) x;  w -= lr scale x.
/// Throws ArgumentError if no parameter is left that steps by Muon.
class Muon final : public CustomOptimizer {
 public:
  /// Recognizes embedding tables and the head, which step by AdamW, by name: "*embed*", "*tokens.weight",
  /// "*positions.weight", "*wte.weight" and "*wpe.weight"; "*head.weight" and "*classifier.weight".
  explicit Muon(std::vector<NamedParameter> parameters, const MuonOptions& options = {})
      : Muon(parameters, options, by_adamw_of(parameters, options, {})) {}
  /// Tables of nn::Embedding step by AdamW too, whatever their names.
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Muon(Model& model, const MuonOptions& options = {})
      : Muon(parameters_of(model), options, by_adamw_of(parameters_of(model), options, tables_of(model))) {}

  const MuonOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;
  /// True if the parameter of this name steps by AdamW.
  bool by_adamw(const std::string& name) const { return by_adamw_.contains(name); }

  /// Keeps the logits of an attention (nn::MultiHeadAttention) below `limit` (MuonClip, see QkClip). The attention must
  /// exist as long as the optimizer makes updates. Throws ArgumentError if it has rotary positions,
  /// because the logits are computed from the layers query and key alone.
  template <class Attention>
  void clip_logits(Attention& attention, double limit = 100) {
    const auto& o = attention.options();
    check<ArgumentError>(!o.rotary, "Muon::clip_logits: wanted an attention without rotary positions");
    clips_.push_back(QkClip::watching(
        attention.query, attention.key,
        {.query = o.heads, .key = o.kv_heads > 0 ? o.kv_heads : o.heads, .causal = o.causal, .limit = limit}));
  }
  /// Returns the clips, in the order of the calls of clip_logits().
  const std::vector<std::unique_ptr<QkClip>>& clips() const { return clips_; }

 protected:
  void update(ParameterUpdate& u) const override;

 private:
  using Names = std::set<std::string, std::less<>>;

  Muon(std::vector<NamedParameter> parameters, const MuonOptions& options, Names by_adamw);
  static Names by_adamw_of(const std::vector<NamedParameter>& parameters, const MuonOptions& options,
                           const std::set<const void*>& tables);
  template <class Model>
  static std::set<const void*> tables_of(Model& model) {
    std::set<const void*> tables;
    if constexpr (requires { named_modules(model); }) {
      for (const auto& [path, module] : named_modules(model))
        if (module->kind() == "Embedding" || module->kind() == "EmbeddingBag")
          for (const auto& [name, parameter] : named_parameters(*module)) tables.insert(parameter->state().get());
    }
    return tables;
  }
  Variable orthogonal(Variable x, const MuonOptions& options) const;
  void step_by_adamw(ParameterUpdate& u, const MuonOptions& options, double lr) const;
  void step_by_muon(ParameterUpdate& u, const MuonOptions& options) const;

  std::vector<MuonOptions> options_;  // one per class of groups()
  Names by_adamw_;
  DType products_;
  std::vector<std::unique_ptr<QkClip>> clips_;
};

}  // namespace binade::optim
