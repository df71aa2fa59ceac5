// 8. Two players in one step: a generative adversarial network. Both updates are committed, or none.
//
//     08_gan [FOLDER STEPS]    trains or resumes a run in FOLDER
#include <binade.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numbers>

using namespace binade;

struct Net : nn::Module {  // (B, 2) -> (B, out)
  nn::Linear in, hidden, out;
  explicit Net(std::int64_t size)
      : in({.in = 2, .out = 48, .activation = Activation::kGelu}),
        hidden({.in = 48, .out = 48, .activation = Activation::kGelu}),
        out({.in = 48, .out = size}) {}
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("hidden", hidden);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(hidden(in(x))); }
};

struct Batch {
  Tensor real, noise;  // (B, 2): points of a circle of radius 1, and normal numbers
  io::BatchOrigin origin{};
};

io::Loader<Batch> circle() {
  return {{.batch = 64, .seed = 1, .samples = 4096}, [](const io::BatchOrigin& origin) {
            std::vector<float> real, noise;
            for (const std::int64_t sample : origin.samples) {
              const RandomStream draws{1, RngPurpose::kData, static_cast<std::uint64_t>(sample)};
              const double angle = 2 * std::numbers::pi * draws.uniform(0);
              real.insert(real.end(), {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
              for (std::uint64_t i : {2, 3}) noise.push_back(static_cast<float>(draws.normal(i)));
            }
            return Batch{Tensor::from(real, {64, 2}), Tensor::from(noise, {64, 2}), origin};
          }};
}

/// Returns the mean distance of the generator's points from the circle.
double distance_of(Net& generator, const Tensor& noise) {
  const NoGradGuard no_gradients;
  const std::vector<float> points = generator(noise).value().to_vector<float>();
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); i += 2) sum += std::abs(std::hypot(points[i], points[i + 1]) - 1);
  return 2 * sum / static_cast<double>(points.size());
}

int main(int argc, char** argv) {
  const bool given = argc == 3;
  const std::filesystem::path folder = given ? std::filesystem::path(argv[1])
                                             : std::filesystem::temp_directory_path() / "binade-08-gan";
  if (!given) std::filesystem::remove_all(folder);

  Runtime runtime({.seed = 1});
  Net critic(1), generator(2);
  optim::Adam critic_optimizer(critic, {.lr = 2e-3, .beta1 = 0.5}),
      generator_optimizer(generator, {.lr = 1e-3, .beta1 = 0.5});
  amp::Trainer trainer(
      runtime, {{"critic", critic}, {"generator", generator}},
      {{.name = "critic", .optimizer = critic_optimizer},
       {.name = "generator", .optimizer = generator_optimizer, .ema = optim::EmaOptions{.decay = 0.99}}},
      {.precision = amp::Policy::bf16()});

  // Each phase computes a loss and updates one player. The second one reads the critic that the first one has updated.
  const Tensor real = Tensor::full({64, 1}, 1), made = Tensor::full({64, 1}, 0);
  const auto judge = [&](const Batch& b) {
    return bce_with_logits(critic(b.real), real) + bce_with_logits(critic(generator(b.noise).detach()), made);
  };
  const auto deceive = [&](const Batch& b) { return bce_with_logits(critic(generator(b.noise)), real); };

  io::Loader<Batch> loader = circle();
  amp::TrainingRun run(
      trainer, {.folder = folder, .steps = given ? std::stol(argv[2]) : 600, .checkpoint_every = 50, .log_every = 200});
  run.resume_if_possible();
  const Tensor noise = circle().next().noise;
  const double before = distance_of(generator, noise);
  for (const auto& batch : run.batches(loader))
    run.step(batch, amp::Phases(amp::phase(critic_optimizer, judge), amp::phase(generator_optimizer, deceive)));

  const double after = trainer.evaluate([&] { return distance_of(generator, noise); });
  std::printf("distance from the circle %.3f -> %.3f\nstate %s\n", before, after, trainer.state_hash().c_str());
  if (!given) std::filesystem::remove_all(folder);
  return given || after < 0.3 * before ? 0 : 1;
}
