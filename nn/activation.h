#pragma once

#include "binade/autograd/functions/activations.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "binade/nn/module.h"

/// Activations as modules, for example as layers of Sequential. Formulas, derivatives and errors are those of the
/// functions: core/ops/unary.h, core/ops/activations.h and autograd/functions/activations.h. Defaults are PyTorch's.
/// All propagate NaN.
namespace binade::nn {

/// A layer that applies a function of one variable.
template <Variable (*kFunction)(const Variable&)>
class FunctionModule : public StatelessModule {
 public:
  Variable forward(const Variable& x) override { return kFunction(x); }
};

/// Applies max(x, 0).
struct Relu : FunctionModule<relu> {
  std::string kind() const override { return "Relu"; }
};
/// Applies min(max(x, 0), 6).
struct Relu6 : FunctionModule<relu6> {
  std::string kind() const override { return "Relu6"; }
};
/// Applies x sigmoid(x).
struct Silu : FunctionModule<silu> {
  std::string kind() const override { return "Silu"; }
};
/// Applies x tanh(log(1 + exp(x))).
struct Mish : FunctionModule<mish> {
  std::string kind() const override { return "Mish"; }
};
/// Applies s x for x > 0, else s a (exp(x) - 1), with s = 1.0507 and a = 1.6733.
struct Selu : FunctionModule<selu> {
  std::string kind() const override { return "Selu"; }
};
/// Applies x min(max(x + 3, 0), 6) / 6.
struct Hardswish : FunctionModule<hardswish> {
  std::string kind() const override { return "Hardswish"; }
};
/// Applies min(max(x + 3, 0), 6) / 6.
struct Hardsigmoid : FunctionModule<hardsigmoid> {
  std::string kind() const override { return "Hardsigmoid"; }
};
/// Applies 1 / (1 + exp(-x)).
struct Sigmoid : FunctionModule<sigmoid> {
  std::string kind() const override { return "Sigmoid"; }
};
/// Applies log(sigmoid(x)).
struct LogSigmoid : FunctionModule<logsigmoid> {
  std::string kind() const override { return "LogSigmoid"; }
};
/// Applies tanh(x).
struct Tanh : FunctionModule<tanh> {
  std::string kind() const override { return "Tanh"; }
};
/// Applies x - tanh(x).
struct Tanhshrink : FunctionModule<tanhshrink> {
  std::string kind() const override { return "Tanhshrink"; }
};
/// Applies x / (1 + |x|).
struct Softsign : StatelessModule {
  std::string kind() const override { return "Softsign"; }
  Variable forward(const Variable& x) override { return x / (abs(x) + 1); }
};

/// Options of Gelu.
struct GeluOptions {
  bool tanh = false;  ///< true: uses the tanh approximation of Phi; false: uses erf
};
/// Applies x Phi(x), where Phi is the normal distribution function.
struct Gelu : OptionsModule<GeluOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Gelu"; }
  Variable forward(const Variable& x) override { return options().tanh ? gelu_tanh(x) : gelu(x); }
};

/// Options of LeakyRelu.
struct LeakyReluOptions {
  double slope = 0.01;
};
/// Applies x for x > 0, else slope x.
struct LeakyRelu : OptionsModule<LeakyReluOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "LeakyRelu"; }
  Variable forward(const Variable& x) override { return leaky_relu(x, options().slope); }
};

/// Options of Elu and Celu.
struct EluOptions {
  double alpha = 1;
};
/// Applies x for x > 0, else alpha (exp(x) - 1).
struct Elu : OptionsModule<EluOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Elu"; }
  Variable forward(const Variable& x) override { return elu(x, options().alpha); }
};
/// Applies x for x > 0, else alpha (exp(x / alpha) - 1).
struct Celu : OptionsModule<EluOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Celu"; }
  Variable forward(const Variable& x) override { return celu(x, options().alpha); }
};

/// Options of Softplus.
struct SoftplusOptions {
  double beta = 1, threshold = 20;
};
/// Applies log(1 + exp(beta x)) / beta, or x where beta x > threshold.
struct Softplus : OptionsModule<SoftplusOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Softplus"; }
  Variable forward(const Variable& x) override { return softplus(x, options().beta, options().threshold); }
};

