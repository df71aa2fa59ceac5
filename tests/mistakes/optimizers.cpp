#include "tests/mistakes/mistakes.h"

namespace binade::mistakes {
namespace {

/// A model, an optimizer and a loop without a Trainer.
struct Loop {
  Runtime runtime{{.seed = 1, .threads = 1}};
  Net net{};
  optim::Adam optimizer{net, {.lr = 1e-2}};
  amp::LossScaler scaler{amp::LossScaleOptions::fixed(1024)};
  Variable loss() { return loss_of(net)(batch()); }
};

struct Growing : nn::Module {
  nn::Linear first{{.in = 4, .out = 3}};
  std::unique_ptr<nn::Linear> late;
  void visit(nn::Visitor& v) override {
    v("first", first);
    if (late) v("late", *late);
  }
  Variable forward(const Variable& x) override { return late ? (*late)(first(x)) : first(x); }
};

optim::Optimizer& stepped(Loop& loop) {
  loop.optimizer.step();
  return loop.optimizer;
}

}  // namespace

Subject loops() {
  return {
      "Loops without a Trainer",
      {
          {"`optimizer.step()` without backward",
           {"adam", "no gradient in any of its 4 parameters", "call backward(loss) before it"},
           [] {
             Loop loop;
             stepped(loop);
           }},
          {"`zero_grad()` between backward and step",
           {"adam", "no gradient", "zero_grad() only after it"},
           [] {
             Loop loop;
             backward(loop.loss());
             loop.optimizer.zero_grad();
             stepped(loop);
           }},
          {"the optimizer steps a model that the loss does not use",
           {"adam", "no gradient", "loss that depends on them"},
           [] {
             Loop loop;
             Net other;
             backward(loss_of(other)(batch()));
             stepped(loop);
           }},
          {"a NaN in the batch of a plain `optimizer.step()`",
           {"adam", "the gradient of", "nan", "nothing was changed"},
           [] {
             Loop loop;
             Batch b = batch();
             b.x.mutable_data<float>()[0] = std::nanf("");
             backward(loss_of(loop.net)(b));
             stepped(loop);
           }},
          {"an infinite gradient in a plain `optimizer.step()`",
           {"adam", "head.bias", "inf", "nothing was changed"},
           [] {
             Loop loop;
             backward(sum(loop.net.head.bias * std::numeric_limits<double>::infinity()));
             stepped(loop);
           }},
          {"a learning rate that overflows the weights",
           {"sgd", "the update would bring", "lower the learning rate"},
           [] {
             Runtime runtime({.threads = 1});
             Net net;
             optim::Sgd optimizer(net, {.lr = 1e6});
             backward(sum(net.head.bias * 1e36));
             optimizer.step();
           }},
          {"`scaler.backward(loss)` and then `optimizer.step()`",
           {"loss scale 1024", "does not divide by it", "scaler.step(optimizer)"},
           [] {
             Loop loop;
             loop.scaler.backward(loop.loss());
             stepped(loop);
           }},
          {"`backward(loss)` and then `scaler.step(optimizer)`",
           {"loss scaler: step() wants a backward() of this scaler", "step({&a, &b})"},
           [] {
             Loop loop;
             backward(loop.loss());
             loop.scaler.step(loop.optimizer);
           }},
          {"two optimizers of one loss, with a `scaler.step` for each",
           {"loss scaler", "step({&a, &b})"},
           [] {
             Runtime runtime({.threads = 1});
             Net net;
             optim::Adam a(net.first), b(net.head);
             amp::LossScaler scaler;
             scaler.backward(loss_of(net)(batch()));
             scaler.step(a);
             scaler.step(b);
           }},
          {"an optimizer is listed twice in `scaler.step`",
           {"loss scaler: step() got optimizer", "twice"},
           [] {
             Loop loop;
             loop.scaler.backward(loop.loss());
             loop.scaler.step({&loop.optimizer, &loop.optimizer});
           }},
          {"a loss scaler steps no optimizer",
           {"loss scaler", "at least one optimizer"},
           [] { amp::LossScaler().step(std::span<optim::Optimizer* const>{}, {}); }},
          {"a loss that is NaN in a loop with a loss scaler",
           {"loss scaler: the loss is nan", "nothing was changed"},
           [] {
             Loop loop;
             Batch b = batch();
             b.x.mutable_data<float>()[0] = std::nanf("");
             loop.scaler.backward(loss_of(loop.net)(b));
           }},
          {"a measured loss scale in a loop without a Trainer",
           {"loss scaler: a measured scale wants a Trainer", "dynamic()"},
           [] {
             Loop loop;
             amp::LossScaler scaler(amp::LossScaleOptions::measured());
             scaler.backward(loop.loss());
           }},
          {"a layer is added after the optimizer, in a loop without a Trainer",
           {"sgd", "late.weight", "no optimizer holds it", "make the optimizer after all layers"},
           [] {
             Runtime runtime({.threads = 1});
             Growing net;
             optim::Sgd optimizer(net, {.lr = 0.1});
             net.late = std::make_unique<nn::Linear>(nn::LinearOptions{.in = 3, .out = 3});
             nn::assign_paths(net);
             backward(loss_of(net)(batch()));
             optimizer.step();
           }},
          {"a part of the model has no optimizer, in a loop with a loss scaler",
           {"no optimizer holds it", "requires_grad(false)"},
           [] {
             Runtime runtime({.threads = 1});
             Net net;
             optim::Adam head(net.head);
             amp::LossScaler scaler;
             scaler.backward(loss_of(net)(batch()));
             scaler.step(head);
           }},
          {"the loss scale changes while gradients are accumulated",
           {"loss scaler: earlier gradients were computed at loss scale 1024", "call step() or zero_grad()"},
           [] {
             Loop loop;
             amp::LossScaler scaler(amp::LossScaleOptions::dynamic(1024));
             scaler.backward(loop.loss());
             scaler.overflowed();
             scaler.backward(loop.loss());
           }},
          {"`optimizer.step()` inside of an InferenceMode",
           {"Optimizer::step", "InferenceMode", "end it before the step"},
           [] {
             Loop loop;
             backward(loop.loss());
             const InferenceMode inference;
             stepped(loop);
           }},
          {"a transaction gets a null pointer",
           {"step transaction", "null pointer"},
           [] { amp::StepTransaction transaction({nullptr}, {}); }},
          {"a transaction gets an optimizer twice",
           {"step transaction", "listed twice"},
           [] {
             Loop loop;
             amp::StepTransaction transaction({&loop.net}, {&loop.optimizer, &loop.optimizer});
           }},
      },
  };
}

Subject optimizers() {
  static const auto with_groups = [](std::vector<optim::ParameterGroup> groups) {
    const Runtime runtime({.threads = 1});
    Net net;
    optim::AdamW optimizer(net, {.lr = 1e-3, .groups = std::move(groups)});
  };
  return {
      "Optimizers and groups",
      {
          {"a negative learning rate",
           {"adam", "lr in [0", "-0.1"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             optim::Adam optimizer(net, {.lr = -0.1});
           }},
          {"a learning rate that is NaN",
           {"sgd", "lr", "nan"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             optim::Sgd optimizer(net, {.lr = std::nan("")});
           }},
          {"beta2 of 1",
           {"adam", "beta2", "1)"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             optim::Adam optimizer(net, {.beta2 = 1});
           }},
          {"a negative weight decay",
           {"adamw", "weight_decay", "-1"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             optim::AdamW optimizer(net, {.weight_decay = -1});
           }},
          {"an eps that 16-bit moments round to 0",
           {"adam", "eps", "rounds to 0 in f16", "f32 moments"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             optim::Adam optimizer(net, {.moment_dtype = DType::f16});
           }},
          {"momentum above 1",
           {"sgd", "momentum", "1.5"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             optim::Sgd optimizer(net, {.lr = 0.1, .momentum = 1.5});
           }},
          {"Nesterov's momentum without momentum",
           {"sgd", "nesterov", "momentum"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             optim::Sgd optimizer(net, {.lr = 0.1, .nesterov = true});
           }},
          {"two parameters with one name in a list",
           {"optimizer: two parameters are called 'w'", "give each its own name"},
           [] {
             optim::Adam optimizer({{.name = "w", .variable = leaf({3})}, {.name = "w", .variable = leaf({3})}});
           }},
          {"a computed variable as a parameter",
           {"optimizer", "'y'", "wants no gradient"},
           [] { optim::Adam optimizer({{.name = "y", .variable = leaf({3}) * 2.0}}); }},
          {"a group that matches nothing",
           {"adamw: group 'heda.*' selects no parameter", "head"},
           [] { with_groups({{.match = "heda.*", .lr = 1e-2}}); }},
          {"a group with a learning rate and a factor",
           {"group", "lr", "lr_factor"},
           [] { with_groups({{.match = "head.*", .lr = 1e-2, .lr_factor = 2}}); }},
          {"a group sets momentum of an optimizer that has none",
           {"adamw", "momentum", "head.*"},
           [] { with_groups({{.match = "head.*", .momentum = 0.9}}); }},
          {"a group with weight decay for biases, which have none",
           {"*.bias", "weight_decay", "decays"},
           [] { with_groups({{.match = "*.bias", .weight_decay = 0.1}}); }},
          {"a group without a match", {"group", "match"}, [] { with_groups({{.lr = 1e-2}}); }},
          {"weight averages with a decay of 1",
           {"decay", "1"},
           [] { Training<>({.ema = optim::EmaOptions{.decay = 1}}); }},
      },
  };
}

Subject schedules() {
  using optim::Schedule;
  return {
      "Learning-rate schedules",
      {
          {"a cosine schedule without its length", {"cosine", "steps", "0"}, [] { Schedule::cosine(1e-3, 0); }},
          {"a negative warm-up", {"schedule", "warmup >= 0", "-5"}, [] { Schedule::constant(1e-3, -5); }},
          {"a lowest rate above the highest", {"min_lr", "lr"}, [] { Schedule::linear(1e-3, 100, 1e-2); }},
          {"a plateau schedule that drops by a factor above 1",
           {"plateau", "factor", "2"},
           [] { Schedule::plateau(1e-3, 2); }},
          {"a plateau schedule that never gets a loss",
           {"warning `unused setting`", "plateau", "trainer.observe(loss)"},
           [] {
             Training<> t({.schedule = Schedule::plateau(1e-2), .steps = 6});
             for (int i = 0; i < 6; ++i) tell(t.step());
           }},
          {"milestones that do not ascend",
           {"multi-step", "ascending order"},
           [] {
             Schedule::multi_step(1e-3, {100, 50});
           }},
          {"a step schedule with a period of 0", {"step", "every", "0"}, [] { Schedule::step(1e-3, 0); }},
          {"a schedule function that returns NaN",
           {"schedule", "nan"},
           [] {
             Training<> t({.schedule = Schedule([](std::int64_t) { return std::nan(""); })});
             t.step();
           }},
          {"a schedule function that counts from 0 and divides by it",
           {"schedule", "inf"},
           [] {
             Training<> t({.schedule = Schedule([](std::int64_t k) { return 1.0 / static_cast<double>(k - 1); })});
             t.step();
           }},
          {"a name of a schedule with a typo", {"cosin", "cosine", "plateau"}, [] { optim::schedule_kind("cosin"); }},
          {"a decay phase longer than the run", {"wsd", "decay", "200"}, [] { Schedule::wsd(1e-3, 100, 200); }},
          {"a cycle that rises for longer than it lasts",
           {"one-cycle", "rise in (0, 1)", "1.5"},
           [] { Schedule::one_cycle(1e-3, 100, 1.5); }},
          {"a learning rate of 0 for the whole run",
           {"warning `stagnation`", "learning rate of 0"},
           [] {
             Training<> t({.schedule = Schedule::constant(0)});
             for (int i = 0; i < 60; ++i) tell(t.step());
           }},
      },
  };
}

}  // namespace binade::mistakes
