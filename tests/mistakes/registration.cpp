#include "tests/mistakes/mistakes.h"

namespace binade::mistakes {
namespace {

using nn::Linear;

/// A net whose layer `second` is not registered. Derived classes make this mistake in other ways.
struct Pair : nn::Module {
  Linear first{{.in = 4, .out = 8}}, second{{.in = 8, .out = 3}};
  void visit(nn::Visitor& v) override { v("first", first); }  // `second` is forgotten
  Variable forward(const Variable& x) override { return second(relu(first(x))); }
};

struct ForgottenParameter : nn::Module {
  Linear head{{.in = 4, .out = 3}};
  nn::Parameter scale{Tensor::full({3}, 1)};
  void visit(nn::Visitor& v) override { v("head", head); }
  Variable forward(const Variable& x) override { return head(x) * scale; }
};

struct ForgottenInside : nn::Module {
  struct Block : nn::Module {
    Linear up{{.in = 4, .out = 8}}, down{{.in = 8, .out = 4}};
    void visit(nn::Visitor& v) override { v("up", up); }
    Variable forward(const Variable& x) override { return down(relu(up(x))); }
  } block;
  Linear head{{.in = 4, .out = 3}};
  void visit(nn::Visitor& v) override {
    v("block", block);
    v("head", head);
  }
  Variable forward(const Variable& x) override { return head(block(x)); }
};

struct ForgottenBuffer : nn::Module {
  Linear head{{.in = 4, .out = 3}};
  nn::Buffer calls{Tensor::zeros({1})};
  void visit(nn::Visitor& v) override { v("head", head); }
  Variable forward(const Variable& x) override {
    calls.writable().fill(calls.value().item() + 1);
    return head(x);
  }
};

struct WritesAParameter : nn::Module {
  Linear head{{.in = 4, .out = 3}};
  void visit(nn::Visitor& v) override { v("head", head); }
  Variable forward(const Variable& x) override {
    head.bias.mutable_value().fill(0.5);
    return head(x);
  }
};

struct ForgottenDropout : nn::Module {
  Linear head{{.in = 4, .out = 3}};
  nn::Dropout dropout{{.p = 0.5}};
  void visit(nn::Visitor& v) override { v("head", head); }
  Variable forward(const Variable& x) override { return head(dropout(x)); }
};

struct TemporaryDropout : nn::Module {
  Linear head{{.in = 4, .out = 3}};
  void visit(nn::Visitor& v) override { v("head", head); }
  Variable forward(const Variable& x) override {
    nn::Dropout dropout({.p = 0.5});
    return head(dropout(x));
  }
};

struct ForgottenNorm : nn::Module {
  Linear head{{.in = 4, .out = 3}};
  nn::BatchNorm1d norm{{.channels = 4}};
  ForgottenNorm() { norm.requires_grad(false); }
  void visit(nn::Visitor& v) override { v("head", head); }
  Variable forward(const Variable& x) override { return head(norm(x)); }
};

struct SameName : nn::Module {
  Linear first{{.in = 4, .out = 8}}, second{{.in = 8, .out = 3}};
  void visit(nn::Visitor& v) override {
    v("layer", first);
    v("layer", second);
  }
  Variable forward(const Variable& x) override { return second(relu(first(x))); }
};

struct SameParameterName : nn::Module {
  nn::Parameter w{normal({3, 4})}, b{Tensor::zeros({3})};
  void visit(nn::Visitor& v) override {
    v("weight", w);
    v("weight", b);
  }
  Variable forward(const Variable& x) override { return linear(x, w, b); }
};

struct SameBufferName : nn::Module {
  Linear head{{.in = 4, .out = 3}};
  nn::Buffer a{Tensor::zeros({1})}, b{Tensor::zeros({1})};
  void visit(nn::Visitor& v) override {
    v("head", head);
    v("seen", a);
    v("seen", b);
  }
  Variable forward(const Variable& x) override { return head(x); }
};

struct Empty : nn::Module {
  void visit(nn::Visitor&) override {}
  Variable forward(const Variable& x) override { return x; }
};

/// Layers made after the optimizer.
struct Growing : nn::Module {
  std::vector<std::unique_ptr<Linear>> layers;
  Growing() { add(); }
  void add() { layers.push_back(std::make_unique<Linear>(nn::LinearOptions{.in = 4, .out = 4})); }
  void visit(nn::Visitor& v) override {
    for (std::size_t i = 0; i < layers.size(); ++i) v(std::to_string(i), *layers[i]);
  }
  Variable forward(const Variable& x) override {
    Variable h = x;
    for (auto& layer : layers) h = (*layer)(h);
    return h;
  }
};

/// A model of which only the head is trained.
template <class MakeOptimizer>
void train_part(MakeOptimizer&& make) {
  const Runtime runtime_is_here({.seed = 1, .threads = 1});
  Net net;
  auto optimizer = make(net);
  amp::Trainer trainer(Runtime::current(), net, *optimizer);
  trainer.step(batch(), loss_of(net));
}

}  // namespace

Subject registration() {
  return {
      "Registration",
      {
          {"a layer is a member, but `visit` does not name it",
           {"'linear'", "called in main.cpp:42", "no visit() of the model names it", "name its module in visit()"},
           [] { Training<Pair>().step(); }},
          {"a parameter is a member, but `visit` does not name it",
           {"'mul'", "(3)", "no visit() of the model names it", "requires_grad(false)"},
           [] { Training<ForgottenParameter>().step(); }},
          {"a block deep in the model forgets a layer in its `visit`",
           {"'linear' in block", "no visit()"},
           [] { Training<ForgottenInside>().step(); }},
          {"a buffer is a member, but `visit` does not name it",
           {"a buffer", "can neither be committed nor undone", "name the buffer"},
           [] { Training<ForgottenBuffer>().step(); }},
          {"forward writes a parameter",
           {"the closure wrote a parameter (head.bias)", "neither commit nor undo", "nn::Buffer",
            "before the first step"},
           [] { Training<WritesAParameter>().step(); }},
          {"a dropout is a member, but `visit` does not name it",
           {"Dropout", "training mode", "eval() and Trainer::evaluate() would not reach it", "name it in visit()"},
           [] { Training<ForgottenDropout>().step(); }},
          {"a dropout is made anew in each forward",
           {"Dropout", "eval()", "name it in visit()"},
           [] { Training<TemporaryDropout>().step(); }},
          {"a batch norm is a member, but `visit` does not name it",
           {"a buffer", "no visit()", "call eval() on the module"},
           [] { Training<ForgottenNorm>().step(); }},
          {"a module outside of the model is called in the loss",
           {"'linear'", "no visit() of the model names it"},
           [] {
             Training<> t;
             Linear extra({.in = 3, .out = 3});
             t.trainer.step(batch(), [&](const Batch& b) { return nn::cross_entropy(extra(t.model(b.x)), b.y); });
           }},
          {"two layers have one name in `visit`",
           {"two parameters are called 'layer.weight'", "give each its own name"},
           [] { Training<SameName>().step(); }},
          {"two parameters have one name in `visit`",
           {"two parameters are called 'weight'", "give each its own name"},
           [] { Training<SameParameterName>().step(); }},
          {"two buffers have one name in `visit`",
           {"'seen'", "two members", "give each its own name"},
           [] { Training<SameBufferName>().step(); }},
          {"a layer is added after the optimizer was made",
           {"1.weight", "no optimizer holds it", "make the optimizer after all layers"},
           [] {
             Runtime runtime({.threads = 1});
             Growing net;
             optim::Adam optimizer(net);
             net.add();
             amp::Trainer trainer(runtime, net, optimizer);
             trainer.step(batch(), loss_of(net));
           }},
          {"the optimizer is made of a part of the model, and the rest is not frozen",
           {"first.", "no optimizer holds it", "requires_grad(false)"},
           [] { train_part([](Net& net) { return std::make_unique<optim::Adam>(net.head); }); }},
          {"the list of parameters leaves one out",
           {"head.bias", "no optimizer holds it", "make the optimizer after all layers and of the whole model"},
           [] {
             train_part([](Net& net) {
               std::vector<optim::NamedParameter> list = optim::parameters_of(net);
               list.pop_back();
               return std::make_unique<optim::Adam>(list);
             });
           }},
          {"the optimizer is made of another model",
           {"adam", "no parameter of the model", "make it of the model that the trainer gets"},
           [] {
             Runtime runtime({.threads = 1});
             Net net, other;
             optim::Adam optimizer(other);
             amp::Trainer trainer(runtime, net, optimizer);
           }},
          {"the optimizer also holds a parameter that is not the model's",
           {"parameter temperature", "no visit() of the model names", "name it in visit()"},
           [] {
             Runtime runtime({.threads = 1});
             Net net;
             nn::Parameter temperature(Tensor::full({1}, 1));
             std::vector<optim::NamedParameter> list = optim::parameters_of(net);
             list.push_back({"temperature", temperature});
             optim::Adam optimizer(list);
             amp::Trainer trainer(runtime, net, optimizer);
           }},
          {"the loss is computed with another model than the optimizer's",
           {"depends on none of the 4 parameters", "first.weight", "make the optimizer of the model that computes"},
           [] {
             Training<> t;
             Variable w = leaf({3, 4});
             t.trainer.step(batch(), [&](const Batch& b) { return nn::cross_entropy(linear(b.x, w), b.y); });
           }},
          {"a model without parameters gets an optimizer",
           {"optimizer: got no parameters", "pass a model"},
           [] {
             Empty net;
             optim::Adam optimizer(net);
           }},
          {"all parameters are frozen before the optimizer is made",
           {"optimizer: got no parameters", "not frozen"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             net.requires_grad(false);
             optim::Adam optimizer(net);
           }},
          {"a frozen parameter is handed to an optimizer",
           {"'head.weight'", "wants no gradient", "leave it out"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             net.head.weight.requires_grad(false);
             optim::Adam optimizer({{.name = "head.weight", .variable = net.head.weight}});
           }},
          {"a parameter is in two optimizers of one trainer",
           {"two optimizers hold the parameter head.weight", "each parameter may have one"},
           [] {
             Runtime runtime({.threads = 1});
             Net net;
             optim::Adam all(net), head(net.head);
             amp::Trainer trainer(runtime, net,
                                  {{.name = "all", .optimizer = all}, {.name = "head", .optimizer = head}});
           }},
          {"a parameter is a plain Variable that no optimizer knows",
           {"warning `untrained parameters`", "'mul'", "(3)", "make it an nn::Parameter"},
           [] {
             Training<> t;
             Variable scale(Tensor::full({3}, 1), true);
             for (int i = 0; i < 3; ++i)
               tell(t.trainer.step(batch(),
                                   [&](const Batch& b) { return nn::cross_entropy(t.model(b.x) * scale, b.y); }));
           }},
          {"a pretrained network is used in the loss and not frozen",
           {"'linear'", "no visit()", "freeze it with requires_grad(false)"},
           [] {
             Training<> t;
             Linear features({.in = 3, .out = 3});
             features.eval();
             t.trainer.step(batch(), [&](const Batch& b) {
               const Variable y = t.model(b.x);
               return nn::cross_entropy(y, b.y) + nn::mse(features(y), Variable(Tensor::zeros({8, 3})));
             });
           }},
          {"a module in training mode outside of the model is called without gradients",
           {"Dropout", "training mode", "call eval() on it"},
           [] {
             Training<> t;
             nn::Sequential teacher(nn::Dropout({.p = 0.1}), Linear({.in = 4, .out = 3}));
             t.trainer.step(batch(), [&](const Batch& b) {
               const NoGradGuard no_grad;
               const Variable wanted = teacher(b.x);
               const GradGuard grad;
               return nn::mse(t.model(b.x), wanted);
             });
           }},
          {"`requires_grad(false)` on the result of an op",
           {"requires_grad", "leaf", "detach()"},
           [] {
             Variable y = leaf({3}) * 2.0;
             y.requires_grad(false);
           }},
          {"an undefined parameter is read",
           {"variable: it is undefined", "assign one first"},
           [] {
             nn::Parameter w;
             w.value();
           }},
          {"two optimizers of a trainer have one name",
           {"two optimizers are called 'adam'", "give each its own name"},
           [] {
             Runtime runtime({.threads = 1});
             Net net;
             optim::Adam a(net.first), b(net.head);
             amp::Trainer trainer(runtime, net, {{.name = "adam", .optimizer = a}, {.name = "adam", .optimizer = b}});
           }},
      },
  };
}

}  // namespace binade::mistakes
