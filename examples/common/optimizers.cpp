#include "examples/common/optimizers.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace binade::examples {
namespace {

using Flags = const TrainSettings&;
using Made = std::unique_ptr<optim::Optimizer>;

struct Choice {
  const char* name;
  Made (*make)(nn::Module& model, Flags s);
};

/// Makes an optimizer, with the options that all optimizers with Adam's moments have.
template <class Optimizer, class Options>
Made with_moments(nn::Module& model, Flags s, Options o) {
  o.lr = s.lr, o.beta1 = s.beta1, o.beta2 = s.beta2, o.weight_decay = s.weight_decay;
  if constexpr (requires { o.eps; }) o.eps = s.eps;
  return std::make_unique<Optimizer>(model, o);
}

constexpr Choice kChoices[] = {
    {"sgd",
     [](nn::Module& model, Flags s) -> Made {
       return std::make_unique<optim::Sgd>(
           model, optim::SgdOptions{.lr = s.lr, .momentum = s.momentum, .weight_decay = s.weight_decay});
     }},
    {"rmsprop",
     [](nn::Module& model, Flags s) -> Made {
       return std::make_unique<optim::Rmsprop>(
           model, optim::RmspropOptions{.lr = s.lr, .eps = s.eps, .weight_decay = s.weight_decay});
     }},
    {"adagrad",
     [](nn::Module& model, Flags s) -> Made {
       return std::make_unique<optim::Adagrad>(
           model, optim::AdagradOptions{.lr = s.lr, .weight_decay = s.weight_decay, .eps = s.eps});
     }},
    {"adam", [](nn::Module& model, Flags s) { return with_moments<optim::Adam>(model, s, optim::AdamOptions{}); }},
    {"adamw", [](nn::Module& model, Flags s) { return with_moments<optim::AdamW>(model, s, optim::AdamWOptions{}); }},
    {"nadam",
     [](nn::Module& model, Flags s) {
       return with_moments<optim::NAdam>(model, s, optim::NAdamOptions{.decoupled_weight_decay = true});
     }},
    {"radam",
     [](nn::Module& model, Flags s) {
       return with_moments<optim::RAdam>(model, s, optim::RAdamOptions{.decoupled_weight_decay = true});
     }},
    {"lion", [](nn::Module& model, Flags s) { return with_moments<optim::Lion>(model, s, optim::LionOptions{}); }},
    {"lamb", [](nn::Module& model, Flags s) { return with_moments<optim::Lamb>(model, s, optim::LambOptions{}); }},
    {"adafactor",
     [](nn::Module& model, Flags s) -> Made {
       return std::make_unique<optim::Adafactor>(model,
                                                 optim::AdafactorOptions{.lr = s.lr, .weight_decay = s.weight_decay});
     }},
    // Scales steps to the length of AdamW's, so that --lr suits both matrices and vectors.
    {"muon",
     [](nn::Module& model, Flags s) {
       return with_moments<optim::Muon>(model, s,
                                        optim::MuonOptions{.scale = optim::MuonScale::kLikeAdamW, .adamw_lr = s.lr});
     }},
    {"schedule-free",
     [](nn::Module& model, Flags s) {
       return with_moments<optim::ScheduleFreeAdamW>(model, s, optim::ScheduleFreeAdamWOptions{.warmup = s.warmup});
     }},
};

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Choice& choice : kChoices) names.emplace_back(choice.name);
  return names;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainSettings& s, nn::Module& model) {
  const auto chosen = std::ranges::find(kChoices, s.optimizer, [](const Choice& choice) { return choice.name; });
  check<ArgumentError>(chosen != std::end(kChoices), "--optimizer: wanted one of {}, got '{}'",
                       fmt::join(optimizer_names(), ", "), s.optimizer);
  return chosen->make(model, s);
}

}  // namespace binade::examples
