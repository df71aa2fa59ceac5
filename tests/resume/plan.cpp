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

Fault draw_fault(const Plan& plan, Draws& draws) {
  std::vector<Fault> possible = {Fault::kNone, Fault::kBadSample};
  if (plan.precision == "fp16")
    for (const Fault one : {Fault::kLargeScale, Fault::kLargeProduct, Fault::kLargeProduct}) possible.push_back(one);
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
  plan.bf16_moments = (optimizer == "sgd" || optimizer == "lion") && draws.one_in(3);
  plan.fault = draw_fault(plan, draws);
  if (plan.fault == Fault::kLargeProduct) plan.clip = "norm";  // otherwise the large gradients would ruin the weights
  plan.skips = plan.fault == Fault::kBadSample && draws.one_in(2);
  plan.fault_at = 2 + static_cast<std::int64_t>(draws.below(5));
  return plan;
}

}  // namespace

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "no fault";
    case Fault::kBadSample: return "a bad sample";
    case Fault::kLargeScale: return "a scale too large";
    case Fault::kLargeProduct: return "products too large";
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

std::vector<Session> draw_sessions(const Plan& plan, Draws& draws) {
  std::vector<Session> sessions(2 + draws.below(2));
  const auto most = static_cast<std::size_t>(plan.steps) / (sessions.size() - 1);
  for (Session& session : sessions) {
    session.threads = kThreads[draws.below(std::size(kThreads))];
    session.cut = static_cast<Cut>(draws.below(4));
    session.checkpoint_every = static_cast<std::int64_t>(draws.below(6));
    if (session.cut == Cut::kDeath) session.checkpoint_every += 1;
    session.keep = 1 + static_cast<int>(draws.below(3));
    session.prefetch = static_cast<int>(draws.below(3));
    session.calls = 1 + static_cast<std::int64_t>(draws.below(most - 1));
  }
  sessions.back().calls = -1;
  return sessions;
}

std::string Plan::to_string() const {
  return fmt::format(
      "{} {} {}: seed {}, {} steps of {} x {} out of {} samples ({}), {} schedule, clip '{}'{}{}{}, {}{}", family->name,
      precision, optimizer, seed, steps, accumulate, batch, samples,
      order == io::SampleOrder::kShuffled ? "shuffled" : "random offsets", optim::name_of(schedule.options().kind),
      clip, averages ? ", averages" : "", nesterov ? ", nesterov" : "", bf16_moments ? ", moments in bf16" : "",
      resume::name_of(fault), skips ? ", skipped" : "");
}

std::string Session::to_string() const {
  static constexpr const char* kCuts[] = {"death", "signal", "signal in a step", "signal in an evaluation"};
  return fmt::format("{} threads, saving every {}, {}", threads, checkpoint_every,
                     calls < 0 ? "to the end" : fmt::format("{} at call {}", kCuts[static_cast<int>(cut)], calls));
}

}  // namespace binade::resume
