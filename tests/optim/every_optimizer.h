#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "binade/optim/adafactor.h"
#include "binade/optim/adagrad.h"
#include "binade/optim/adam.h"
#include "binade/optim/adam_variants.h"
#include "binade/optim/lamb.h"
#include "binade/optim/lion.h"
#include "binade/optim/muon.h"
#include "binade/optim/rmsprop.h"
#include "binade/optim/rprop.h"
#include "binade/optim/schedule_free.h"
#include "binade/optim/sgd.h"

/// All optimizers of Binade that a Trainer accepts, for tests of their common guarantees.
namespace binade::optim {

struct NamedMaker {
  std::string name;
  double lr;
  std::function<std::unique_ptr<Optimizer>(std::vector<NamedParameter>, bool maximize)> make;
  bool fused = true;    ///< the update kernel computes its rule, so that it supports device decisions
  bool bounded = true;  ///< its update bound proves that updates by gradients around 1 are finite
};

template <class O, class Options>
NamedMaker maker(std::string name, Options options, bool fused = true) {
  return {std::move(name), options.lr,
          [options](std::vector<NamedParameter> p, bool maximize) -> std::unique_ptr<Optimizer> {
            Options o = options;
            o.maximize = maximize;
            return std::make_unique<O>(std::move(p), o);
          },
          fused};
}

inline std::vector<NamedMaker> every_optimizer() {
  return {
      maker<Sgd>("sgd", SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1}),
      maker<Adam>("adam", AdamOptions{.lr = 0.01, .weight_decay = 0.1}),
      maker<Adam>("adam, amsgrad", AdamOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true}),
      maker<AdamW>("adamw", AdamWOptions{.lr = 0.01, .weight_decay = 0.1}),
      maker<AdamW>("adamw, amsgrad", AdamWOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true}),
      maker<Lion>("lion", LionOptions{.lr = 1e-3, .weight_decay = 0.1}),
      maker<Rmsprop>("rmsprop", RmspropOptions{.lr = 0.01, .weight_decay = 0.1}),
      maker<Rmsprop>("rmsprop, momentum", RmspropOptions{.lr = 0.01, .weight_decay = 0.1, .momentum = 0.9}),
      maker<Rmsprop>("rmsprop, centered", RmspropOptions{.lr = 0.01, .eps = 1e-2, .centered = true}),
      maker<Rmsprop>("rmsprop, both", RmspropOptions{.lr = 0.01, .eps = 1e-2, .momentum = 0.9, .centered = true}),
      maker<Adagrad>("adagrad", AdagradOptions{.lr = 0.05, .lr_decay = 0.1, .initial_accumulator_value = 0.1}),
      maker<Adadelta>("adadelta", AdadeltaOptions{.lr = 1, .weight_decay = 0.1}),
      maker<Adamax>("adamax", AdamaxOptions{.lr = 0.01, .weight_decay = 0.1}),
      maker<NAdam>("nadam", NAdamOptions{.lr = 0.01, .weight_decay = 0.1}),
      maker<RAdam>("radam", RAdamOptions{.lr = 0.01, .beta2 = 0.9, .decoupled_weight_decay = true}),
      maker<Rprop>("rprop", RpropOptions{.lr = 0.01}),
      maker<Asgd>("asgd", AsgdOptions{.lr = 0.05, .t0 = 2, .weight_decay = 0.1}),
      maker<ScheduleFreeAdamW>("schedule-free adamw",
                               ScheduleFreeAdamWOptions{.lr = 0.02, .weight_decay = 0.1, .warmup = 3}),
      maker<Adafactor>("adafactor", AdafactorOptions{.lr = 0.05, .weight_decay = 0.1}, false),
      maker<Muon>("muon", MuonOptions{.lr = 0.02, .products = DType::f32}, false),
      maker<Lamb>("lamb", LambOptions{.lr = 0.02, .weight_decay = 0.1}, false),
      maker<Lars>("lars", LarsOptions{.lr = 0.5, .trust = 0.02}, false),
  };
}

}  // namespace binade::optim
