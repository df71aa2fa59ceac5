#include "tests/mistakes/mistakes.h"

namespace binade::mistakes {
namespace {

/// An op without a `derivative` member, so that its gradient cannot be differentiated again.
struct Plain {
  struct Params {};
  static constexpr OpInfo info{.name = "plain", .inputs = "x"};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) { return {in[0].clone()}; }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.set(0, gy[0]);
  }
};

Tensor written(Tensor t) {
  t.mutable_data<float>()[0] = 7;
  return t;
}

}  // namespace

Subject autograd() {
  return {
      "Gradients",
      {
          {"backward of a loss with several elements",
           {"backward", "(3)", "sum or average it first"},
           [] { backward(leaf({3}) * 2.0); }},
          {"backward of a number that no parameter led to",
           {"backward", "no history", "no parameter led to it"},
           [] { backward(sum(Variable(normal({3})))); }},
          {"backward of a loss that was computed under NoGradGuard",
           {"backward", "NoGradGuard"},
           [] {
             const Variable w = leaf({3});
             Variable loss;
             {
               const NoGradGuard no_grad;
               loss = sum(w * 2.0);
             }
             backward(loss);
           }},
          {"backward of a loss that was computed in an InferenceMode",
           {"backward", "InferenceMode", "compute it outside"},
           [] {
             const Variable w = leaf({3});
             Variable loss;
             {
               const InferenceMode inference;
               loss = sum(w * 2.0);
             }
             backward(loss);
           }},
          {"backward inside of an InferenceMode",
           {"backward", "InferenceMode", "GradGuard"},
           [] {
             const Variable loss = sum(leaf({3}));
             const InferenceMode inference;
             backward(loss);
           }},
          {"backward twice through one graph",
           {"sum", "backward ran twice", "run forward again"},
           [] {
             const Variable loss = sum(leaf({3}) * leaf({3}));
             backward(loss);
             backward(loss);
           }},
          {"a parameter is written with `mutable_data` between forward and backward",
           {"mul", "written in place", "clone()"},
           [] {
             const Variable w = leaf({3}), x = leaf({3}, 2);
             const Variable loss = sum(w * x);
             written(w.value());
             backward(loss);
           }},
          {"a batch is reused for the next data before backward",
           {"linear", "written in place", "clone()"},
           [] {
             const Tensor x = normal({2, 3});
             const Variable loss = sum(linear(x, leaf({4, 3})));
             written(x);
             backward(loss);
           }},
          {"`fill` of a tensor that backward needs",
           {"exp", "written in place", "clone()"},
           [] {
             const Variable y = exp(leaf({3}));
             Tensor value = y.value();
             value.fill(0);
             backward(sum(y));
           }},
          {"a detached loss", {"backward", "no history"}, [] { backward(sum(leaf({3})).detach()); }},
          {"a loss from the values of a prediction",
           {"backward", "no history", "no parameter led to it"},
           [] {
             Training<> t;
             t.trainer.step(batch(),
                            [&](const Batch& b) { return nn::cross_entropy(Variable(t.model(b.x).value()), b.y); });
           }},
          {"the gradient is read before backward",
           {"tensor: read as f32", "undefined", "after backward"},
           [] { leaf({3}).grad().data<float>(); }},
          {"a cotangent of another shape",
           {"backward", "cotangent", "(3)", "(2)"},
           [] { backward(leaf({3}) * 2.0, Tensor::full({2}, 1)); }},
          {"a hook on a variable without a gradient",
           {"register_hook", "no gradient"},
           [] { Variable(normal({3})).register_hook([](const Variable&) {}); }},
          {"a hook returns a gradient of another shape",
           {"gradient hook", "(3)", "(1)"},
           [] {
             const Variable w = leaf({3});
             const HookHandle hook = w.register_hook([](const Variable& g) { return sum(g, {0}, true); });
             backward(sum(w * 2.0));
           }},
          {"a tensor of an InferenceMode is trained with",
           {"InferenceMode", "clone()"},
           [] {
             Tensor x;
             {
               const InferenceMode inference;
               x = (Variable(normal({2, 3})) * 2.0).value();
             }
             linear(x, leaf({4, 3}));
           }},
      },
  };
}

