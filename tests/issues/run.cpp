#include <cmath>

#include "tests/issues/issue.h"

namespace binade::issues {
namespace {

struct Formula : nn::Module {
  void visit(nn::Visitor&) override {}
};

struct Single : nn::Module {
  explicit Single(const Tensor& start) : value(start) {}
  void visit(nn::Visitor& v) override { v("value", value); }
  nn::Parameter value;
};

Tensor rows_left(const Tensor& tensor, std::span<const std::int64_t> rows) {
  return tensor.defined() ? io::without_rows(tensor, rows) : tensor;
}

bool all_finite(const Tensor& tensor) {
  for (const double value : tensor.to_vector<double>())
    if (!std::isfinite(value)) return false;
  return true;
}

void collect(Run& run, const amp::StepResult& result) {
  for (const amp::Incident* incident : result.incidents()) run.incidents.push_back(*incident);
  for (const amp::Warning& warning : result.warnings) run.warnings.push_back(warning);
}

}  // namespace

Batch Batch::without(std::span<const std::int64_t> rows) const {
  return {rows_left(x, rows), rows_left(y, rows), rows_left(z, rows), origin.without(rows)};
}

nn::Module& Net::formula(const std::string& name) {
  parts.emplace_back(name, std::make_unique<Formula>());
  return *parts.back().second;
}

nn::Parameter& Net::parameter(const std::string& name, const Tensor& value) { return add<Single>(name, value).value; }

void Run::fault_between(const std::function<Batch(std::uint64_t)>& healthy, const Batch& faulty) {
  for (const std::uint64_t seed : {1, 2}) steps.push_back({{healthy(seed)}});
  steps.push_back({{faulty}});
  for (const std::uint64_t seed : {3, 4}) steps.push_back({{healthy(seed)}});
}

void Run::repeat(std::int64_t count, const std::function<Batch(std::uint64_t)>& draw) {
  for (std::int64_t i = 1; i <= count; ++i) steps.push_back({{draw(static_cast<std::uint64_t>(i))}});
}

double Run::loss_in_double(const Batch& batch) {
  const auto wide = [](const Tensor& t) { return t.defined() && t.dtype() == DType::f32 ? t.to(DType::f64) : t; };
  const NoGradGuard no_grad;
  std::vector<Tensor> kept;
  for (auto& [name, parameter] : nn::named_parameters(net)) {
    kept.push_back(parameter->value());
    parameter->mutable_value() = wide(parameter->value());
  }
  const double result = loss({wide(batch.x), wide(batch.y), wide(batch.z), batch.origin}).item();
  std::size_t next = 0;
  for (auto& [name, parameter] : nn::named_parameters(net)) parameter->mutable_value() = kept[next++];
  return result;
}

void Run::train(Runtime& runtime) {
  const std::unique_ptr<optim::Optimizer> updates = optimizer
                                                        ? optimizer(net)
                                                        : std::make_unique<optim::Adam>(net,
                                                                                        optim::AdamOptions{.lr = 1e-3});
  amp::Trainer trainer(runtime, net, *updates, options);
  for (const amp::MicroBatches<Batch>& step : steps) {
    try {
      const amp::StepResult result = trainer.step(step, loss);
      trainer.finished();
      collect(*this, result);
      last_committed = result.committed;
      committed += result.committed ? 1 : 0;
    } catch (const Error& e) {
      if (error.empty()) error = e.what();
      last_committed = false;
      for (const amp::StepResult& result : trainer.finished()) collect(*this, result);
    }
  }
  if (afterwards) afterwards(trainer);
  for (auto& [name, parameter] : nn::named_parameters(net)) state_finite &= all_finite(parameter->value());
  for (auto& [name, buffer] : nn::named_buffers(net)) state_finite &= all_finite(buffer->committed());
}

Tensor normal(std::uint64_t seed, const Shape& shape, double scale) {
  const RandomStream draws{seed, RngPurpose::kData};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(scale * draws.normal(i));
  return Tensor::from(values, shape);
}

Tensor labels(std::uint64_t seed, const Shape& shape, std::int64_t classes) {
  const RandomStream draws{seed, RngPurpose::kShuffle};
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(draws.below(i, static_cast<std::uint64_t>(classes)));
  return Tensor::from(ids, shape);
}

Batch batch_of(Tensor x, Tensor y, Tensor z) {
  Batch batch{std::move(x), std::move(y), std::move(z), {}};
  for (std::int64_t i = 0; i < batch.x.dim(0); ++i) batch.origin.samples.push_back(100 + i);
  return batch;
}

void fill_row(Tensor& tensor, std::int64_t row, double value) { tensor.narrow(row, 1).fill(value); }

amp::Policy half_in(const std::string& glob) { return amp::Policy::fp16().with(glob, DType::f16); }

double to_half(double value) { return Tensor::scalar(value).to(DType::f16).at(0); }

}  // namespace binade::issues
