#include "tests/truth/session.h"

#include <algorithm>
#include <cstring>

namespace binade::truth {

namespace {

using Parameters = std::vector<optim::NamedParameter>;

Parameters trained_parameters(const SessionOptions& o, nn::Module& net) {
  Parameters trained;
  for (optim::NamedParameter& one : optim::parameters_of(net)) {
    const bool frozen = std::any_of(o.frozen.begin(), o.frozen.end(),
                                    [&](const std::string& prefix) { return one.name.starts_with(prefix); });
    if (frozen)
      one.variable.requires_grad(false);
    else
      trained.push_back(std::move(one));
  }
  return trained;
}

std::unique_ptr<optim::Optimizer> optimizer_of(const SessionOptions& o, Parameters trained, double lr) {
  if (o.sgd) return std::make_unique<optim::Sgd>(std::move(trained), optim::SgdOptions{.lr = lr});
  return std::make_unique<optim::AdamW>(std::move(trained), optim::AdamWOptions{.lr = lr});
}

std::string bytes_of(const StateDict::Value& value) {
  const auto raw = [](const void* from, std::size_t size) { return std::string(static_cast<const char*>(from), size); };
  if (const auto* t = std::get_if<Tensor>(&value)) {
    if (!t->defined()) return {};
    const Tensor flat = t->contiguous_copy();
    return raw(flat.raw(), flat.bytes());
  }
  if (const auto* i = std::get_if<std::int64_t>(&value)) return raw(i, sizeof *i);
  if (const auto* d = std::get_if<double>(&value)) return raw(d, sizeof *d);
  if (const auto* s = std::get_if<std::string>(&value)) return *s;
  if (const auto* v = std::get_if<StateDict::Integers>(&value)) return raw(v->data(), v->size() * sizeof v->front());
  const auto& numbers = std::get<StateDict::Numbers>(value);
  return raw(numbers.data(), numbers.size() * sizeof(double));
}

}  // namespace

const std::vector<std::string>& ways() {
  static const std::vector<std::string> all{"plain", "micro-batches", "threads", "recompute", "phases", "tied"};
  return all;
}

const amp::Incident* Outcome::incident() const {
  for (const amp::StepResult& r : attempts)
    if (r.incident) return &*r.incident;
  return nullptr;
}

Session::Session(const SessionOptions& options)
    : options_(options),
      entry_(model_named(options.model)),
      runtime_({.seed = options.seed, .threads = options.way == "threads" ? 2 : 1}) {
  options_.task.seed = options.seed;
  options_.task.tied = options.way == "tied";
  task_ = entry_.make(options_.task);
  if (nn::Module* outside = task_->outside()) nn::assign_paths(*outside, "outside");
  const double lr = options.lr > 0 ? options.lr : entry_.lr;
  Parameters trained = trained_parameters(options_, task_->net());
  if (options.way == "phases") {
    const auto half = trained.begin() + std::ssize(trained) / 2;
    second_optimizer_ = optimizer_of(options_, Parameters(half, trained.end()), lr);
    trained.erase(half, trained.end());
  }
  optimizer_ = optimizer_of(options_, std::move(trained), lr);
  amp::TrainerOptions trainer{.precision = policy()};
  trainer.loss_scale = options.loss_scale;
  trainer.schedule = options.schedule;
  trainer.clip_norm = options.clip_norm;
  trainer.on_nan = options.on_nan;
  if (options.ema) trainer.ema = optim::EmaOptions{.decay = 0.95};
  std::vector<amp::NamedOptimizer> optimizers{{.name = "first", .optimizer = *optimizer_}};
  if (second_optimizer_) optimizers.push_back({.name = "second", .optimizer = *second_optimizer_});
  trainer_ = second_optimizer_ ? std::make_unique<amp::Trainer>(runtime_, task_->net(), std::move(optimizers), trainer)
                               : std::make_unique<amp::Trainer>(runtime_, task_->net(), *optimizer_, trainer);
  loader_ = std::make_unique<io::Loader<Batch>>(
      io::LoaderOptions{.batch = options.batch, .seed = options.seed, .samples = options.samples, .prefetch = 0},
      [this](const io::BatchOrigin& origin) {
        Batch batch = task_->batch(origin);
        for (std::size_t row = 0; row < origin.samples.size(); ++row)
          if (spoiled_.contains(origin.samples[row])) damage_(batch, static_cast<std::int64_t>(row));
        return batch;
      });
  trainer_->attach(*loader_);
  trainer_->set_recovery([this](std::int64_t newest, std::int64_t after) -> std::optional<amp::RecoveryPoint> {
    for (auto point = points_.rbegin(); point != points_.rend(); ++point)
      if (point->step > after && point->step <= newest) return *point;
    return std::nullopt;
  });
}

double Session::scale() const { return trainer_->scaler().scale(); }

Batch Session::held_out_batch() const {
  io::BatchOrigin origin;
  for (std::int64_t i = 0; i < 32; ++i) origin.samples.push_back(1'000'000 + i);
  return task_->batch(origin);
}

Variable Session::loss(const Batch& batch) {
  if (options_.way != "recompute") return task_->run(batch);
  const Variable zero(Tensor::zeros({}), true);
  return recompute([this, batch](const Variable& z) { return task_->run(batch) + 0.0 * z; }, zero);
}

void Session::take_step(const Batch& batch) {
  const auto closure = [this](const Batch& b) { return loss(b); };
  if (options_.way == "phases") {
    trainer_->step(batch, amp::Phases(amp::phase(*optimizer_, closure), amp::phase(*second_optimizer_, closure)));
    return;
  }
  if (options_.way != "micro-batches" || batch.samples() < 2) {
    trainer_->step(batch, closure);
    return;
  }
  std::vector<std::int64_t> first, second;
  for (std::int64_t row = 0; row < batch.samples(); ++row)
    (row < (batch.samples() + 1) / 2 ? first : second).push_back(row);
  trainer_->step(amp::MicroBatches<Batch>{{batch.without(second), batch.without(first)}}, closure);
}

Outcome Session::step(const Batch& batch) {
  Outcome outcome;
  const auto fail = [&](const char* type, const std::exception& error) {
    outcome.thrown = type;
    outcome.error = error.what();
  };
  try {
    take_step(batch);
  } catch (const NumericError& error) {
    fail("NumericError", error);
  } catch (const DataError& error) {
    fail("DataError", error);
  } catch (const Error& error) {
    fail("Error", error);
  }
  outcome.attempts = trainer_->finished();
  return outcome;
}

std::optional<Outcome> Session::train(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    if (Outcome outcome = step(next()); outcome.alarmed()) return outcome;
  return std::nullopt;
}

double Session::held_out() {
  if (options_.ema) return trainer_->evaluate([this] { return task_->run(held_out_batch()).item(); });
  const NoGradGuard no_grad;
  const PolicyScope scope(amp::Policy::fp32());
  task_->net().eval();
  const double loss = task_->run(held_out_batch()).item();
  task_->net().train();
  return loss;
}

void Session::damage_sample(Batch& batch, std::int64_t row, const Damage& damage) {
  damage(batch, row);
  damage_ = damage;
  spoiled_.insert(batch.origin.samples[static_cast<std::size_t>(row)]);
}

void Session::keep_recovery_point() {
  const std::int64_t step = trainer_->steps();
  points_.push_back({step, "step " + std::to_string(step), trainer_->state()});
}

std::map<std::string, std::string> Session::state_bytes() {
  std::map<std::string, std::string> bytes;
  // An abort may only lower the loss scale and increase the counters.
  const StateDict state = trainer_->state();
  for (const auto& [name, value] : state.values())
    if (!name.starts_with("amp/") && !name.starts_with("progress/")) bytes[name] = bytes_of(value);
  return bytes;
}

}  // namespace binade::truth
