#include "tests/resume/plan.h"

namespace binade::resume {

namespace {

constexpr int kThreads[] = {1, 2, 4, 8};

optim::Schedule draw_schedule(double lr, std::int64_t steps, Draws& draws) {
  const auto warmup = static_cast<std::int64_t>(draws.below(6));
  switch (draws.below(4)) {
    case 0: return optim::Schedule::constant(lr, warmup);
    case 1: return optim::Schedule::linear(lr, steps, lr / 10, warmup);
    case 2: return optim::Schedule::cosine(lr, steps, lr / 20, warmup);
    default: return optim::Schedule::plateau(lr, 0.5, 0, lr / 100);
  }
}

Trouble draw_trouble(const Plan& plan, Draws& draws) {
  std::vector<Trouble> possible = {Trouble::kNone, Trouble::kBadSample};
  if (plan.precision == "fp16")
    for (const Trouble one : {Trouble::kLargeScale, Trouble::kLargeProduct, Trouble::kLargeProduct})
      possible.push_back(one);
  return possible[draws.below(possible.size())];
}

double rate_of(const std::string& optimizer) {
  if (optimizer == "sgd") return 0.05;
  return optimizer == "lion" ? 5e-4 : 5e-3;
}

Plan draw_plan(const FamilyKind& family, const std::string& precision, const std::string& optimizer, Draws& draws) {
  Plan plan;
  plan.family = &family;
  plan.precision = precision;
  plan.optimizer = optimizer;
  plan.seed = 1 + draws.below(1000);
  plan.steps = 18 + static_cast<std::int64_t>(draws.below(20));
  plan.accumulate = 1 + static_cast<std::int64_t>(draws.below(3));
  plan.batch = 6 + static_cast<std::int64_t>(draws.below(6));
  plan.samples = 40 + static_cast<std::int64_t>(draws.below(60));
  plan.order = draws.one_in(3) ? io::SampleOrder::kRandomOffset : io::SampleOrder::kShuffled;
  plan.eval_every = 4 + static_cast<std::int64_t>(draws.below(6));
  plan.schedule = draw_schedule(rate_of(optimizer), plan.steps, draws);
  plan.clip = std::vector<std::string>{"", "norm", "value", "adaptive"}[draws.below(4)];
  plan.averages = draws.one_in(2);
  plan.ema = {.decay = 0.9, .warmup = draws.one_in(2)};
  plan.ema.debias = !plan.ema.warmup && draws.one_in(2);
  plan.nesterov = draws.one_in(2);
  plan.half_moments = (optimizer == "sgd" || optimizer == "lion") && draws.one_in(3);
  plan.trouble = draw_trouble(plan, draws);
  if (plan.trouble == Trouble::kLargeProduct) plan.clip = "norm";  // or its gradients ruin the weights
  plan.skips = plan.trouble == Trouble::kBadSample && draws.one_in(2);
  plan.trouble_at = 2 + static_cast<std::int64_t>(draws.below(5));
  return plan;
}

}  // namespace

const char* name_of(Trouble trouble) {
  switch (trouble) {
    case Trouble::kNone: return "no trouble";
    case Trouble::kBadSample: return "a bad sample";
    case Trouble::kLargeScale: return "a scale too large";
    case Trouble::kLargeProduct: return "products too large";
  }
  return "";
}

const std::vector<std::string>& precisions() {
  static const std::vector<std::string> all = {"fp32", "fp16", "bf16", "pure-bf16"};
  return all;
}

const std::vector<std::string>& optimizers() {
  static const std::vector<std::string> all = {"sgd", "adam", "adamw", "lion"};
  return all;
}

std::vector<Plan> draw_plans(std::uint64_t seed) {
  std::vector<Plan> plans;
  for (const FamilyKind& family : families())
    for (const std::string& precision : precisions())
      for (const std::string& optimizer : optimizers()) {
        Draws draws(seed * 1'000 + plans.size());
        plans.push_back(draw_plan(family, precision, optimizer, draws));
      }
  return plans;
}

std::vector<Life> draw_lives(const Plan& plan, Draws& draws) {
  std::vector<Life> lives(2 + draws.below(2));
  const auto most = static_cast<std::size_t>(plan.steps) / (lives.size() - 1);
  for (Life& life : lives) {
    life.threads = kThreads[draws.below(std::size(kThreads))];
    life.cut = static_cast<Cut>(draws.below(4));
    life.checkpoint_every = static_cast<std::int64_t>(draws.below(6));
    if (life.cut == Cut::kDeath) life.checkpoint_every += 1;
    life.keep = 1 + static_cast<int>(draws.below(3));
    life.prefetch = static_cast<int>(draws.below(3));
    life.calls = 1 + static_cast<std::int64_t>(draws.below(most - 1));
  }
  lives.back().calls = -1;
  return lives;
}

std::string Plan::to_string() const {
  return fmt::format(
      "{} {} {}: seed {}, {} steps of {} x {} out of {} samples ({}), {} schedule, clip '{}'{}{}{}, {}{}", family->name,
      precision, optimizer, seed, steps, accumulate, batch, samples,
      order == io::SampleOrder::kShuffled ? "shuffled" : "random offsets", optim::name_of(schedule.options().kind),
      clip, averages ? ", averages" : "", nesterov ? ", nesterov" : "", half_moments ? ", moments in bf16" : "",
      resume::name_of(trouble), skips ? ", skipped" : "");
}

std::string Life::to_string() const {
  static constexpr const char* kCuts[] = {"death", "signal", "signal in a step", "signal in an evaluation"};
  return fmt::format("{} threads, saving every {}, {}", threads, checkpoint_every,
                     calls < 0 ? "to the end" : fmt::format("{} at call {}", kCuts[static_cast<int>(cut)], calls));
}

}  // namespace binade::resume
