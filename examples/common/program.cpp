#include "examples/common/program.h"

#include "binade/core/gpus.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/terminal/console.h"

namespace binade::examples {
namespace {

DType dtype_of(const std::string& precision) {
  if (precision == "fp16") return DType::f16;
  if (precision == "bf16") return DType::bf16;
  return DType::f32;
}

}  // namespace

std::string config_text(const std::string& program, const Settings& table, const Runtime& runtime) {
  io::JsonObject environment;
  environment.add("binade", version())
      .add("build", build_id())
      .add("revision", git_revision())
      .add("device", runtime.device().to_string())
      .add("instruction_set", cpu::level().isa)
      .add("threads", num_threads());
  for (const auto& [name, found] : gpus::versions()) environment.add(name, found);
  return fmt::format("{{\n  \"program\": {},\n{},\n  \"environment\": {}\n}}\n", io::json_string(program),
                     table.json_members(), environment.text());
}

amp::Policy choose_policy(TrainSettings& s) {
  if (s.precision.empty()) {
    const bool on_gpu = Runtime::current_device() != Device::cpu();
    s.precision = on_gpu || cpu::level().multiplies_bf16 ? "bf16" : "fp32";
    const std::string what = on_gpu ? "GPU" : "processor";
    io::say(fmt::format("precision {}: {}", s.precision,
                        s.precision == "bf16" ? fmt::format("this {} multiplies bf16 in hardware", what)
                                              : "products of bf16 are no faster on this processor"));
  }
  amp::Policy policy = amp::Policy::by_name(s.precision);
  for (const std::string& o : s.overrides) {
    const std::size_t equals = o.rfind('=');
    policy = policy.with(o.substr(0, equals), dtype_of(o.substr(equals + 1)));
  }
  return policy;
}

amp::LossScaleOptions loss_scale_options(const TrainSettings& s, const amp::Policy& policy) {
  const std::string scale = s.loss_scale != "auto" ? s.loss_scale : policy.dynamic_loss_scale ? "dynamic" : "off";
  if (scale == "dynamic" && s.init_scale == "auto") return amp::LossScaleOptions::measured();
  return amp::LossScaleOptions::parse(scale, s.init_scale == "auto" ? 65536 : std::stod(s.init_scale));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainSettings& s, nn::Module& model) {
  std::vector<optim::NamedParameter> p = optim::parameters_of(model);
  if (s.optimizer == "sgd")
    return std::make_unique<optim::Sgd>(
        std::move(p), optim::SgdOptions{.lr = s.lr, .momentum = s.momentum, .weight_decay = s.weight_decay});
  if (s.optimizer == "lion")
    return std::make_unique<optim::Lion>(
        std::move(p),
        optim::LionOptions{.lr = s.lr, .beta1 = s.beta1, .beta2 = s.beta2, .weight_decay = s.weight_decay});
  if (s.optimizer == "adam")
    return std::make_unique<optim::Adam>(std::move(p), optim::AdamOptions{.lr = s.lr,
                                                                          .beta1 = s.beta1,
                                                                          .beta2 = s.beta2,
                                                                          .eps = s.eps,
                                                                          .weight_decay = s.weight_decay});
  return std::make_unique<optim::AdamW>(
      std::move(p), optim::AdamWOptions{
                        .lr = s.lr, .beta1 = s.beta1, .beta2 = s.beta2, .eps = s.eps, .weight_decay = s.weight_decay});
}

optim::Schedule make_schedule(const TrainSettings& s) {
  return optim::Schedule({.kind = optim::schedule_kind(s.schedule),
                          .lr = s.lr,
                          .min_lr = s.min_lr,
                          .warmup = s.warmup,
                          .steps = s.schedule_steps});
}

RuntimeOptions runtime_options(const TrainSettings& s) {
  return {.device = choose_device(s.device),
          .seed = static_cast<std::uint64_t>(s.seed),
          .threads = static_cast<int>(s.threads),
          .deterministic = s.deterministic,
          .timed_plans = s.plans == "timed"};
}

Device choose_device(const std::string& name) {
  const Device device = Device::parse(name);
  if (name == "auto" && device == Device::cpu()) io::say("device cpu: " + gpus::why_none());
  return device;
}

}  // namespace binade::examples
