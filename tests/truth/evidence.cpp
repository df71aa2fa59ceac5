#include "tests/truth/evidence.h"

#include <cmath>
#include <limits>

namespace binade::truth {

namespace {

struct Content {
  bool bad = false;       // NaN or +inf
  bool negative = false;  // -inf
  double largest = 0;
};

bool floating(DType d) { return d == DType::f32 || d == DType::f16 || d == DType::bf16 || d == DType::f64; }

Content content_of(const Tensor& tensor) {
  Content c;
  if (!tensor.defined() || !floating(tensor.dtype())) return c;
  for (const double x : tensor.to_vector<double>()) {
    if (std::isnan(x) || x == std::numeric_limits<double>::infinity())
      c.bad = true;
    else if (std::isinf(x))
      c.negative = true;
    c.largest = std::isnan(x) ? std::numeric_limits<double>::infinity() : std::max(c.largest, std::abs(x));
  }
  return c;
}

class Watch final : public TapeObserver {
 public:
  explicit Watch(Evidence& evidence) : evidence_(evidence) {}
  bool separates_gradients() const override { return true; }
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs, const Observation&) override {
    note(call, "forward", read, outputs);
  }
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation&) override {
    note(call, "backward", gy, gx);
  }

 private:
  void note(const OpCall& call, const char* direction, std::span<const Tensor> operands,
            std::span<const Tensor> results) {
    CallKey key{std::string(call.module_path), call.info.name, direction, 0};
    key.ordinal = counts_[key]++;
    bool bad_in = false, mask_in = false, bad_out = false, mask_out = false;
    for (const Tensor& t : operands) {
      const Content c = content_of(t);
      bad_in |= c.bad;
      mask_in |= c.negative;
    }
    double largest = 0;
    for (const Tensor& t : results) {
      const Content c = content_of(t);
      bad_out |= c.bad;
      mask_out |= c.negative;
      largest = std::max(largest, c.largest);
    }
    evidence_.largest[key] = largest;
    if (!evidence_.first && !bad_in && (bad_out || (mask_out && !mask_in))) evidence_.first = key;
  }

  Evidence& evidence_;
  std::map<CallKey, int> counts_;
};

/// On destruction, discards what a forward and backward pass wrote to buffers and gradients.
class DiscardChanges {
 public:
  explicit DiscardChanges(Task& task) : task_(task) {}
  ~DiscardChanges() {
    for (const auto& [name, buffer] : nn::named_buffers(task_.net())) buffer->rollback();
    for (const auto& [name, parameter] : nn::named_parameters(task_.net())) parameter->zero_grad();
    if (nn::Module* outside = task_.outside())
      for (const auto& [name, parameter] : nn::named_parameters(*outside)) parameter->zero_grad();
  }
  DiscardChanges(const DiscardChanges&) = delete;
  DiscardChanges& operator=(const DiscardChanges&) = delete;

 private:
  Task& task_;
  nn::TransactionScope transaction_;
};

/// During its lifetime, the parameters are f64 leaves without gradients.
class DoubleParameters {
 public:
  explicit DoubleParameters(Task& task) {
    add(task.net());
    if (nn::Module* outside = task.outside()) add(*outside);
  }
  ~DoubleParameters() {
    for (Kept& k : kept_) {
      k.state->value = k.value;
      k.state->grad = k.grad;
      k.state->grad_defined = k.grad_defined;
    }
  }
  DoubleParameters(const DoubleParameters&) = delete;
  DoubleParameters& operator=(const DoubleParameters&) = delete;

 private:
  struct Kept {
    std::shared_ptr<Variable::State> state{};
    Tensor value{}, grad{};
    bool grad_defined = false;
  };
  void add(nn::Module& module) {
    for (const auto& [name, parameter] : nn::named_parameters(module)) {
      Variable::State& s = *parameter->state();
      kept_.push_back({parameter->state(), s.value, s.grad, s.grad_defined});
      s.value = s.value.to(DType::f64);
      s.grad = Tensor();
      s.grad_defined = false;
    }
  }
  std::vector<Kept> kept_;
};

}  // namespace

Evidence examine_in_double(Task& task, const Batch& batch) {
  const Batch exact = batch.in_double();
  {
    const DoubleParameters parameters(task);
    if (Evidence evidence = examine(task, exact, amp::Policy::fp32(), 1); evidence.error.empty()) return evidence;
  }
  return examine(task, exact, amp::Policy::fp32(),
                 1);  // a layer with f32 statistics threw: f32 parameters
}

Evidence examine(Task& task, const Batch& batch, const amp::Policy& policy, double scale) {
  Evidence evidence;
  const DiscardChanges discard(task);
  const PolicyScope scope(policy);
  Watch watch(evidence);
  try {
    const ObserverScope observed(watch);
    const Variable loss = task.run(batch);
    evidence.loss_finite = std::isfinite(loss.item());
    backward(loss, scale);
  } catch (const Error& error) {
    evidence.error = error.what();
    evidence.finite = false;
    return evidence;
  }
  evidence.finite = evidence.loss_finite;
  for (const auto& [name, parameter] : nn::named_parameters(task.net())) {
    const Tensor g = parameter->grad();
    const Content c = content_of(g);
    evidence.finite = evidence.finite && !c.bad && !c.negative;
    if (!g.defined() || c.largest == 0) evidence.without_gradient.push_back(name);
  }
  return evidence;
}

}  // namespace binade::truth
