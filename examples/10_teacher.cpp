// 10. A teacher that follows its student: its weights are averages of the student's, and its predictions are targets
// for samples without a label (Tarvainen & Valpola, "Mean teachers are better role models", NeurIPS 2017).
//
//     10_teacher [FOLDER STEPS]    trains or resumes a run in FOLDER
#include <binade.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numbers>

using namespace binade;

constexpr std::int64_t kBatch = 64, kSamples = 2048;

struct Net : nn::Module {  // points (B, 2) -> logits (B, 2)
  nn::Linear in, hidden, out;
  Net()
      : in({.in = 2, .out = 32, .activation = Activation::kGelu}),
        hidden({.in = 32, .out = 32, .activation = Activation::kGelu}),
        out({.in = 32, .out = 2}) {}
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("hidden", hidden);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(hidden(in(x))); }
};

struct Batch {
  Tensor x, noise, labels;  // (B, 2), (B, 2), and class indices (B); -1: without a label
  io::BatchOrigin origin{};
};

/// Points of two interleaved half circles. One in four has a label, unless `all` have one.
Batch points(const io::BatchOrigin& origin, bool all = false) {
  std::vector<float> x, noise;
  std::vector<std::int32_t> labels;
  for (const std::int64_t i : origin.samples) {
    const RandomStream draws{3, RngPurpose::kData, static_cast<std::uint64_t>(i)};
    const double angle = std::numbers::pi * draws.uniform(0), side = i % 2 == 0 ? 1 : -1;
    x.push_back(static_cast<float>(side * std::cos(angle) + 0.5 * (1 - side) + 0.1 * draws.normal(1)));
    x.push_back(static_cast<float>(side * std::sin(angle) + 0.25 * (1 - side) + 0.1 * draws.normal(2)));
    for (std::uint64_t n : {3, 4}) noise.push_back(static_cast<float>(0.1 * draws.normal(n)));
    labels.push_back(all || i % 8 < 2 ? static_cast<std::int32_t>(i % 2) : -1);
  }
  const auto rows = static_cast<std::int64_t>(labels.size());
  return {Tensor::from(x, {rows, 2}), Tensor::from(noise, {rows, 2}), Tensor::from(labels, {rows}), origin};
}

double accuracy_of(Net& net) {
  const NoGradGuard no_gradients;
  io::BatchOrigin fresh;
  for (std::int64_t i = kSamples; i < kSamples + 500; ++i) fresh.samples.push_back(i);
  const Batch b = points(fresh, true);
  const Tensor logits = net(b.x).value();
  int right = 0;
  for (std::int64_t i = 0; i < 500; ++i)
    right += (logits.at(2 * i + 1) > logits.at(2 * i)) == (b.labels.data<std::int32_t>()[i] == 1);
  return right / 500.0;
}

int main(int argc, char** argv) {
  const bool given = argc == 3;
  const std::filesystem::path folder = given ? std::filesystem::path(argv[1])
                                             : std::filesystem::temp_directory_path() / "binade-10-teacher";
  if (!given) std::filesystem::remove_all(folder);

  Runtime runtime({.seed = 4});
  Net student, teacher;
  optim::AdamW optimizer(student, {.lr = 5e-3});
  amp::Trainer trainer(runtime,
                       {{.name = "student", .model = student},
                        {.name = "teacher", .model = teacher, .average_of = &student, .average = {.decay = 0.98}}},
                       {{.name = "student", .optimizer = optimizer}}, {.precision = amp::Policy::bf16()});

  const auto loss = [&](const Batch& b) {
    const Variable taught = softmax(teacher(b.x)).detach(), said = softmax(student(Variable(b.x) + b.noise));
    return cross_entropy(student(b.x), b.labels, {.ignore_index = -1}) + 2 * mse(said, taught);
  };

  io::Loader<Batch> loader({.batch = kBatch, .seed = 4, .samples = kSamples},
                           [](const io::BatchOrigin& origin) { return points(origin); });
  amp::TrainingRun run(
      trainer, {.folder = folder, .steps = given ? std::stol(argv[2]) : 400, .checkpoint_every = 50, .log_every = 100});
  run.resume_if_possible();
  for (const auto& batch : run.batches(loader)) run.step(batch, loss);

  const double accuracy = accuracy_of(teacher);
  std::printf("accuracy of the teacher %.3f\nstate %s\n", accuracy, trainer.state_hash().c_str());
  if (!given) std::filesystem::remove_all(folder);
  return given || accuracy > 0.9 ? 0 : 1;
}
