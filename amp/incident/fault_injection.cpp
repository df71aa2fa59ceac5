#include "binade/amp/incident/fault_injection.h"

#include <fmt/ranges.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "binade/autograd/weight.h"
#include "binade/core/did_you_mean.h"
#include "binade/core/ops/layer_norm.h"
#include "binade/core/ops/rms_norm.h"
#include "binade/core/program_flags.h"

namespace binade::amp {
namespace {

struct FaultKind {
  const char* name;
  std::vector<std::string> keys;             ///< keys that this kind requires, besides `step`
  std::vector<std::string> optional_keys{};  ///< keys that it allows, besides once, again, every and rank
  bool once = false;
};

const std::vector<FaultKind>& kinds() {
  static const std::vector<FaultKind> all = {{"nan-input", {"sample"}},
                                             {"scale-sample", {"sample", "factor"}},
                                             {"constant-row", {"sample"}, {"path"}},
                                             {"mask-row", {"sample"}, {"path"}},
                                             {"drop-eps", {"path"}},
                                             {"inf-grad", {"param"}, {"index"}},
                                             {"scale-weight", {"path", "factor"}, {"view"}},
                                             {"nan-weight", {"path"}},
                                             {"nan-buffer", {"path"}},
                                             {"bitflip", {"path", "op"}, {"bit"}, true},
                                             {"lr", {"factor"}},
                                             {"enospc", {}, {}, true},
                                             {"sigterm", {}, {}, true},
                                             {"kill", {}, {}, true},
                                             {"stop", {}, {}, true},
                                             {"slow", {"seconds"}}};
  return all;
}

/// Returns a suggestion for a misspelled `word`: the nearest of `words`, or a list of them if none is near.
std::string hint(const std::string& word, const std::vector<std::string>& words) {
  if (const std::string nearest = did_you_mean(word, words); !nearest.empty() || words.empty()) return nearest;
  const std::size_t shown = std::min<std::size_t>(words.size(), 16);
  const std::string list = fmt::format("; known: {}", fmt::join(std::span(words).first(shown), ", "));
  return words.size() == shown ? list : fmt::format("{} and {} more", list, words.size() - shown);
}

/// Returns a fault as the user gave it: "--inject nan-weight@step=3".
std::string as_given(const std::string& spec) { return flag_or("inject", spec, "TrainerOptions::inject " + spec); }

template <class T>
T number(const std::string& spec, const std::string& key, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check<ArgumentError>(error == std::errc() && end == text.data() + text.size(), "{}: wanted a number for {}, got '{}'",
                       as_given(spec), key, text);
  return value;
}

void set_value(Fault& fault, const std::string& key, const std::string& text) {
  if (key == "path" || key == "param")
    fault.path = text;
  else if (key == "op")
    fault.op = text;
  else if (key == "factor")
    fault.factor = number<double>(fault.spec, key, text);
  else if (key == "seconds")
    fault.seconds = number<double>(fault.spec, key, text);
  else if (key == "rank")
    fault.rank = number<int>(fault.spec, key, text);
  else if (key == "once" || key == "again" || key == "view")
    (key == "once" ? fault.once : key == "again" ? fault.again : fault.view) = number<int>(fault.spec, key, text) != 0;
  else
    (key == "step"     ? fault.step
     : key == "every"  ? fault.every
     : key == "sample" ? fault.sample
     : key == "bit"    ? fault.bit
                       : fault.index) = number<std::int64_t>(fault.spec, key, text);
}

/// Returns the name in `names` that is the fault's path, or the path followed by ".weight". `what`: the kind of names,
/// for the error message.
std::string resolved(const Fault& fault, const std::vector<std::string>& names, std::string_view what) {
  std::vector<std::string> words = names;
  constexpr std::string_view kWeight = ".weight";
  for (const std::string& name : names) {
    if (name == fault.path || name == fault.path + std::string(kWeight)) return name;
    if (name.ends_with(kWeight)) words.push_back(name.substr(0, name.size() - kWeight.size()));
  }
  throw ArgumentError(
      fmt::format("{}: the model has no {} '{}'{}", as_given(fault.spec), what, fault.path, hint(fault.path, words)));
}

template <class Pairs>
std::vector<std::string> names_in(const Pairs& pairs) {
  std::vector<std::string> names;
  for (const auto& [name, thing] : pairs) names.push_back(name);
  return names;
}

/// Returns the first buffer of a module that can hold a NaN; `path` itself if there is none.
std::string first_buffer_of(nn::Module& model, const std::string& path) {
  for (const auto& [name, buffer] : nn::named_buffers(model))
    if (name.starts_with(path + ".") && is_floating(buffer->committed().dtype())) return name;
  return path;
}

/// Sets the element with row-major index `at`, on any device.
void set_element(Tensor& tensor, std::int64_t at, float value) {
  Tensor flat = tensor.view_at(at, Shape{1});
  flat.copy_from(Tensor::full(Shape{1}, value).to(tensor.device()));
}

/// Flips a bit of the first element; -1 stands for the highest exponent bit. `tensor` may be a channel slice.
void flip_bit(Tensor& tensor, std::int64_t bit) {
  Tensor changed = tensor.on_host().clone();
  const auto bits = 8 * static_cast<std::int64_t>(size_of(tensor.dtype()));
  const std::int64_t at = bit < 0 ? bits - 2 : bit % bits;
  static_cast<std::uint8_t*>(changed.mutable_raw())[at / 8] ^= static_cast<std::uint8_t>(1u << at % 8);
  tensor.copy_from(changed);
}

/// Returns a copy after `f(values, width)` has changed the values of row `row`.
template <class F>
Tensor with_row(const Tensor& tensor, std::int64_t row, F&& f) {
  Tensor wide = tensor.to(DType::f32).on_host().clone();
  const std::int64_t width = wide.numel() / wide.dim(0);
  f(wide.mutable_data<float>() + row * width, width);
  return wide.to(tensor.dtype()).to(tensor.device());
}

}  // namespace

Fault parse_fault(const std::string& spec) {
  Fault fault{.spec = spec};
  const std::size_t at = spec.find('@');
  fault.kind = spec.substr(0, at);
  const auto kind = std::ranges::find(kinds(), fault.kind, [](const FaultKind& k) { return std::string(k.name); });
  if (kind == kinds().end()) {
    std::vector<std::string> names;
    for (const FaultKind& k : kinds()) names.emplace_back(k.name);
    throw ArgumentError(fmt::format("{}: unknown kind '{}'{}", as_given(spec), fault.kind, hint(fault.kind, names)));
  }
  std::vector<std::string> keys = kind->keys;
  keys.insert(keys.end(), kind->optional_keys.begin(), kind->optional_keys.end());
  for (const char* common : {"step", "once", "again", "every", "rank"}) keys.emplace_back(common);
  std::set<std::string> given;
  for (std::size_t begin = at == spec.npos ? spec.size() : at + 1; begin < spec.size();) {
    const std::size_t end = std::min(spec.find(',', begin), spec.size());
    const std::string pair = spec.substr(begin, end - begin);
    const std::size_t equals = pair.find('=');
    const std::string key = pair.substr(0, equals);
    check<ArgumentError>(equals != pair.npos && std::ranges::find(keys, key) != keys.end(), "{}: '{}' takes no '{}'{}",
                         as_given(spec), fault.kind, key, hint(key, keys));
    set_value(fault, key, pair.substr(equals + 1));
    given.insert(key);
    begin = end + 1;
  }
  for (const std::string& key : kind->keys)
    check<ArgumentError>(given.contains(key), "{}: '{}' wants {}=…", as_given(spec), fault.kind, key);
  check<ArgumentError>(fault.step >= 1 && fault.sample >= 0 && fault.index >= 0 && fault.every >= 0 &&
                           fault.seconds >= 0 && (fault.rank >= 0 || !given.contains("rank")),
                       "{}: wanted step >= 1 and nothing negative", as_given(spec));
  check<ArgumentError>(fault.seconds <= 86400, "{}: wanted at most 86400 seconds, got {}", as_given(spec),
                       fault.seconds);
  fault.once = fault.once || kind->once;
  return fault;
}

FaultInjection::FaultInjection(const std::vector<std::string>& specs, nn::Module& model, int rank)
    : model_(&model), rank_(rank) {
  for (const std::string& spec : specs) plant(spec);
}

void FaultInjection::plant(const std::string& spec) {
  Fault fault = parse_fault(spec);
  if (fault.kind == "inf-grad" || fault.kind == "scale-weight" || fault.kind == "nan-weight")
    fault.path = resolved(fault, names_in(nn::named_parameters(*model_)), "parameter");
  if (fault.kind == "inf-grad")
    for (const auto& [name, parameter] : nn::named_parameters(*model_))
      check<ArgumentError>(name != fault.path || fault.index < parameter->value().numel(),
                           "{}: '{}' has {} elements, none with index {}", as_given(spec), name,
                           parameter->value().numel(), fault.index);
  if (fault.kind == "nan-buffer") {
    fault.path = first_buffer_of(*model_, fault.path);
    fault.path = resolved(fault, names_in(nn::named_buffers(*model_)), "buffer");
  }
  const bool row = fault.kind == "constant-row" || fault.kind == "mask-row";
  if (fault.kind == "bitflip" || fault.kind == "drop-eps" || (row && !fault.path.empty()))
    fault.path = resolved(fault, names_in(nn::named_modules(*model_)), "module");
  faults_.push_back(std::move(fault));
}

bool FaultInjection::due(const Fault& fault, std::int64_t step) const {
  const auto struck = struck_.find({fault.spec, step});
  if (!fault.again && struck != struck_.end() && struck->second != call_) return false;
  return step == fault.step || (fault.every > 0 && step > fault.step && (step - fault.step) % fault.every == 0);
}

bool FaultInjection::concerns(std::int64_t step) const {
  // nan-weight strikes after its step is committed, so that the next step fails.
  return std::ranges::any_of(faults_, [&](const Fault& f) {
    return f.every > 0 ? step >= f.step : step == f.step || (f.kind == "nan-weight" && step == f.step + 1);
  });
}

std::vector<const Fault*> FaultInjection::active(std::string_view kind) const {
  std::vector<const Fault*> found;
  for (const Fault& fault : faults_)
    if (fault.kind == kind && is_here(fault) && due(fault, step_) && (first_ || !fault.once)) found.push_back(&fault);
  return found;
}

void FaultInjection::strike(const Fault& fault, std::int64_t step) {
  const bool first_time = !struck_.contains({fault.spec, step});
  if (first_time && !fault.again && on_strike) on_strike(fault.spec, step);
  struck_[{fault.spec, step}] = call_;
}

bool FaultInjection::struck_in_this_call(const Fault& fault) const {
  const auto struck = struck_.find({fault.spec, step_});
  return struck != struck_.end() && struck->second == call_;
}

void FaultInjection::change_weight(const Fault& fault, std::span<optim::Optimizer* const> optimizers,
                                   const std::function<float(float)>& f) {
  for (const auto& [name, parameter] : nn::named_parameters(*model_)) {
    if (name != fault.path) continue;
    Tensor& value = parameter->mutable_value();
    Tensor changed = value.to(DType::f32).on_host().clone();
    const bool all = fault.kind == "scale-weight";
    for (std::int64_t i = 0; i < (all ? changed.numel() : 1); ++i) {
      float& x = changed.mutable_data<float>()[i];
      x = f(x);
    }
    value.copy_from(changed.to(value.device()));
    for (optim::Optimizer* optimizer : optimizers) optimizer->weights_changed();
  }
}

void FaultInjection::before_step(std::int64_t step, std::span<optim::Optimizer* const> optimizers) {
  ++call_;
  step_ = step;
  first_ = true;
  for (const Fault* fault : active("scale-weight")) {
    if (fault->view) continue;
    strike(*fault);
    change_weight(*fault, optimizers, [&](float x) { return static_cast<float>(x * fault->factor); });
  }
  for (const Fault* fault : active("nan-buffer")) {
    strike(*fault);
    for (const auto& [name, buffer] : nn::named_buffers(*model_))
      if (name == fault->path && buffer->committed().dtype() == DType::f32)
        set_element(buffer->mutable_committed(), 0, std::numeric_limits<float>::quiet_NaN());
  }
  for (const auto& [kind, signal] : {std::pair("sigterm", SIGTERM), {"kill", SIGKILL}, {"stop", SIGSTOP}})
    for (const Fault* fault : active(kind)) {
      strike(*fault);
      std::raise(signal);
    }
  for (const Fault* fault : active("slow")) {
    strike(*fault);
    std::this_thread::sleep_for(std::chrono::duration<double>(fault->seconds));
  }
}

void FaultInjection::before_run(std::int64_t step, bool first, std::vector<std::int64_t> left_out, std::int64_t rows) {
  step_ = step;
  first_ = first;
  left_out_ = std::move(left_out);
  rows_per_micro_batch_ = rows;
  batch_ = nullptr;
  micro_batch_ = -1;
}

void FaultInjection::after_gradients(const optim::ParameterList& parameters) {
  for (const Fault* fault : active("inf-grad")) {
    strike(*fault);
    for (const optim::FlatParameters::Slice* parameter : parameters) {
      Variable::State& state = *parameter->variable.state();
      if (parameter->name == fault->path && state.grad_defined && fault->index < state.grad.numel())
        set_element(state.grad, fault->index, std::numeric_limits<float>::infinity());
    }
  }
}

void FaultInjection::after_commit(std::int64_t step, std::span<optim::Optimizer* const> optimizers) {
  step_ = step;
  first_ = true;
  for (const Fault* fault : active("nan-weight")) {
    strike(*fault);
    change_weight(*fault, optimizers, [](float) { return std::numeric_limits<float>::quiet_NaN(); });
  }
}

double FaultInjection::lr_factor() {
  double factor = 1;
  for (const Fault* fault : active("lr")) {
    strike(*fault);
    factor *= fault->factor;
  }
  return factor;
}

bool FaultInjection::fills_disk(std::int64_t step) {
  for (const Fault& fault : faults_)
    if (fault.kind == "enospc" && is_here(fault) && step >= fault.step && !struck_.contains({fault.spec, fault.step})) {
      strike(fault, fault.step);
      return true;
    }
  return false;
}

double FaultInjection::eps_of(const OpCall& call, double eps) {
  for (const Fault* fault : active("drop-eps"))
    if (call.module_path == fault->path && call.info.family == OpFamily::kNorm) {
      strike(*fault);
      eps = 0;
    }
  return eps;
}

/// For each active fault of this kind, fills the first row of its sample with `value`. Dimension 0 of `tensor` is the
/// batch, perhaps merged with other dimensions.
void FaultInjection::fill_row(std::string_view kind, const OpCall& call, Tensor& tensor, float value) {
  if (batch_rows_ < 1 || tensor.rank() < 2 || tensor.dim(0) % batch_rows_ != 0) return;
  for (const Fault* fault : active(kind)) {
    if (!fault->path.empty() && fault->path != call.module_path) continue;
    if (const auto row = row_of(fault->sample, batch_rows_)) {
      strike(*fault);
      const std::int64_t width = tensor.dim(tensor.rank() - 1);
      tensor = with_row(tensor, *row * (tensor.dim(0) / batch_rows_),
                        [&](float* x, std::int64_t) { std::fill(x, x + width, value); });
    }
  }
}

void FaultInjection::before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) {
  if (micro_batch_ != step_context().micro_batch) {
    micro_batch_ = step_context().micro_batch;
    batch_ = nullptr;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Variable& x = inputs[i];
    if (!x.defined() || !x.is_leaf()) continue;
    if (is_weight(x)) {
      for (const Fault* fault : active("scale-weight"))
        if (fault->view && x.state()->name == fault->path) {
          strike(*fault);
          Tensor scaled = read[i].to(DType::f32).on_host().clone();
          for (std::int64_t k = 0; k < scaled.numel(); ++k)
            scaled.mutable_data<float>()[k] *= static_cast<float>(fault->factor);
          read[i] = scaled.to(read[i].dtype()).to(read[i].device());
        }
      continue;
    }
    if (x.value().rank() < 2 || x.value().numel() == 0) continue;
    if (batch_ == nullptr) {
      batch_ = x.value().raw();
      batch_rows_ = x.dim(0);
    }
    if (batch_ != x.value().raw() || !is_floating(read[i].dtype())) continue;
    read[i] = with_input_faults(read[i], x.dim(0));
  }
  if (call.info.family == OpFamily::kNorm) {
    fill_row("constant-row", call, read[0], 1);
    const bool sums = &call.info == &ops::AddLayerNorm::info ||
                      &call.info == &ops::AddRmsNorm::info;  // normalizes the sum of both inputs
    if (sums) fill_row("constant-row", call, read[1], 0);
  }
  if (call.info.numerics.non_finite == NonFinite::kMasks && call.info.family != OpFamily::kAttention)
    fill_row("mask-row", call, read[0], -std::numeric_limits<float>::infinity());
}

