// Cart-pole (Barto, Sutton, Anderson, 1983) by proximal policy optimization (Schulman et al., 2017): an actor pushes
// carts left or right so that their poles stay upright, a critic predicts how long they will. Both have an optimizer
// and a loss, and each step updates both or none. Prints the mean number of moves, of 200, until a pole falls.
#include "examples/models/common.h"

using namespace binade;

constexpr double kDiscount = 0.98, kTrace = 0.95;

struct Net : nn::Sequential {  // state (B, 4) -> (B)
  explicit Net(int64_t width)
      : Sequential(nn::Linear({.in = 4, .out = width}), nn::Tanh(), nn::Linear({.in = width, .out = width}), nn::Tanh(),
                   nn::Linear({.in = width, .out = 1}), nn::Flatten({.first = 0})) {}
};

/// Position, speed, angle and angular speed (B, 4) after 20 ms of a force of 10 N times `push` (B).
Variable moved(const Variable& state, const Variable& push) {
  const std::vector<Variable> s = unbind(state, 1);
  const Variable sine = sin(s[2]), cosine = cos(s[2]), force = (10 * push + 0.05 * square(s[3]) * sine) / 1.1;
  const Variable turn = (9.8 * sine - cosine * force) / (2.0 / 3 - 0.05 * square(cosine) / 1.1);
  return state + 0.02 * stack({s[1], force - 0.05 * turn * cosine / 1.1, s[3], turn}, 1);
}

Variable fallen(const Variable& state) { return (abs(select(state, 1, 0)) > 2.4) | (abs(select(state, 1, 2)) > 0.21); }
Variable upright(int64_t carts) { return 0.1 * rand({carts, 4}) - 0.05; }

Variable chosen(Net& actor, const Variable& state) {
  return cast(rand({state.dim(0)}) < sigmoid(actor(state)), DType::f32);
}
Variable log_probability(Net& actor, const Variable& states, const Variable& actions) {
  return -bce_with_logits(actor(states), actions, {.reduction = Reduction::kNone});
}

struct Moves {
  Variable states, actions, log_p, advantages, returns;
};

/// Plays `count` moves of each cart. A cart that has fallen begins anew.
Moves play(Variable& state, Net& actor, Net& critic, int64_t count) {
  std::vector<Variable> states, actions, values, ends, advantages;
  for (int64_t i = 0; i < count; ++i) {
    states.push_back(state);
    values.push_back(critic(state));
    actions.push_back(chosen(actor, state));
    state = moved(state, 2 * actions.back() - 1);
    ends.push_back(fallen(state));
    state = where(unsqueeze(ends.back(), 1), upright(state.dim(0)), state);
  }
  Variable next = critic(state), sum = zeros_like(next.value());
  for (int64_t i = count - 1; i >= 0; --i) {
    const Variable on = kDiscount * logical_not(ends[i]);
    sum = 1 - kDiscount + on * next - values[i] + kTrace * on * sum;
    next = values[i];
    advantages.insert(advantages.begin(), sum);
  }
  const Variable s = concat(states, 0), a = concat(actions, 0), gain = concat(advantages, 0);
  return {s, a, log_probability(actor, s, a), (gain - mean(gain)) / (stddev(gain) + 1e-8), gain + concat(values, 0)};
}

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv, {{"steps", 60}, {"carts", 16}, {"moves", 64}, {"epochs", 4}, {"width", 32}});
  Runtime runtime(args.runtime());
  Net actor(args["width"]), critic(args["width"]);
  optim::Adam actor_optimizer(actor, {.lr = 3e-3}), critic_optimizer(critic, {.lr = 3e-3});
  amp::Trainer trainer(runtime, {{"actor", actor}, {"critic", critic}},
                       {{.name = "actor", .optimizer = actor_optimizer},
                        {.name = "critic", .optimizer = critic_optimizer}},
                       {.precision = args.policy(), .clip_norm = 1});
  const auto critic_loss = [&](const Moves& b) { return mse(critic(b.states), b.returns); };
  const auto actor_loss = [&](const Moves& b) {
    const Variable ratio = exp(log_probability(actor, b.states, b.actions) - b.log_p);
    return -mean(minimum(ratio * b.advantages, clamp(ratio, 0.8, 1.2) * b.advantages));
  };

  Variable state = upright(args["carts"]);
  for ([[maybe_unused]] const auto step : args.steps()) {
    const Moves moves = trainer.evaluate([&] { return play(state, actor, critic, args["moves"]); });
    for (int64_t epoch = 0; epoch < args["epochs"]; ++epoch)
      trainer.step(moves,
                   amp::Phases(amp::phase(critic_optimizer, critic_loss), amp::phase(actor_optimizer, actor_loss)));
  }

  Variable now = upright(64), up = ones({64});
  double moves = 0;
  for (int i = 0; i < 200; ++i) {
    now = trainer.evaluate([&] { return moved(now, 2 * chosen(actor, now) - 1); });
    up *= logical_not(fallen(now));
    moves += mean(up).item();
  }
  models::metric("moves", moves);
}
