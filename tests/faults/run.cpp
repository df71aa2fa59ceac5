#include "tests/faults/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

#include "binade/amp/verdict.h"
#include "binade/core/crc32c.h"
#include "tests/faults/score.h"

namespace binade::faults {
namespace {

constexpr std::int64_t kCheckpointEvery = 3;
constexpr std::int64_t kHeldOut = 1'000'000;  // first id of the held-out samples
constexpr std::int64_t kRunSeeds = 3;         // few, so that cases share control runs

Spot draw_spot(const Family& family, const RandomStream& random) {
  const auto below = [&](std::uint64_t i, std::size_t n) { return static_cast<std::size_t>(random.below(i, n)); };
  Spot s;
  s.model = family.models[below(0, family.models.size())];
  s.precision = family.precisions[below(1, family.precisions.size())];
  s.seed = 1 + random.below(2, kRunSeeds);
  s.step = 4 + static_cast<std::int64_t>(random.below(3, kSteps - 7));
  s.micro_batches = family.micro_batches;
  s.row = static_cast<std::int64_t>(random.below(4, static_cast<std::uint64_t>(s.rows() * s.micro_batches)));
  s.site = static_cast<int>(random.below(5, kSites));
  s.choices = random;
  s.choices.index += 1;
  return s;
}

Now look(const Spot& spot, const io::BatchOrigin& origin) {
  Now now{.rows = static_cast<std::int64_t>(origin.samples.size())};
  const auto marked = std::ranges::find(origin.samples, spot.sample_id());
  if (marked != origin.samples.end()) now.row = marked - origin.samples.begin();
  const std::int64_t step_rows = spot.rows() * spot.micro_batches, first = (spot.step - 1) * step_rows;
  for (const std::int64_t id : origin.samples) {
    now.reached = now.reached || id >= first;
    now.marked_batch = now.marked_batch || (id >= first && id < first + step_rows);
  }
  return now;
}

/// A training program with the plan's fault.
class Program {
 public:
  Program(const Spot& spot, const Plan& plan)
      : spot_(spot),
        plan_(plan),
        runtime_({.seed = spot.seed, .threads = 1}),
        model_(make_model(spot.model, plan.composed)),
        optimizer_(*initialized(), {.lr = peak_rate_of(spot.model), .eps = plan.adam_eps}),
        trainer_(runtime_, *model_, optimizer_, options()),
        loader_(loader_options(), [this](const io::BatchOrigin& origin) { return read(origin); }) {
    if (plan_.site)
      model_->extra[static_cast<std::size_t>(spot_.site)].code = [this](const Variable& x) {
        return active() ? plan_.site(x, now_) : x;
      };
  }

  /// On the micro-batch with the marked sample.
  amp::PreflightReport preflight() {
    if (plan_.state) plan_.state(*model_, optimizer_, trainer_);
    io::BatchOrigin origin;
    for (std::int64_t i = 0; i < spot_.rows(); ++i)
      origin.samples.push_back(spot_.sample_id() - spot_.row % spot_.rows() + i);
    Batch batch = read(origin);
    batch.origin = origin;
    return trainer_.preflight(batch, [this](const Batch& b) { return loss(b); });
  }

  Run run() {
    Run run;
    bool struck = false;
    std::int64_t reads = 0;
    trainer_.set_recovery([this](std::int64_t newest, std::int64_t after) { return recovery_point(newest, after); });
    try {
      for (const auto& batch : trainer_.batches(loader_)) {
        if (plan_.state && !struck && trainer_.steps() + 1 == spot_.step) {
          plan_.state(*model_, optimizer_, trainer_);
          struck = true;
        }
        remember();
        trainer_.step(batch, [this](const Batch& b) { return loss(b); });
        if (++reads > 4 * kSteps) throw NumericError("no end: four times as many batches as steps");
      }
    } catch (const Error& error) {
      run.error = error.what();
    }
    run.attempts = trainer_.finished();
    run.committed = trainer_.steps();
    run.final_loss = run.committed == kSteps ? held_out_loss() : std::nan("");
    return run;
  }

 private:
  Model* initialized() {
    if (plan_.initialize) plan_.initialize(*model_);
    return model_.get();
  }

  amp::TrainerOptions options() const {
    return {.precision = amp::Policy::by_name(spot_.precision),
            .loss_scale = plan_.loss_scale,
            .schedule = optim::Schedule::cosine(peak_rate_of(spot_.model), kSteps),
            .clip_norm = 1,
            .accumulate = spot_.micro_batches,
            .steps = kSteps,
            .state_hash = true,
            .inject = plan_.inject};
  }