Subject second_derivatives() {
  return {
      "Second derivatives",
      {
          {"a penalty on a gradient without create_graph",
           {"backward", "no history", "create_graph"},
           [] {
             const Variable x = leaf({3});
             const Variable slope = grad(sum(square(x)), x);
             backward(sum(square(slope)));
           }},
          {"a second derivative through an op that has none",
           {"plain", "derivative"},
           [] {
             const Variable x = leaf({3});
             grad(sum(square(apply_one<Plain>({}, {x}))), x, {.create_graph = true});
           }},
          {"a second derivative through recompute()",
           {"recompute", "call the segment without recompute()"},
           [] {
             const Variable x = leaf({3});
             const Variable y = recompute([](const Variable& h) { return square(h); }, x);
             grad(sum(y), x, {.create_graph = true});
           }},
          {"the gradient of an input that requires none",
           {"grad", "input 0", "Variable(tensor, true)"},
           [] {
             const Variable x = normal({3});
             grad(sum(leaf({3}) * x), x);
           }},
          {"the gradient of an input that the loss does not use",
           {"grad", "input 0", "allow_unused"},
           [] { grad(sum(leaf({3}) * 2.0), leaf({3}, 2)); }},
          {"the gradient of an output with several elements",
           {"grad", "(3)", "grad_outputs"},
           [] {
             const Variable x = leaf({3});
             grad(square(x), x);
           }},
          {"grad_outputs of another shape",
           {"grad", "grad_outputs[0]", "(3)"},
           [] {
             const Variable x = leaf({3});
             grad(square(x), x, {.grad_outputs = {Variable(normal({2}))}});
           }},
          {"a second derivative through a hook",
           {"hook", "create_graph", "remove the hook"},
           [] {
             const Variable x = leaf({3});
             const Variable y = square(x);
             const HookHandle hook = y.register_hook([](const Variable& g) { return g * 2.0; });
             grad(sum(square(y)), x, {.create_graph = true});
           }},
          {"grad twice without create_graph or retain_graph",
           {"backward ran twice", "retain_graph"},
           [] {
             const Variable x = leaf({3}), y = sum(square(x));
             grad(y, x);
             grad(y, x);
           }},
      },
  };
}

Subject modes() {
  struct WithNorm : nn::Module {
    nn::Linear first{{.in = 4, .out = 8}};
    nn::BatchNorm1d norm{{.channels = 8}};
    nn::Linear head{{.in = 8, .out = 3}};
    void visit(nn::Visitor& v) override {
      v("first", first);
      v("norm", norm);
      v("head", head);
    }
    Variable forward(const Variable& x) override { return head(norm(first(x))); }
  };
  return {
      "Training and evaluation mode",
      {
          {"batch norm in training with a single row",
           {"batch_norm [norm]", "(1, 8)", "larger batch", "eval()"},
           [] {
             Training<WithNorm> t;
             t.step({normal({1, 4}), labels({1}, 3)});
           }},
          {"batch norm in training with a 1 x 1 image and batch size 1",
           {"batch_norm", "(1, 1, 1, 4)", "eval()"},
           [] {
             nn::BatchNorm2d norm({.channels = 4});
             norm(normal({1, 1, 1, 4}));
           }},
          {"predictions in an InferenceMode with a model in training mode",
           {"norm", "InferenceMode", "call eval() on the model first"},
           [] {
             const Runtime runtime({.threads = 1});
             WithNorm model;
             const InferenceMode inference;
             model(normal({4, 4}));
           }},
          {"Trainer::step inside of an InferenceMode",
           {"Trainer::step", "InferenceMode", "end it before the step"},
           [] {
             Training<> t;
             const InferenceMode inference;
             t.step();
           }},
          {"an optimizer is made inside of an InferenceMode",
           {"an optimizer", "InferenceMode", "make it outside"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             const InferenceMode inference;
             optim::Adam optimizer(net);
           }},
          {"a dropout probability of 1", {"Dropout", "p in [0, 1)", "1"}, [] { nn::Dropout({.p = 1}); }},
          {"a keep probability in place of a drop probability",
           {"Dropout", "p in [0, 1)", "1.5"},
           [] { nn::Dropout({.p = 1.5}); }},
          {"a negative momentum of batch norm",
           {"BatchNorm2d", "momentum in [0, 1]", "-0.1"},
           [] { nn::BatchNorm2d({.channels = 3, .momentum = -0.1}); }},
          {"batch norm without the number of channels",
           {"BatchNorm2d", "channels > 0", "0"},
           [] { nn::BatchNorm2d({}); }},
          {"a module with other arguments is called with one",
           {"Module", "forward(x)", "operator()"},
           [] {
             struct TwoInputs : nn::Module {
               void visit(nn::Visitor&) override {}
               Variable operator()(const Variable& a, const Variable& b) { return a + b; }
               using nn::Module::operator();
             } module;
             module(normal({3}));
           }},
          {"hooks on a module with its own operator()",
           {"hooks", "does not call them", "register_hook"},
           [] {
             nn::BatchNorm1d norm({.channels = 3});
             const HookHandle hook = norm.register_forward_hook([](nn::Module&, const Variable&, const Variable&) {});
             norm(normal({2, 3}), normal({2, 3}));
           }},
          {"an evaluation that trains",
           {"backward", "InferenceMode", "GradGuard"},
           [] {
             Training<> t;
             t.step();
             t.trainer.evaluate([&] {
               backward(loss_of(t.model)(batch()));
               return 0.0;
             });
           }},
      },
  };
}

}  // namespace binade::mistakes
