#include "binade/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "binade/autograd/functions/shape.h"
#include "binade/autograd/grad.h"
#include "binade/autograd/node.h"
#include "binade/core/error.h"
#include "binade/core/random.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

using Function = std::function<Variable(const std::vector<Variable>&)>;

/// Returns a copy of `x`, a channel slice, in another dtype or on another device, again as a channel slice with the
/// same pitch.
Tensor slice_like(const Tensor& x, DType dtype, Device device) {
  Tensor wide = Tensor::zeros(x.shape().with_dim(-1, x.pitch()), dtype, device);
  Tensor slice = wide.channel_slice(x.pitch() - x.shape().cols(), x.shape().cols());
  slice.copy_from(x.to(device));
  return slice;
}

/// Returns the tensor in f64 with the same shape and pitch, so that kernels read the same layout.
Tensor in_double(const Tensor& x) {
  if (!is_floating(x.dtype())) return x;
  if (x.contiguous()) return x.dtype() == DType::f64 ? x.clone() : x.to(DType::f64);
  return slice_like(x, DType::f64, Device::cpu());
}

double* element(Tensor& x, std::int64_t i) {
  return x.mutable_data<double>() + i / x.shape().cols() * x.pitch() + i % x.shape().cols();
}

/// Returns values between 0.25 and 1.25 of random sign.
Tensor cotangent_for(const Tensor& y, const RandomStream& stream) {
  Tensor g = Tensor::empty(y.shape(), DType::f64);
  for (std::int64_t i = 0; i < g.numel(); ++i)
    *element(g, i) = (0.25 + stream.uniform(static_cast<std::uint64_t>(2 * i))) *
                     ((stream.word(static_cast<std::uint64_t>(2 * i + 1)) & 1u) != 0 ? 1 : -1);
  return g;
}

double dot(const Tensor& any, const Tensor& b) {
  const Tensor a = any.to(Device::cpu()).contiguous_copy();
  return std::inner_product(a.data<double>(), a.data<double>() + a.numel(), b.data<double>(), 0.0);
}

std::vector<std::int64_t> elements_to_check(std::int64_t count, int most, const RandomStream& stream) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(std::min<std::int64_t>(count, most)));
  std::iota(elements.begin(), elements.end(), 0);
  if (count > most)
    for (std::size_t i = 0; i < elements.size(); ++i)
      elements[i] = static_cast<std::int64_t>(stream.below(i, static_cast<std::uint64_t>(count)));
  return elements;
}

}  // namespace

Tensor placed(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  if (x.contiguous()) return x.to(device);
  return slice_like(x, x.dtype(), device);
}

GradcheckResult gradcheck(const Function& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  const OpNumbers first = step_context().next;
  std::vector<Tensor> values;  // on the host, where elements are changed
  for (const Tensor& x : inputs) values.push_back(in_double(placed(x, Device::cpu())));
  const auto variables_now = [&] {
    std::vector<Variable> variables;
    for (const Tensor& x : values) variables.emplace_back(placed(x, options.device), is_floating(x.dtype()));
    return variables;
  };
  const auto run = [&](const std::vector<Variable>& x) {
    step_context().next = first;
    return f(x);
  };
  const std::vector<Variable> variables = variables_now();
  const Variable y = run(variables);
  check<AutogradError>(y.dtype() == DType::f64, "gradcheck: wanted an f64 output of f64 inputs, got {}",
                       name_of(y.dtype()));
  const std::string op = y.state()->node ? y.state()->node->info().name : "a constant";
  const Tensor cotangent = cotangent_for(y.value(), {.seed = options.seed, .purpose = RngPurpose::kData});
  if (y.requires_grad()) backward(y, cotangent.to(options.device));

  GradcheckResult result;
  const NoGradGuard no_grad;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (!is_floating(inputs[k].dtype())) continue;
    Tensor& x = values[k];
    const Tensor gradient = variables[k].grad().defined() ? variables[k].grad().to(Device::cpu()) : Tensor();
    const RandomStream draw{
        .seed = options.seed, .purpose = RngPurpose::kData, .index = static_cast<std::uint32_t>(k + 1)};
    for (const std::int64_t i : elements_to_check(x.numel(), options.max_elements, draw)) {
      const double before = *element(x, i);
      const double h = options.step * std::max(1.0, std::abs(before));
      *element(x, i) = before + h;
      const double up = dot(run(variables_now()).value(), cotangent);
      *element(x, i) = before - h;
      const double down = dot(run(variables_now()).value(), cotangent);
      *element(x, i) = before;
      const double difference = (up - down) / (2 * h);
      const double got = gradient.defined() ? gradient.at(i) : 0;
      ++result.checked;
      const double noise = 0x1p-48 * (std::abs(up) + std::abs(down)) / h;  // rounding error of the quotient
      if (std::abs(got - difference) <= options.atol + options.rtol * std::abs(difference) + noise)
        continue;  // a NaN does not pass, because comparisons with it are false
      result.passed = false;
      result.message = fmt::format(
          "gradcheck of {}: input {} {}, element {}: backward gives {:.10g}, the difference quotient {:.10g}", op, k,
          x.shape(), x.shape().position(i), got, difference);
      return result;
    }
  }
  return result;
}

