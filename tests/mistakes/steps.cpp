#include "tests/mistakes/mistakes.h"

namespace binade::mistakes {
namespace {

using amp::Policy;

struct Gan {
  Runtime runtime{{.seed = 1, .threads = 1}};
  Net maker{}, critic{};
  optim::Adam maker_optimizer{maker}, critic_optimizer{critic};
};

}  // namespace

Subject steps() {
  return {
      "Steps of a Trainer",
      {
          {"the closure returns a loss per sample",
           {"trainer: the closure must return a loss of one element", "(8, 3)", "average it over the batch"},
           [] {
             Training<> t;
             t.trainer.step(batch(), [&](const Batch& b) { return t.model(b.x); });
           }},
          {"the closure returns an undefined variable",
           {"trainer: the closure returned an undefined Variable", "return the loss"},
           [] {
             Training<> t;
             t.trainer.step(batch(), [&](const Batch&) { return Variable(); });
           }},
          {"a step without a micro-batch",
           {"trainer: a step", "at least one micro-batch, got 0"},
           [] {
             Training<> t;
             t.trainer.step(amp::MicroBatches<Batch>{}, loss_of(t.model));
           }},
          {"clipping by norm and by value at once",
           {"trainer: clip_norm, clip_value and clip_adaptive are alternatives", "set one"},
           [] { Training<>({.clip_norm = 1, .clip_value = 1}); }},
          {"a negative clip bound", {"trainer", "clip bounds >= 0", "-1"}, [] { Training<>({.clip_norm = -1}); }},
          {"0 micro-batches per step", {"trainer", "accumulate >= 1", "0"}, [] { Training<>({.accumulate = 0}); }},
          {"more steps ahead than there may be", {"trainer", "steps ahead", "100"}, [] { Training<>({.ahead = 100}); }},
          {"a loss scale of 0",
           {"loss scale", "initial scale", "0"},
           [] { Training<>({.loss_scale = amp::LossScaleOptions::fixed(0)}); }},
          {"a backoff factor above 1",
           {"loss scale", "backoff_factor in (0, 1)", "2"},
           [] { Training<>({.loss_scale = amp::LossScaleOptions{.backoff_factor = 2}}); }},
          {"a loss scale with a typo",
           {"loss scale", "dynamic, off or a number", "'dinamic'"},
           [] { amp::LossScaleOptions::parse("dinamic"); }},
          {"the closure throws a DataError",
           {"incident", "my own error", "skipped"},
           [] {
             Training<> t;
             tell(t.trainer.step(batch(), [&](const Batch&) -> Variable { throw DataError("my own error"); }));
           }},
          {"two callbacks with one name",
           {"trainer: two callbacks are called 'mine'", "give each its own name"},
           [] {
             struct Mine : amp::Callback {
               std::string name() const override { return "mine"; }
             } a, b;
             Training<> t;
             t.trainer.add_callback(a);
             t.trainer.add_callback(b);
           }},
          {"a callback whose name has a space",
           {"trainer", "without spaces and slashes", "'my callback'"},
           [] {
             struct Mine : amp::Callback {
               std::string name() const override { return "my callback"; }
             } a;
             Training<> t;
             t.trainer.add_callback(a);
           }},
          {"a layer behind `detach()`",
           {"warning `untrained parameters`", "first.weight", "detach()"},
           [] {
             Training<> t;
             for (int i = 0; i < 110; ++i)
               tell(t.trainer.step(batch(), [&](const Batch& b) {
                 return nn::cross_entropy(t.model.head(relu(t.model.first(b.x)).detach()), b.y);
               }));
           }},
          {"a layer that forward does not call",
           {"warning `untrained parameters`", "never called", "remove it from the model"},
           [] {
             struct Unused : nn::Module {
               nn::Linear head{{.in = 4, .out = 3}}, extra{{.in = 4, .out = 3}};
               void visit(nn::Visitor& v) override {
                 v("head", head);
                 v("extra", extra);
               }
               Variable forward(const Variable& x) override { return head(x); }
             };
             Training<Unused> t;
             for (int i = 0; i < 110; ++i) tell(t.step());
           }},
          {"dead ReLUs",
           {"warning `untrained parameters`", "first.weight", "dead ReLUs"},
           [] {
             Training<> t;
             t.model.first.bias.mutable_value().fill(-100);
             for (int i = 0; i < 110; ++i) tell(t.step());
           }},
      },
  };
}

Subject numbers() {
  return {
      "Numbers",
      {
          {"a NaN in the data",
           {"incident", "first", "sample", "bad-input"},
           [] {
             Training<> t;
             t.step();
             Batch b = batch();
             b.x.mutable_data<float>()[5] = std::nanf("");
             tell(t.step(b));
           }},
          {"log of 0",
           {"incident", "log", "loss"},
           [] {
             Training<> t;
             const auto loss = [&](const Batch& b) { return mean(log(relu(t.model(b.x)))) * -1.0; };
             tell(t.trainer.step(batch(), loss));
           }},
          {"a division by 0",
           {"incident", "div"},
           [] {
             Training<> t;
             tell(t.trainer.step(batch(), [&](const Batch& b) {
               return nn::cross_entropy(t.model(b.x) / Variable(Tensor::zeros({8, 3})), b.y);
             }));
           }},
          {"the square root of a negative number",
           {"incident", "sqrt"},
           [] {
             Training<> t;
             tell(t.trainer.step(batch(), [&](const Batch& b) { return mean(sqrt(t.model(b.x))); }));
           }},
          {"activations beyond the range of f16",
           {"incident", "head", "f32"},
           [] {
             Training<> t({.precision = Policy::fp16()});
             t.model.head.weight.mutable_value().fill(60000);
             tell(t.step());
           }},
          {"stop at the first NaN",
           {"step 1", "nan"},
           [] {
             Training<> t({.on_nan = amp::OnNan::kStop});
             Batch b = batch();
             b.x.mutable_data<float>()[5] = std::nanf("");
             t.step(b);
           }},
          {"weights that are NaN already",
           {"weights are not finite in head.weight", "load a checkpoint", "nothing was committed"},
           [] {
             Training<> t;
             t.step();
             t.model.head.weight.mutable_value().fill(std::nan(""));
             tell(t.step());
           }},
          {"`bce` of a sigmoid in 16 bits",
           {"bce", "bce_with_logits"},
           [] {
             const PolicyScope policy(Policy::fp16());
             nn::bce(sigmoid(linear(leaf({3, 2}), leaf({1, 2}))), Variable(Tensor::zeros({3, 1})));
           }},
      },
  };
}

Subject losses() {
  return {
      "Losses and labels",
      {
          {"a label that is no class",
           {"cross_entropy [loss]", "from 0 to 2", "got 7"},
           [] {
             nn::cross_entropy(leaf({2, 3}), Variable(Tensor::from(std::vector<std::int32_t>{1, 7}, Shape{2})));
           }},
          {"labels that count from 1",
           {"cross_entropy", "3", "ignore_index"},
           [] {
             nn::cross_entropy(leaf({3, 3}), Variable(Tensor::from(std::vector<std::int32_t>{1, 2, 3}, Shape{3})));
           }},
          {"a negative label",
           {"cross_entropy", "-1", "ignore_index"},
           [] {
             nn::cross_entropy(leaf({2, 3}), Variable(Tensor::from(std::vector<std::int32_t>{0, -1}, Shape{2})));
           }},
          {"labels as one-hot vectors",
           {"cross_entropy", "targets (...)", "(2, 3)"},
           [] {
             nn::cross_entropy(leaf({2, 3}), Variable(labels({2, 3}, 3)));
           }},
          {"labels as floats",
           {"cross_entropy", "targets", "f32"},
           [] {
             nn::cross_entropy(leaf({2, 3}), Variable(normal({2})));
           }},
          {"more labels than predictions",
           {"cross_entropy", "(2, 3)", "(4)"},
           [] {
             nn::cross_entropy(leaf({2, 3}), Variable(labels({4}, 3)));
           }},
          {"all labels are ignored",
           {"incident", "cross_entropy"},
           [] {
             Training<> t;
             Batch b = batch();
             b.y.fill(-100);
             tell(t.step(b));
           }},
          {"label smoothing above 1",
           {"cross_entropy", "label_smoothing", "1.5"},
           [] {
             nn::cross_entropy(leaf({2, 3}), Variable(labels({2}, 3)), {.label_smoothing = 1.5});
           }},
          {"a regression target (N) for predictions (N, 1)",
           {"mse", "(4, 1)", "(4)"},
           [] {
             nn::mse(leaf({4, 1}), Variable(normal({4})));
           }},
          {"a huber delta of 0", {"huber", "delta", "0"}, [] { nn::huber(leaf({3}), Variable(normal({3})), 0); }},
          {"a token beyond the vocabulary",
           {"embedding", "9", "5"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::Embedding e({.count = 5, .dim = 2});
             e(Variable(Tensor::from(std::vector<std::int32_t>{1, 9}, Shape{2})));
           }},
          {"dice of masks of another size",
           {"dice", "(2, 8, 8, 1)", "(2, 4, 4, 1)"},
           [] {
             nn::dice(leaf({2, 8, 8, 1}), Variable(normal({2, 4, 4, 1})));
           }},
          {"a batch with a bad label in a step",
           {"incident", "cross_entropy", "sample"},
           [] {
             Training<> t;
             t.step();
             Batch b = batch();
             b.y.mutable_data<std::int32_t>()[3] = 99;
             tell(t.step(b));
           }},
      },
  };
}

Subject several_models() {
  return {
      "Several models and phases",
      {
          {"a phase names an optimizer that the trainer does not have",
           {"trainer: a phase trains an optimizer", "list it when you make the trainer"},
           [] {
             Gan g;
             amp::Trainer trainer(g.runtime, {{.name = "maker", .model = g.maker}},
                                  {{.name = "maker", .optimizer = g.maker_optimizer}});
             trainer.step(batch(), amp::Phases(amp::phase(g.critic_optimizer, loss_of(g.maker))));
           }},
          {"a phase lists an optimizer twice",
           {"trainer: a phase lists the optimizer adam twice", "list it once"},
           [] {
             Training<> t;
             t.trainer.step(batch(), amp::Phases(amp::phase({&t.optimizer, &t.optimizer}, loss_of(t.model))));
           }},
          {"two models with one name",
           {"trainer: two models are called 'net'", "give each its own name"},
           [] {
             Gan g;
             amp::Trainer trainer(g.runtime, {{.name = "net", .model = g.maker}, {.name = "net", .model = g.critic}},
                                  {{.name = "maker", .optimizer = g.maker_optimizer}});
           }},
          {"several models without names",
           {"trainer: wanted a name", "for each model"},
           [] {
             Gan g;
             amp::Trainer trainer(g.runtime, {{.model = g.maker}, {.model = g.critic}},
                                  {{.optimizer = g.maker_optimizer}});
           }},
          {"the phase of one model trains with the loss of another",
           {"depends on none of the 4 parameters", "(critic)"},
           [] {
             Gan g;
             amp::Trainer trainer(g.runtime,
                                  {{.name = "maker", .model = g.maker}, {.name = "critic", .model = g.critic}},
                                  {{.name = "maker", .optimizer = g.maker_optimizer},
                                   {.name = "critic", .optimizer = g.critic_optimizer}});
             trainer.step(batch(), amp::Phases(amp::phase(g.critic_optimizer, loss_of(g.maker))));
           }},
          {"a model is left out of the list of a trainer",
           {"adam", "no parameter of the model", "make it of the model that the trainer gets"},
           [] {
             Gan g;
             amp::Trainer trainer(g.runtime, {{.name = "maker", .model = g.maker}},
                                  {{.name = "maker", .optimizer = g.maker_optimizer},
                                   {.name = "critic", .optimizer = g.critic_optimizer}});
           }},
          {"a teacher of another shape than its student",
           {"teacher", "follows another model", "no trained parameter"},
           [] {
             Gan g;
             nn::Linear teacher({.in = 4, .out = 5});
             amp::Trainer trainer(g.runtime,
                                  {{.name = "student", .model = g.maker},
                                   {.name = "teacher", .model = teacher, .average_of = &g.maker}},
                                  {{.name = "student", .optimizer = g.maker_optimizer}});
           }},
          {"a trainer without an optimizer",
           {"trainer: wanted at least one optimizer", "got none"},
           [] {
             Gan g;
             amp::Trainer trainer(g.runtime, g.maker, std::vector<amp::NamedOptimizer>{});
           }},
      },
  };
}

Subject policies() {
  return {
      "Precision policies",
      {
          {"an override that matches no module",
           {"precision", "'haed'", "head"},
           [] {
             Training<> t({.precision = Policy::bf16().with("haed", DType::f32)});
             t.step();
           }},
          {"the name of a policy with a typo", {"bf61", "bf16"}, [] { Policy::by_name("bf61"); }},
          {"an override to an integer", {"override", "i32"}, [] { Policy::fp16().with("head", DType::i32); }},
          {"gradients underflow in f16 without a loss scale",
           {"warning `silent underflow`", "loss scale"},
           [] {
             Training<> t({.precision = Policy::fp16(), .loss_scale = amp::LossScaleOptions::off()});
             for (int i = 0; i < 210; ++i)
               tell(t.trainer.step(batch(), [&](const Batch& b) { return loss_of(t.model)(b) * 1e-8; }));
           }},
      },
  };
}

}  // namespace binade::mistakes
