// A graph convolution (Kipf, Welling, 2017) and a graph attention (Velickovic et al., 2018) classify the nodes of a
// stochastic block model: nodes of a community are connected more often, their features alone say little, and five
// nodes of each community have labels. Prints the accuracy on all other nodes.
#include "examples/models/common.h"

using namespace binade;

constexpr int64_t kClasses = 4, kLabeled = 20;

/// Features (N, F) and labels (N) of nodes, and edges (E) from node `start` to node `end`: each in both directions, and
/// one from each node to itself.
struct Graph {
  Variable features, labels, start, end;
};

Graph draw(int64_t nodes, int64_t width) {
  const Variable labels = remainder(arange(nodes), kClasses);
  const Variable p = where(labels == unsqueeze(labels, 1), 0.1, 0.01);
  const Variable above = bernoulli(triu(p, 1).value());
  const Variable edges = nonzero(above + transpose(above) + eye(nodes));
  return {randn({nodes, width}) + 0.7 * one_hot(labels, width), labels, select(edges, 1, 0), select(edges, 1, 1)};
}

/// Returns (N, C): for each node, the sum of `rows` (E, C) over the edges that end there.
Variable gathered(const Variable& rows, const Graph& g) {
  return index_add(Tensor::zeros({g.labels.dim(0), rows.dim(1)}, rows.dtype()), 0, g.end, rows);
}

/// A graph convolution of h (N, C), the result of a linear layer.
Variable convolved(const Variable& h, const Graph& g) {
  const Variable scale = rsqrt(gathered(ones({g.end.dim(0), 1}), g));
  return gathered((h * scale)[g.start], g) * scale;
}

struct Attention : nn::Module {
  nn::Linear linear, scores;
  Attention(int64_t dim, int64_t heads)
      : linear({.in = dim, .out = dim, .bias = false}), scores({.in = dim, .out = 2 * heads}) {}
  void visit(nn::Visitor& v) override { v("linear", linear), v("scores", scores); }
  Variable operator()(const Variable& x, const Graph& g) {
    const nn::ModuleScope scope(*this);
    const Variable h = linear(x);
    const auto s = chunk(scores(h), 2, 1);
    const Variable score = leaky_relu(s[0][g.start] + s[1][g.end], 0.2), weight = exp(score - max(score).detach());
    const Variable share = weight / gathered(weight, g)[g.end];
    return gathered(flatten(unflatten(h[g.start], 1, {share.dim(1), -1}) * unsqueeze(share, -1)), g);
  }
};

struct Classifier : nn::Module {
  nn::Linear first, head;
  Attention second;
  nn::Dropout dropout;
  Classifier(int64_t in, int64_t width, int64_t heads)
      : first({.in = in, .out = width}), head({.in = width, .out = kClasses}), second(width, heads) {}
  void visit(nn::Visitor& v) override {
    v("first", first), v("second", second), v("dropout", dropout), v("head", head);
  }
  Variable operator()(const Graph& g) {
    const nn::ModuleScope scope(*this);
    return head(elu(second(dropout(relu(convolved(first(g.features), g))), g)));
  }
};

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv,
                               {{"steps", 100}, {"nodes", 400}, {"features", 16}, {"width", 32}, {"heads", 4}});
  Runtime runtime(args.runtime());
  const Graph graph = draw(args["nodes"], args["features"]);
  Classifier model(args["features"], args["width"], args["heads"]);
  optim::AdamW optimizer(model, {.lr = 1e-2, .weight_decay = 0.05});
  amp::Trainer trainer(runtime, model, optimizer, {.precision = args.policy()});

  const auto loss = [&](const Graph& g) {
    return cross_entropy(narrow(model(g), 0, 0, kLabeled), narrow(g.labels, 0, 0, kLabeled));
  };
  for (const int64_t step : args.steps()) args.report(step, trainer.step(graph, loss).loss);

  const Variable found = trainer.evaluate([&] { return argmax(model(graph), 1); });
  models::metric("accuracy", mean(slice(cast(found == graph.labels, DType::f32), 0, kLabeled)).item());
}
