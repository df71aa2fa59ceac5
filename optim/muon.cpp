#include "binade/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/precision.h"

namespace binade::optim {
namespace {

/// True for parameters whose names say that they are an embedding table or the head of a model.
bool is_named_as_table_or_head(std::string_view name) {
  static constexpr std::string_view kNames[] = {"*embed*",     "*tokens.weight", "*positions.weight", "*wte.weight",
                                                "*wpe.weight", "*head.weight",   "*classifier.weight"};
  return std::ranges::any_of(kNames, [&](std::string_view glob) { return glob_match(glob, name); });
}

DType fastest_products(Device device) {
  return device != Device::cpu() || cpu::level().multiplies_bf16 ? DType::bf16 : DType::f32;
}

Device device_of(const std::vector<NamedParameter>& parameters) {
  return parameters.empty() ? Device::cpu() : parameters.front().variable.device();
}

}  // namespace

Muon::Names Muon::by_adamw_of(const std::vector<NamedParameter>& parameters, const MuonOptions& options,
                              const std::set<const void*>& tables) {
  Names names;
  std::size_t selected = 0;
  for (const NamedParameter& p : parameters) {
    const Shape& shape = p.variable.shape();
    const bool is_matrix = shape.rank() >= 2 && shape.dim(0) > 1 && shape.numel() > shape.dim(0);
    const bool chosen = options.adamw ? (*options.adamw)(p.name, p.variable)
                                      : is_named_as_table_or_head(p.name) || tables.contains(p.variable.state().get());
    selected += chosen ? 1 : 0;
    if (!is_matrix || chosen) names.insert(p.name);
  }
  check<ArgumentError>(!options.adamw || selected > 0, "muon: the option adamw, {}, selects no parameter",
                       options.adamw ? options.adamw->text() : "");
  check<ArgumentError>(
      names.size() < parameters.size() || parameters.empty(),
      "muon: wanted at least one matrix beside embeddings and head, got {} parameters that all step by "
      "AdamW; use optim::AdamW, or set the option adamw",
      parameters.size());
  return names;
}

Muon::Muon(std::vector<NamedParameter> parameters, const MuonOptions& options, Names by_adamw)
    : CustomOptimizer(parameters,
                      {.kind = "muon",
                       .lr = options.lr,
                       .state = [&by_adamw](const std::string& name, const Shape& shape) -> std::vector<StateTensor> {
                         if (!by_adamw.contains(name)) return {{"momentum", shape}};
                         return {{"average", shape}, {"square_average", shape}};
                       },
                       .decays = options.decays,
                       .groups = options.groups,
                       .maximize = options.maximize}),
      options_(groups().options_of(options)),
      by_adamw_(std::move(by_adamw)),
      products_(options.products.value_or(fastest_products(device_of(parameters)))) {
  check<DTypeError>(products_ == DType::f32 || is_half(products_), "muon: wanted products in f32, bf16 or f16, got {}",
                    name_of(products_));
  for (const MuonOptions& o : options_) {
    detail::check_option(kind(), "weight_decay", o.weight_decay, 0, 1e6);
    detail::check_option(kind(), "momentum", o.momentum, 0, 1, true);
    check<ArgumentError>(o.iterations >= 1 && o.iterations < 100, "muon: wanted iterations in [1, 100), got {}",
                         o.iterations);
    detail::check_option(kind(), "smallest_norm", o.smallest_norm, 1e-30, 1);
    detail::check_option(kind(), "adamw_lr", o.adamw_lr, 0, 1e6);
    detail::check_option(kind(), "beta1", o.beta1, 0, 1, true);
    detail::check_option(kind(), "beta2", o.beta2, 0, 1, true);
    detail::check_option(kind(), "eps", o.eps, 0, 1);
  }
}

UpdateFacts Muon::facts_of(std::size_t parameter_class) const {
  // The two kinds of parameters have steps of different sizes, so that nothing is stated about them.
  const MuonOptions& o = options_[parameter_class];
  return {.stated = false,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .decoupled_decay = o.weight_decay,
          .divides_by_root = true};
}

Variable Muon::orthogonal(Variable x, const MuonOptions& o) const {
  const bool tall = x.dim(0) > x.dim(1);
  if (tall) x = transpose(x, 0, 1);
  // x / max(|x|, smallest_norm), computed so that no square overflows.
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  const Variable most = clamp(max(abs(x)), 1e-37, kNoLimit);
  x = x / most;
  x = x / maximum(sqrt(sum(x * x)), o.smallest_norm / most);
  // Products read operands in `products_` and accumulate in f32; the sums between them are in f32.
  const PolicyScope scope(PrecisionPolicy{.name = "muon", .low = products_});
  for (std::int64_t i = 0; i < o.iterations; ++i) {
    const Variable gram = cast(matmul(x, x, {.transpose_b = true}), DType::f32);
    const Variable square = cast(matmul(gram, gram), DType::f32);
    x = o.a * x + cast(matmul(o.b * gram + o.c * square, x), DType::f32);
  }
  return tall ? transpose(x, 0, 1) : x;
}

void Muon::update(ParameterUpdate& u) const {
  const MuonOptions& o = options_[u.target.parameter_class];
  const bool by_adamw = u.states.size() == 2;
  const double lr = by_adamw && o.lr > 0 ? u.target.lr * (o.adamw_lr / o.lr) : u.target.lr;
  if (u.target.decays) u.weight = u.weight * (1 - lr * o.weight_decay);
  if (by_adamw)
    step_by_adamw(u, o, lr);
  else
    step_by_muon(u, o);
  if (clips_.empty()) return;
  const auto slice = std::ranges::find(parameters().slices(), u.name, &FlatParameters::Slice::name);
  for (const std::unique_ptr<QkClip>& clip : clips_) {
    const Tensor factors = clip->factors_of(slice->variable.state().get());
    if (!factors.defined()) continue;
    const bool is_vector = u.weight.shape().rank() == 1;
    u.weight = u.weight * Variable(is_vector ? factors : factors.reshape({factors.numel(), 1}));
  }
}

void Muon::step_by_adamw(ParameterUpdate& u, const MuonOptions& o, double lr) const {
  Variable &m = u.state("average"), &v = u.state("square_average");
  const auto t = static_cast<double>(u.target.t);
  m = m + (1 - o.beta1) * (u.gradient - m);
  v = o.beta2 * v + (1 - o.beta2) * (u.gradient * u.gradient);
  const Variable root = sqrt(v) * (1 / std::sqrt(1 - std::pow(o.beta2, t))) + o.eps;
  u.weight = u.weight - (lr / (1 - std::pow(o.beta1, t))) * (m / root);
}

void Muon::step_by_muon(ParameterUpdate& u, const MuonOptions& o) const {
  Variable& m = u.state("momentum");
  m = m + (1 - o.momentum) * (u.gradient - m);
  const Variable next = o.nesterov ? u.gradient + o.momentum * (m - u.gradient) : m;
  const std::int64_t rows = next.dim(0), columns = next.value().numel() / std::max<std::int64_t>(rows, 1);
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  const double scale = o.scale == MuonScale::kShape ? std::sqrt(std::max(1.0, r / c)) : 0.2 * std::sqrt(std::max(r, c));
  const Variable step = orthogonal(reshape(next, {rows, columns}), o);
  const std::span<const std::int64_t> dims = u.weight.shape().dims();
  u.weight = u.weight - (u.target.lr * scale) * reshape(step, {dims.begin(), dims.end()});
}

}  // namespace binade::optim
