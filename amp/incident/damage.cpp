#include "binade/amp/incident/damage.h"

#include <fmt/format.h>

#include "binade/amp/text.h"

namespace binade::amp {
namespace {

FirstBad in_parameter(const std::string& path, std::string direction, std::int64_t step) {
  FirstBad bad;
  bad.module = module_of(path);
  bad.direction = std::move(direction);
  bad.parameter = path;
  bad.step = step;
  return bad;
}

std::optional<FirstBad> damage_in(const Tensor& tensor, const std::string& what, const std::string& path,
                                  std::int64_t step) {
  const NonFiniteScan scan = scan_non_finite(tensor);
  if (scan.finite()) return std::nullopt;
  FirstBad bad = in_parameter(path, "state", step - 1);
  bad.tensor = what;
  bad.dtype = name_of(tensor.dtype());
  describe_element(bad, tensor, scan.position);
  return bad;
}

std::optional<FirstBad> negative_in(const Tensor& tensor, const std::string& what, const std::string& path,
                                    std::int64_t step) {
  const Tensor values = tensor.on_host();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    if (!(values.at(i) < 0)) continue;
    FirstBad bad = in_parameter(path, "state", step - 1);
    bad.tensor = "root of " + what;
    bad.dtype = name_of(tensor.dtype());
    describe_element(bad, tensor, i);
    bad.value = "nan";
    return bad;
  }
  return std::nullopt;
}

std::optional<FirstBad> damage_in_moments(const optim::Optimizer& optimizer, std::int64_t step) {
  const StateDict moments = optimizer.state();
  const optim::UpdateFacts facts = optimizer.facts();
  const std::string under_root = facts.divides_by_root ? fmt::format("moment{}/", facts.root_moment) : "none";
  for (const auto& [name, value] : moments.values()) {
    const auto* tensor = std::get_if<Tensor>(&value);
    // Skips averages that the optimizer computes itself: they would only show the same damage again.
    if (tensor == nullptr || name.starts_with("ema/")) continue;
    const std::string path = name.substr(name.find('/') + 1);
    if (auto bad = damage_in(*tensor, name, path, step)) return bad;
    if (!name.starts_with(under_root)) continue;
    if (auto bad = negative_in(*tensor, name, path, step)) return bad;
  }
  return std::nullopt;
}

}  // namespace

std::optional<FirstBad> find_damage(nn::Module& model, std::span<optim::Optimizer* const> optimizers,
                                    std::span<optim::Ema* const> averages, std::int64_t step) {
  for (const auto& [path, parameter] : nn::named_parameters(model))
    if (auto bad = damage_in(parameter->value(), path, path, step)) return bad;
  for (const auto& [path, buffer] : nn::named_buffers(model))
    if (auto bad = damage_in(buffer->committed(), path, path, step)) return bad;
  for (const optim::Optimizer* optimizer : optimizers)
    if (auto bad = damage_in_moments(*optimizer, step)) return bad;
  for (std::size_t o = 0; o < averages.size(); ++o) {
    const optim::FlatParameters& parameters = optimizers[o]->parameters();
    for (std::size_t i = 0; averages[o] != nullptr && i < parameters.size(); ++i) {
      const std::string& path = parameters.slices()[i].name;
      if (auto bad = damage_in(averages[o]->average(i), "average of " + path, path, step)) return bad;
    }
  }
  return std::nullopt;
}

std::optional<FirstBad> find_bad_buffer(nn::Module& model, const FirstBad& input) {
  const std::string below = input.module.empty() ? "" : input.module + ".";
  for (const auto& [path, buffer] : nn::named_buffers(model)) {
    if (!path.starts_with(below) || all_finite(buffer->committed())) continue;
    FirstBad bad = input;
    bad.direction = "state";
    bad.tensor = path;
    bad.sample.reset();
    bad.samples.clear();
    bad.possible_samples.clear();
    return bad;
  }
  return std::nullopt;
}

std::optional<FirstBad> find_bad_gradient(const Attempt& attempt, const optim::ParameterList& parameters) {
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  const auto word = std::ranges::find_if(attempt.scan.words, [](std::uint32_t w) { return w >= kInfinity; });
  if (word == attempt.scan.words.end()) return std::nullopt;
  const auto index = static_cast<std::size_t>(word - attempt.scan.words.begin());
  FirstBad bad = in_parameter(parameters[index]->name, "backward", attempt.step);
  bad.tensor = "gradient of " + bad.parameter;
  bad.dtype = name_of(DType::f32);
  bad.value = *word == kInfinity ? "inf" : "nan";
  return bad;
}

}  // namespace binade::amp
