// A graph convolution (Kipf, Welling, 2017) and a graph attention (Velickovic et al., 2018) classify the nodes of a
// stochastic block model: nodes of a community are connected more often, their features alone say little, and five
// nodes of each community have labels. Prints the accuracy on all other nodes.
#include "common.h"

using namespace binade;

constexpr std::int64_t kCommunities = 4, kLabeled = 5 * kCommunities;

struct Graph {
  Variable features, labels, from,
      to;  // (N, F), (N), (E), (E): edges in both directions, and one from each node to itself
};

Graph draw(std::int64_t nodes, std::int64_t width) {
  const Variable labels = remainder(arange(nodes), kCommunities);
  const Variable p = where(unsqueeze(labels, 0) == unsqueeze(labels, 1), Tensor::scalar(0.1), Tensor::scalar(0.01));
  const Variable above = bernoulli(triu(p, 1).value());
  const Variable edges = nonzero(above + transpose(above) + eye(nodes));
  return {randn({nodes, width}) + index_select(randn({kCommunities, width}), 0, labels) * 0.3, labels,
          select(edges, 1, 0), select(edges, 1, 1)};
}

/// Sums `rows` (E, C) of the edges to each of `nodes` nodes.
Variable gathered(const Variable& rows, const Graph& g) {
  return index_add(Tensor::zeros({g.labels.dim(0), rows.dim(1)}, rows.dtype()), 0, g.to, rows);
}

struct GraphConvolution : nn::Module {
  nn::Linear linear;
  GraphConvolution(std::int64_t in, std::int64_t out) : linear({.in = in, .out = out}) {}
  void visit(nn::Visitor& v) override { v("linear", linear); }
  Variable operator()(const Variable& x, const Graph& g) {
    const nn::ModuleScope scope(*this);
    const Variable scale = rsqrt(gathered(ones({g.to.dim(0), 1}), g));
    return gathered(index_select(linear(x) * scale, 0, g.from), g) * scale;
  }
};

struct GraphAttention : nn::Module {
  nn::Linear linear, source, target;
  GraphAttention(std::int64_t in, std::int64_t out, std::int64_t heads)
      : linear({.in = in, .out = out, .bias = false}),
        source({.in = out, .out = heads, .bias = false}),
        target({.in = out, .out = heads, .bias = false}) {}
  void visit(nn::Visitor& v) override { v("linear", linear), v("source", source), v("target", target); }
  Variable operator()(const Variable& x, const Graph& g) {
    const nn::ModuleScope scope(*this);
    const Variable h = linear(x);
    const Variable score = leaky_relu(index_select(source(h), 0, g.from) + index_select(target(h), 0, g.to), 0.2);
    const Variable weight = exp(score - max(score).detach());
    const Variable share = weight / index_select(gathered(weight, g), 0, g.to);
    const Variable rows = unflatten(index_select(h, 0, g.from), 1, {share.dim(1), -1});
    return gathered(flatten(rows * unsqueeze(share, -1)), g);
  }
};

struct Classifier : nn::Module {
  GraphConvolution first;
  GraphAttention second;
  nn::Dropout dropout;
  nn::Linear head;
  Classifier(std::int64_t in, std::int64_t width, std::int64_t heads)
      : first(in, width), second(width, width, heads), head({.in = width, .out = kCommunities}) {}
  void visit(nn::Visitor& v) override {
    v("first", first), v("second", second), v("dropout", dropout), v("head", head);
  }
  Variable operator()(const Graph& g) {
    const nn::ModuleScope scope(*this);
    return head(elu(second(dropout(relu(first(g.features, g))), g)));
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

  for ([[maybe_unused]] const auto step : args.steps())
    trainer.step(graph, [&](const Graph& g) {
      return cross_entropy(slice(model(g), 0, 0, kLabeled), slice(g.labels, 0, 0, kLabeled));
    });

  const Variable found = trainer.evaluate([&] { return argmax(model(graph), 1); });
  const Variable right = cast(found == graph.labels, DType::f32);
  models::metric("accuracy", mean(slice(right, 0, kLabeled, args["nodes"])).item());
}