/// Returns the row of a sample in the current micro-batch; std::nullopt if the micro-batch does not contain it. `rows`:
/// rows of the micro-batch, used if before_run() got no number of rows.
std::optional<std::int64_t> FaultInjection::row_of(std::int64_t sample, std::int64_t rows) const {
  const std::int64_t per_micro_batch = rows_per_micro_batch_ > 0 ? rows_per_micro_batch_ : rows,
                     first = micro_batch_ * per_micro_batch;
  if (sample < first || sample >= first + per_micro_batch || std::ranges::count(left_out_, sample) > 0)
    return std::nullopt;
  const auto gone = std::ranges::count_if(left_out_, [&](std::int64_t row) { return row >= first && row < sample; });
  return sample - first - gone;
}

Tensor FaultInjection::with_input_faults(const Tensor& batch, std::int64_t rows) {
  Tensor planted = batch;
  for (const Fault* fault : active("nan-input"))
    if (const auto row = row_of(fault->sample, rows)) {
      strike(*fault);
      planted = with_row(planted, *row, [](float* x, std::int64_t) { x[0] = std::numeric_limits<float>::quiet_NaN(); });
    }
  for (const Fault* fault : active("scale-sample"))
    if (const auto row = row_of(fault->sample, rows)) {
      strike(*fault);
      planted = with_row(planted, *row, [&](float* x, std::int64_t width) {
        for (std::int64_t k = 0; k < width; ++k) x[k] *= static_cast<float>(fault->factor);
      });
    }
  return planted;
}

void FaultInjection::after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                                   const Observation&) {
  for (const Tensor& operand : read)  // tokens are integers: the fault changes the result of their embedding instead
    if (batch_ != nullptr && operand.defined() && operand.raw() == batch_ && !is_floating(operand.dtype()))
      outputs[0] = with_input_faults(outputs[0], operand.dim(0));
  if (call.info.family == OpFamily::kAttention)
    fill_row("mask-row", call, outputs[0], 0);  // fused attention defines the result of a masked row as 0
  for (const Fault* fault : active("bitflip"))
    if (call.module_path == fault->path && fault->op == call.info.name && outputs[0].numel() > 0 &&
        !struck_in_this_call(*fault)) {
      strike(*fault);
      flip_bit(outputs[0], fault->bit);
    }
}

}  // namespace binade::amp