  io::LoaderOptions loader_options() const {
    return {.batch = spot_.rows(),
            .seed = spot_.seed,
            .order = io::SampleOrder::kSequential,
            .samples = 5 * kSteps * spot_.rows() * spot_.micro_batches,
            .content = "faults",
            .prefetch = 0};
  }

  /// Keeps a recovery point every few steps, as a run's checkpoints do, if all its values are finite.
  void remember() {
    if (trainer_.steps() % kCheckpointEvery != 0 || (!points_.empty() && points_.back().step >= trainer_.steps()))
      return;
    StateDict state = trainer_.state();
    for (const auto& [name, value] : state.values())
      if (const auto* tensor = std::get_if<Tensor>(&value); tensor != nullptr && !amp::all_finite(*tensor)) return;
    points_.push_back({trainer_.steps(), fmt::format("step {}", trainer_.steps()), std::move(state)});
  }
  std::optional<amp::RecoveryPoint> recovery_point(std::int64_t newest, std::int64_t after) const {
    for (auto point = points_.rbegin(); point != points_.rend(); ++point)
      if (point->step <= newest && point->step > after) return *point;
    return std::nullopt;
  }

  Batch read(const io::BatchOrigin& origin) const {
    Batch b = make_batch(spot_.model, spot_.seed, origin.samples);
    const Now now = look(spot_, origin);
    if (plan_.data && now.here()) plan_.data(b, now);
    return b;
  }

  bool active() const {
    switch (plan_.strikes) {
      case Plan::Strikes::kSample: return now_.here();
      case Plan::Strikes::kBatch: return now_.marked_batch;
      case Plan::Strikes::kAlways: return now_.reached;
    }
    return false;
  }

  Variable loss(const Batch& b) {
    const std::int64_t runs = now_.runs;
    now_ = look(spot_, b.origin);
    now_.runs = runs + (now_.here() ? 1 : 0);
    const Variable logits = (*model_)(b.x);
    const Variable loss = model_->loss(logits, b.y);
    return plan_.loss && active() ? plan_.loss(loss, logits, b, now_) : loss;
  }

  double held_out_loss() {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(8 * spot_.rows()));
    std::iota(ids.begin(), ids.end(), kHeldOut);
    const Batch b = make_batch(spot_.model, spot_.seed, ids);
    return trainer_.evaluate([&] { return model_->loss((*model_)(b.x), b.y).item(); });
  }

  const Spot& spot_;
  const Plan& plan_;
  Now now_;
  Runtime runtime_;
  std::unique_ptr<Model> model_;
  optim::AdamW optimizer_;
  amp::Trainer trainer_;
  io::Loader<Batch> loader_;
  std::vector<amp::RecoveryPoint> points_;  // ascending
};

}  // namespace

std::vector<Case> draw_cases(const std::vector<Family>& families, std::uint64_t seed, std::int64_t count,
                             const std::string& name) {
  std::vector<const Family*> chosen;
  for (const Family& family : families)
    if (std::string_view(family.name).find(name) != std::string_view::npos) chosen.push_back(&family);
  std::vector<Case> cases;
  for (std::int64_t i = 0; i < count && !chosen.empty(); ++i) {
    const Family& family = *chosen[static_cast<std::size_t>(i) % chosen.size()];
    // The random stream is keyed by the family's name, so a family has the same cases alone as among all.
    const std::uint32_t key = crc32c(family.name, std::strlen(family.name));
    const std::uint64_t turn = static_cast<std::uint64_t>(i) / chosen.size();
    cases.push_back({&family, draw_spot(family, {seed, RngPurpose::kSampling, turn, 0, 2 * (key / 2)})});
  }
  return cases;
}

Run train(const Spot& spot, const Plan& plan) {
  const auto begin = std::chrono::steady_clock::now();
  Run run = Program(spot, plan).run();
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return run;
}

amp::PreflightReport preflight(const Spot& spot, const Plan& plan) { return Program(spot, plan).preflight(); }

double Controls::final_loss(const Spot& spot, const Plan& plan) {
  const auto key = std::tuple(spot.model, spot.precision, spot.seed, spot.micro_batches, plan.composed);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  Plan healthy;
  healthy.composed = plan.composed;
  return known_[key] = train(spot, healthy).final_loss;
}

Score judge(const Case& c, Controls& controls) {
  const Plan plan = c.family->plant(c.spot);
  const double control = controls.final_loss(c.spot, plan);
  const Run run = train(c.spot, plan);
  Score score = compare(plan.card, run, control);
  score.family = c.family->name;
  score.theme = c.family->theme;
  score.spot = c.spot;
  return score;
}

}  // namespace binade::faults
