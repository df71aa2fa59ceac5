#include <thread>

#include "tests/mistakes/mistakes.h"

namespace binade::mistakes {
namespace {

/// y = 2 x; derived ops have a mistake.
struct Twice {
  struct Params {};
  static constexpr OpInfo info{.name = "twice", .inputs = "x"};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) {
    return {in[0].dtype() == DType::f64 ? doubled<double>(in[0]) : doubled<float>(in[0])};
  }
  template <class T>
  static Tensor doubled(const Tensor& x) {
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    T* values = y.mutable_data<T>();
    for (std::int64_t i = 0; i < y.numel(); ++i) values[i] = 2 * x.data<T>()[i];
    return y;
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.destination(0).copy_from(gy[0]);  // mistake: the factor 2 is missing
  }
};

struct SavesNothing : Twice {
  static constexpr OpInfo info{.name = "saves_nothing", .inputs = "x"};
  static void backward(const OpContext& ctx, std::span<const Tensor>, GradSink& gx, const Params&) {
    gx.set(0, ctx.saved(0, info.name));
  }
};

struct WrongShape : Twice {
  static constexpr OpInfo info{.name = "wrong_shape", .inputs = "x"};
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    gx.destination(0).copy_from(gy[0].reshape(Shape{gy[0].numel()}));
  }
};

struct TwoInputs : Twice {
  static constexpr OpInfo info{.name = "two_inputs", .inputs = "x, y"};
};

template <class Derived>
struct Rule : optim::CustomOptimizer {
  template <class Model>
  explicit Rule(Model& model, StateList state = {"momentum"})
      : CustomOptimizer(optim::parameters_of(model), {.kind = "rule", .lr = 0.1, .state = std::move(state)}) {}
};
struct Misspelled : Rule<Misspelled> {
  using Rule::Rule;
  void update(optim::ParameterUpdate& u) const override { u.state("momentun"); }
};
struct OtherShape : Rule<OtherShape> {
  using Rule::Rule;
  void update(optim::ParameterUpdate& u) const override { u.weight = sum(u.weight); }
};
struct Explodes : Rule<Explodes> {
  using Rule::Rule;
  void update(optim::ParameterUpdate& u) const override { u.weight = u.weight / 0.0; }
};
struct Slash : optim::CustomOptimizer {
  explicit Slash(Net& net)
      : CustomOptimizer(optim::parameters_of(net), {.kind = "slash", .lr = 0.1, .state = {"a/b"}}) {}
  void update(optim::ParameterUpdate&) const override {}
};

template <class Optimizer>
void one_step(amp::TrainerOptions options = {}) {
  Runtime runtime({.seed = 1, .threads = 1});
  Net net;
  Optimizer optimizer(net);
  amp::Trainer trainer(runtime, net, optimizer, std::move(options));
  tell(trainer.step(batch(), loss_of(net)));
}

/// Runs `f` in a thread and rethrows its error here.
template <class F>
void in_thread(F&& f) {
  std::exception_ptr error;
  std::thread([&] {
    try {
      f();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

}  // namespace

Subject extensions() {
  return {
      "Ops, optimizers and hooks of your own",
      {
          {"the backward of an op forgets a factor",
           {"twice", "input 0"},
           [] {
             const GradcheckResult result = gradcheck(
                 [](const std::vector<Variable>& x) { return apply_one<Twice>({}, {x[0]}); }, {normal({3})});
             if (!result.passed) throw Told(result.message);
           }},
          {"backward reads a tensor that forward has not saved",
           {"saves_nothing", "saved tensor 0", "0 were saved"},
           [] { backward(sum(apply_one<SavesNothing>({}, {leaf({3})}))); }},
          {"backward gives a gradient of another shape",
           {"copy_from", "(2, 3)", "(6)"},
           [] {
             backward(sum(apply_one<WrongShape>({}, {leaf({2, 3})})));
           }},
          {"an op gets too few inputs",
           {"two_inputs", "(x, y)", "got 1 of them"},
           [] { apply_one<TwoInputs>({}, {leaf({3})}); }},
          {"an op gets an undefined input", {"twice", "x"}, [] { apply_one<Twice>({}, {Variable()}); }},
          {"an optimizer reads a state that it does not have",
           {"'momentun'", "list it in the settings"},
           [] { one_step<Misspelled>(); }},
          {"an optimizer returns a weight of another shape", {"rule", "(8, 4)"}, [] { one_step<OtherShape>(); }},
          {"an optimizer divides by 0", {"incident", "weight", "update"}, [] { one_step<Explodes>(); }},
          {"the name of a state has a slash",
           {"slash", "'a/b'", "without a slash"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             Slash optimizer(net);
           }},
          {"a forward hook returns another shape",
           {"linear [head]", "8", "4"},
           [] {
             Training<> t;
             const HookHandle hook = t.model.first.register_forward_hook(
                 [](nn::Module&, const Variable&, const Variable& y) { return narrow(y, 1, 0, 4); });
             t.step();
           }},
          {"a backward hook returns a gradient for a module whose input needs none",
           {"Linear [first]", "needs none"},
           [] {
             Training<> t;
             const HookHandle hook = t.model.first.register_backward_hook(
                 [](nn::Module&, const Variable&, const Variable& gy) { return gy; });
             t.step();
           }},
          {"a hook throws",
           {"from my", "hook"},
           [] {
             Training<> t;
             const HookHandle hook = t.model.head.register_forward_hook(
                 [](nn::Module&, const Variable&, const Variable&) { throw ArgumentError("from my hook"); });
             t.step();
           }},
      },
  };
}

Subject threads() {
  return {
      "Threads and lifetime",
      {
          {"two runtimes in one thread",
           {"Runtime", "thread"},
           [] {
             Runtime first({.threads = 1});
             Runtime second({.threads = 1});
           }},
          {"no runtime", {"no Runtime exists", "make a binade::Runtime"}, [] { Runtime::current(); }},
          {"a thread that does not know which of two runtimes to use",
           {"the process has 2", "open a binade::RuntimeScope"},
           [] {
             Runtime mine({.threads = 1});
             in_thread([] {
               Runtime other({.threads = 1});
               in_thread([] { Runtime::current(); });
             });
           }},
          {"a negative number of threads", {"threads", "-1"}, [] { Runtime runtime({.threads = -1}); }},
          {"two threads run backward into one model",
           {"backward", "another thread's backward", "its own model"},
           [] {
             const Variable w = leaf({3});
             const Variable y = with_gradient_hook(w * 2.0, [&](const Variable&) {
               in_thread([&] { backward(sum(w * 3.0)); });
               return Variable();
             });
             backward(sum(y));
           }},
          {"two threads use one trainer",
           {"trainer: state", "inside of step", "a mutex around each call"},
           [] {
             Training<> t;
             t.trainer.step(batch(), [&](const Batch& b) {
               in_thread([&] { t.trainer.state(); });
               return loss_of(t.model)(b);
             });
           }},
          {"a hook on an undefined variable",
           {"register_hook", "no gradient"},
           [] {
             Variable w;
             w.register_hook([](const Variable&) {});
           }},
      },
  };
}

}  // namespace binade::mistakes
