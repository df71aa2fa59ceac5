// 9. Reinforcement learning: an actor and its critic learn in one step, from episodes that the actor has just played.
//
//     09_actor_critic [FOLDER STEPS]    trains or resumes a run in FOLDER
#include <binade.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

using namespace binade;

constexpr std::int64_t kEpisodes = 32, kMoves = 20, kActions = 3;

struct Net : nn::Module {  // state of the cart (B, 2) -> (B, out)
  nn::Linear in, out;
  explicit Net(std::int64_t size)
      : in({.in = 2, .out = 32, .activation = Activation::kGelu}), out({.in = 32, .out = size}) {}
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(in(x)); }
};

struct Batch {
  Tensor states, actions, returns;  // (kMoves kEpisodes, 2), one-hot (…, kActions), (…, 1)
  double reward = 0;                // mean over episodes
};

/// Plays episodes with the actor. A cart must come to rest at 0: the reward of a move is minus its squared distance.
/// The random numbers depend on seed and step alone, so that a resumed run plays the same episodes.
Batch play(Net& actor, std::uint64_t step) {
  const NoGradGuard no_gradients;
  const RandomStream draws{5, RngPurpose::kData, step};
  std::uint64_t drawn = 0;
  std::vector<float> position, velocity(kEpisodes), states, actions, rewards;
  for (std::int64_t e = 0; e < kEpisodes; ++e) position.push_back(2 * draws.uniform(drawn++) - 1);
  for (std::int64_t move = 0; move < kMoves; ++move) {
    std::vector<float> now;
    for (std::size_t e = 0; e < kEpisodes; ++e) now.insert(now.end(), {position[e], velocity[e]});
    states.insert(states.end(), now.begin(), now.end());
    const std::vector<float> p = softmax(actor(Tensor::from(now, {kEpisodes, 2}))).value().to_vector<float>();
    for (std::size_t e = 0; e < kEpisodes; ++e) {
      const float u = draws.uniform(drawn++);
      const int action = u < p[3 * e] ? 0 : u < p[3 * e] + p[3 * e + 1] ? 1 : 2;
      for (int a = 0; a < kActions; ++a) actions.push_back(a == action ? 1.f : 0.f);
      velocity[e] += 0.1f * static_cast<float>(action - 1);
      position[e] += 0.5f * velocity[e];
      rewards.push_back(-position[e] * position[e]);
    }
  }
  std::vector<float> returns = rewards;
  double sum = 0;
  for (const float r : rewards) sum += r / static_cast<double>(kEpisodes);
  for (std::size_t i = returns.size() - kEpisodes; i-- > 0;) returns[i] += 0.9f * returns[i + kEpisodes];
  const std::int64_t rows = kMoves * kEpisodes;
  return {Tensor::from(states, {rows, 2}), Tensor::from(actions, {rows, kActions}), Tensor::from(returns, {rows, 1}),
          sum};
}

int main(int argc, char** argv) {
  const bool given = argc == 3;
  const std::filesystem::path folder = given ? std::filesystem::path(argv[1])
                                             : std::filesystem::temp_directory_path() / "binade-09-actor-critic";
  if (!given) std::filesystem::remove_all(folder);

  Runtime runtime({.seed = 2});
  Net actor(kActions), critic(1);
  optim::AdamW actor_optimizer(actor, {.lr = 1e-2}), critic_optimizer(critic, {.lr = 1e-2});
  amp::Trainer trainer(runtime, {{"actor", actor}, {"critic", critic}},
                       {{.name = "actor", .optimizer = actor_optimizer},
                        {.name = "critic", .optimizer = critic_optimizer}},
                       {.clip_norm = 1});

  const auto critic_loss = [&](const Batch& b) { return huber(critic(b.states), b.returns); };
  const auto actor_loss = [&](const Batch& b) {
    const Variable advantage = Variable(b.returns) - critic(b.states).detach();
    const Variable log_p = log_softmax(actor(b.states));
    return -mean(sum(log_p * b.actions, {1}, true) * advantage) + 0.01 * mean(sum(exp(log_p) * log_p, {1}));
  };

  amp::TrainingRun run(
      trainer, {.folder = folder, .steps = given ? std::stol(argv[2]) : 150, .checkpoint_every = 25, .log_every = 50});
  run.resume_if_possible();
  const double before = play(actor, 0).reward;
  while (run.goes_on()) {
    const Batch episodes = play(actor, static_cast<std::uint64_t>(trainer.steps() + 1));
    run.step(episodes, amp::Phases(amp::phase(critic_optimizer, critic_loss), amp::phase(actor_optimizer, actor_loss)));
  }
  const double after = play(actor, 0).reward;
  std::printf("reward of an episode %.2f -> %.2f\nstate %s\n", before, after, trainer.state_hash().c_str());
  if (!given) std::filesystem::remove_all(folder);
  return given || after > 0.5 * before ? 0 : 1;
}
