// Weights, moments and buffers that are damaged before the step.
#include "tests/faults/plan.h"

namespace binade::faults {
namespace {

using enum CauseClass;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Card corrupted(std::string module, std::string op, std::string parameter, std::vector<std::string> values) {
  return {.place = Place{std::move(module), std::move(op), "state"},
          .values = std::move(values),
          .parameter = std::move(parameter),
          .causes = {kCorruptedState},
          .remedies = kRollBack};
}

void set_element(Model& model, optim::Optimizer& optimizer, const std::string& name, std::int64_t at, double value) {
  for (auto& [path, parameter] : nn::named_parameters(model))
    if (path == name) parameter->mutable_value().mutable_data<float>()[at] = static_cast<float>(value);
  optimizer.weights_changed();
  for (auto& [path, parameter] : nn::named_parameters(model)) parameter->mutable_value().bump_version();
}

Plan infinite_weight(const Spot& s) {
  const std::string parameter = std::string(s.product().path) + ".weight";
  return {.card = corrupted(s.product().path, s.product().op, parameter, {"inf"}),
          .state = [parameter, at = s.pick(1, 32)](Model& m, optim::Optimizer& o, amp::Trainer&) {
            set_element(m, o, parameter, at, kInfinity);
          }};
}

Plan nan_weight_drill(const Spot& s) {
  const std::string parameter = std::string(s.product().path) + ".weight";
  return {.card = corrupted(s.product().path, s.product().op, parameter, {"nan"}),
          .inject = {fmt::format("nan-weight@step={},path={},once=1", s.step - 1, s.product().path)}};
}

Plan infinite_norm_weight(const Spot& s) {
  const char* module = s.model == ModelKind::kMlp   ? "norms.1"
                       : s.model == ModelKind::kGpt ? "blocks.1.norm1"
                                                    : "middle.norm1";
  const char* op = s.model == ModelKind::kUNet ? "batch_norm" : "layer_norm";
  const std::string parameter = std::string(module) + ".weight";
  return {.card = corrupted(module, op, parameter, {"-inf"}),
          .state = [parameter, at = s.pick(1, 16)](Model& m, optim::Optimizer& o, amp::Trainer&) {
            set_element(m, o, parameter, at, -kInfinity);
          }};
}

Plan corrupt_embedding_row(const Spot& s) {
  return {.card = corrupted("tokens", "embedding", "tokens.weight", {"nan"}),
          .state = [at = s.pick(1, 32)](Model& m, optim::Optimizer& o, amp::Trainer&) {
            set_element(m, o, "tokens.weight", 32 * at, std::nan(""));
          }};
}

/// Flips the top exponent bit of one weight: 0.1 becomes 3e37, which overflows in its f16 copy.
Plan flipped_bit_in_a_weight(const Spot& s) {
  const std::string parameter = std::string(s.product().path) + ".weight";
  return {.card = corrupted(s.product().path, s.product().op, parameter, {"inf", "-inf"}),
          .state = [parameter, at = s.pick(1, 32)](Model& m, optim::Optimizer& o, amp::Trainer&) {
            set_element(m, o, parameter, at, 3e37);
          }};
}

Plan moment(const Spot& s, const char* which, double value) {
  const std::string parameter = std::string(s.product().path) + ".weight";
  Card card = corrupted("", "", parameter, {});
  return {.card = card,
          .state = [parameter, which, value, at = s.pick(1, 32)](Model&, optim::Optimizer& o, amp::Trainer&) {
            const StateDict state = o.state();
            Tensor moments = state.tensor(std::string(which) + "/" + parameter);
            moments.mutable_data<float>()[at] = static_cast<float>(value);
          }};
}
Plan nan_moment(const Spot& s) { return moment(s, "moment1", std::nan("")); }
Plan infinite_second_moment(const Spot& s) { return moment(s, "moment2", kInfinity); }
Plan negative_second_moment(const Spot& s) { return moment(s, "moment2", -1); }

Plan nan_running_statistics(const Spot& s) {
  const std::string buffer = s.pick(0, 2) == 0 ? "encoder.1.norm1.running_mean" : "middle.norm2.running_var";
  return {.card = corrupted("", "", buffer, {"nan"}),
          .inject = {fmt::format("nan-buffer@step={},path={},once=1", s.step, buffer)}};
}

/// Adam with eps = 0. Rows of the token table that no batch has used have moments of 0: the update is 0 / (sqrt(0) +
/// 0).
Plan adam_without_eps(const Spot&) {
  return {.card = {.place = Place{"", "", "optimizer"},
                   .values = {},
                   .parameter = "tokens.weight",
                   .causes = {kOptimizerUnderflow},
                   .recoverable = false,
                   .remedies = {"stop", "skip-batch"}},  // skipping works if the next batch looks up every row
          .adam_eps = 0};
}

}  // namespace

std::vector<Family> state_faults() {
  return {{"infinite-weight", "state", infinite_weight},
          {"nan-weight-drill", "state", nan_weight_drill},
          {"infinite-norm-weight", "state", infinite_norm_weight},
          {"corrupt-embedding-row", "state", corrupt_embedding_row, {ModelKind::kGpt}},
          {"flipped-bit-in-a-weight",
           "state",
           flipped_bit_in_a_weight,
           {ModelKind::kMlp, ModelKind::kGpt, ModelKind::kUNet},
           kFp16},
          {"nan-moment", "state", nan_moment},
          {"infinite-second-moment", "state", infinite_second_moment},
          {"negative-second-moment", "state", negative_second_moment},
          {"nan-running-statistics", "state", nan_running_statistics, {ModelKind::kUNet}},
          {"adam-without-eps", "state", adam_without_eps, {ModelKind::kGpt}}};
}

}  // namespace binade::faults
