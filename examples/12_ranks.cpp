// 12. Ranks: several processes make each step together. The program differs in one line from one without ranks.
//
//     12_ranks                  runs alone
//     mpirun -n 4 12_ranks      runs as four processes, and prints the same hash
#include <binade.h>

#include <cstdio>

using namespace binade;

struct Net : nn::Module {  // maps x (B, 2) to logits (B, 2)
  nn::Linear in{{.in = 2, .out = 64}}, out{{.in = 64, .out = 2}};
  nn::BatchNorm1d norm{{.channels = 64}};
  nn::Dropout dropout{{.p = 0.1}};
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("norm", norm);
    v("dropout", dropout);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(dropout(gelu(norm(in(x))))); }
};

struct Batch {
  Tensor x, label;
  io::BatchOrigin origin{};
};

/// Loads points of a plane in shuffled batches of 32. A point within the unit circle has label 1. Each rank makes only
/// the batches that it computes.
io::Loader<Batch> points() {
  return {{.batch = 32, .seed = 3, .samples = 4096}, [](const io::BatchOrigin& origin) {
            std::vector<float> x;
            std::vector<std::int64_t> label;
            for (const std::int64_t sample : origin.samples) {
              const RandomStream values{3, RngPurpose::kData, static_cast<std::uint64_t>(sample)};
              const auto a = static_cast<float>(values.normal(0)), b = static_cast<float>(values.normal(1));
              x.insert(x.end(), {a, b});
              label.push_back(a * a + b * b < 1 ? 1 : 0);
            }
            return Batch{Tensor::from(x, {32, 2}), Tensor::from(label, {32})};
          }};
}

int main() {
  Runtime runtime({.seed = 1});
  Net model;
  optim::AdamW optimizer(model, {.lr = 1e-2f});
  // The changed line. `accumulate` is the number of micro-batches of the whole step, which the ranks share. If `leaves`
  // is set, the bits do not depend on the number of ranks.
  amp::Trainer trainer(runtime, model, optimizer, {.accumulate = 4, .ranks = ranks_from_launcher(), .leaves = 4});

  io::Loader<Batch> loader = points();
  double loss = 0;
  for (const auto& batch : trainer.batches(loader)) {
    loss = trainer.step(batch, [&](const Batch& b) { return nn::cross_entropy(model(b.x), b.label); }).loss;
    if (trainer.steps() == 100) break;
  }
  const std::string hash = trainer.state_hash();  // the same on all ranks
  if (trainer.ranks().rank() == 0)
    std::printf("rank 0 of %d: loss %.3f, state %s\n", trainer.ranks().size(), loss, hash.c_str());
  return loss < 0.5 ? 0 : 1;  // 0.7 before training
}