GradcheckResult gradgradcheck(const Function& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  const OpNumbers first = step_context().next;
  const auto trained = [](const std::vector<Variable>& x) {
    std::vector<Variable> leaves;
    std::ranges::copy_if(x, std::back_inserter(leaves), [](const Variable& one) { return one.requires_grad(); });
    return leaves;
  };
  std::vector<Variable> x;
  for (const Tensor& value : inputs)
    x.emplace_back(placed(in_double(value), options.device), is_floating(value.dtype()));
  const auto gradients = [&](bool create_graph, const Variable& y, const Variable& cotangent) {
    return grad({y}, trained(x), {.grad_outputs = {cotangent}, .create_graph = create_graph, .allow_unused = true});
  };
  Variable y = f(x);
  if (!y.requires_grad()) return {};
  const Tensor cotangent = cotangent_for(y.value(), {.seed = options.seed, .purpose = RngPurpose::kData});
  const Variable seed = cotangent.to(options.device);
  const std::vector<Variable> got = gradients(true, y, seed);
  const std::string op = y.state()->node ? y.state()->node->info().name : "a constant";
  step_context().next = first;
  y = f(x);
  const std::vector<Variable> expected = gradients(false, y, seed);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    for (std::int64_t i = 0; expected[k].defined() && i < expected[k].value().numel(); ++i) {
      const double want = expected[k].value().on_host().at(i), recorded = got[k].value().on_host().at(i);
      if (std::abs(want - recorded) <= options.atol + options.rtol * std::abs(want)) continue;
      return {.passed = false,
              .message = fmt::format("gradgradcheck of {}: gradient {} {}, element {}: backward gives {:.10g}, the "
                                     "recorded derivative {:.10g}",
                                     op, k, expected[k].shape(), expected[k].shape().position(i), want, recorded)};
    }
  }
  const auto gradient_of = [&](const std::vector<Variable>& all) {
    const GradGuard recorded;  // gradcheck() computes differences without a tape
    const std::vector<Variable> arguments(all.begin(), all.end() - 1);
    std::vector<Variable> flat;
    for (const Variable& g : grad({f(arguments)}, trained(arguments),
                                  {.grad_outputs = {all.back()}, .create_graph = true, .allow_unused = true}))
      if (g.defined()) flat.push_back(reshape(g, {g.value().numel()}));
    return concat(flat, 0);
  };
  std::vector<Tensor> all = inputs;
  all.push_back(cotangent);
  step_context().next = first;
  GradcheckResult result = gradcheck(gradient_of, all, options);
  if (!result.passed) result.message = fmt::format("second derivative of {}: {}", op, result.message);
  return result;
}

}  // namespace binade