/// Options of Hardtanh.
struct HardtanhOptions {
  double low = -1, high = 1;
};
/// Applies min(max(x, low), high).
struct Hardtanh : OptionsModule<HardtanhOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Hardtanh"; }
  Variable forward(const Variable& x) override { return hardtanh(x, options().low, options().high); }
};

/// Options of Hardshrink and Softshrink.
struct ShrinkOptions {
  double lambda = 0.5;
};
/// Applies x, or 0 for |x| <= lambda.
struct Hardshrink : OptionsModule<ShrinkOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Hardshrink"; }
  Variable forward(const Variable& x) override { return hardshrink(x, options().lambda); }
};
/// Applies x moved towards 0 by lambda, or 0 for |x| <= lambda.
struct Softshrink : OptionsModule<ShrinkOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Softshrink"; }
  Variable forward(const Variable& x) override { return softshrink(x, options().lambda); }
};

/// Options of Threshold.
struct ThresholdOptions {
  double threshold = 0, value = 0;
};
/// Applies x for x > threshold, else value.
struct Threshold : OptionsModule<ThresholdOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Threshold"; }
  Variable forward(const Variable& x) override { return threshold(x, options().threshold, options().value); }
};

/// Options of Softmax, Softmin, LogSoftmax and Glu.
struct AxisOptions {
  int axis = -1;  ///< negative: counts from the end
};
/// Applies exp(x) / sum of exp(x) along an axis.
struct Softmax : OptionsModule<AxisOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Softmax"; }
  Variable forward(const Variable& x) override { return softmax(x, options().axis); }
};
/// Applies exp(-x) / sum of exp(-x) along an axis.
struct Softmin : OptionsModule<AxisOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Softmin"; }
  Variable forward(const Variable& x) override { return softmax(-x, options().axis); }
};
/// Applies x - log(sum of exp(x)) along an axis.
struct LogSoftmax : OptionsModule<AxisOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "LogSoftmax"; }
  Variable forward(const Variable& x) override { return log_softmax(x, options().axis); }
};
/// Applies a sigmoid(b), where a and b are the halves of x along an axis.
struct Glu : OptionsModule<AxisOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Glu"; }
  Variable forward(const Variable& x) override { return glu(x, options().axis); }
};

/// Options of Rrelu.
struct RreluOptions {
  double lower = 1.0 / 8, upper = 1.0 / 3;  ///< range of the slopes
};
/// Applies x for x >= 0, else slope x: with a random slope for each element in training, and with the mean of the range
/// in evaluation. See rrelu().
struct Rrelu : OptionsModule<RreluOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Rrelu"; }
  Variable forward(const Variable& x) override { return rrelu(x, options().lower, options().upper, training()); }
};

/// Options of Prelu.
struct PreluOptions {
  std::int64_t channels = 1;  ///< number of slopes: one for all elements, or one per channel
  double init = 0.25;         ///< initial slope
};
/// Applies x for x > 0, else weight x, to x (…, channels), or to any x with one slope. weight (channels) is trained; as
/// in PyTorch, it should have no weight decay.
class Prelu : public Module {
 public:
  explicit Prelu(const PreluOptions& o = {}) {
    check<ArgumentError>(o.channels > 0, "Prelu: wanted channels > 0, got {}", o.channels);
    weight = Parameter(Tensor::full({o.channels}, o.init, DType::f32, Runtime::current_device()));
  }
  void visit(Visitor& v) override { v("weight", weight); }
  std::string kind() const override { return "Prelu"; }
  Variable forward(const Variable& x) override {
    const std::int64_t channels = weight.dim(0);
    check<ShapeError>(channels == 1 || (x.value().rank() > 0 && x.dim(-1) == channels),
                      "{}: wanted x (…, {}), got {}; channels are the last axis", where(kind()), channels, x.shape());
    const Variable y = prelu(x, weight);
    return is_half(x.dtype()) ? cast(y, x.dtype()) : y;
  }

  Parameter weight;
};

}  // namespace binade::nn
