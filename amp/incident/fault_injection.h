#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/autograd/observer.h"
#include "binade/nn/module.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// A fault that a user plants to see whether a run survives it.
struct Fault {
  std::string spec{};  ///< as it was written
  std::string kind{};
  std::int64_t step = 0;
  std::int64_t every = 0;  ///< > 0: strikes again every so many steps
  bool once = false;       ///< on the first attempt of its step alone; else on every attempt and replay of it
  bool again = false;      ///< whenever its step comes again; else the first time it comes, in the run's life
  std::string path{};      ///< a module, a buffer or a parameter
  std::string op{};
  std::int64_t sample = 0;  ///< row of the step's whole batch
  std::int64_t index = 0;   ///< element
  double factor = 1;
  bool view = false;  ///< only what ops read changes, not what is stored
};

/// Reads `KIND@step=K[,key=value…]`. Throws ArgumentError that names the nearest kind or key.
///
///   nan-input sample=S              an element of that sample is NaN
///   scale-sample sample=S,factor=F  the sample is multiplied
///   constant-row sample=S[,path=P]  a row of the sample that a norm reads is constant; without a path in every norm
///   mask-row sample=S[,path=P]      a row of the sample that a softmax reads is masked whole
///   drop-eps path=P                 the norms of a module compute without eps
///   inf-grad param=P[,index=I]      an element of that parameter's gradient is infinite
///   scale-weight path=P,factor=F    a parameter is multiplied; with view=1 only as ops read it
///   nan-weight path=P               NaN in a parameter after the step is committed
///   nan-buffer path=P               NaN in a buffer, or a module's first, before the step
///   bitflip path=P,op=O             the top exponent bit of a result's first element, in one attempt
///   enospc                          the first checkpoint from that step on finds the disk full
///   lr factor=F                     the step's learning rate is multiplied
///   sigterm, kill                   the process gets that signal before the step
///
/// A module's path stands for its weight. Every kind takes `once=1`, `again=1` and `every=N`. A fault strikes the first
/// time that the run reaches its step, in every attempt and replay of the step. It does not strike when the run reaches
/// the step again, with another batch, after a rollback or in a resumed run.
Fault parse_fault(const std::string& spec);

/// Plants faults in the steps of one Trainer. The owner of the run's folder passes the strikes of the run's earlier
/// processes to `has_struck`; `on_strike` is called before a fault strikes for the first time in a step.
class FaultInjection final : public TapeObserver {
 public:
  FaultInjection() = default;
  /// Throws ArgumentError for a path that the model does not have, naming the nearest.
  FaultInjection(const std::vector<std::string>& specs, nn::Module& model);

  /// One more, for programs that plant by themselves. Throws as the constructor does.
  void plant(const std::string& spec);

  bool planted() const { return !faults_.empty(); }
  const std::vector<Fault>& faults() const { return faults_; }
  void has_struck(const std::string& spec, std::int64_t step) { struck_[{spec, step}] = kEarlierLife; }
  std::function<void(const std::string& spec, std::int64_t step)> on_strike;

  /// Whether a fault of this step was or will be planted: its incidents are drills.
  bool concerns(std::int64_t step) const;

  /// Before the first attempt of a step: what changes state, or ends the process.
  void before_step(std::int64_t step, optim::Optimizer& optimizer);
  /// Before a run of the step; `first`: its first attempt, no replay. `left_out`: rows of the step's whole batch that
  /// it goes without, ascending; `rows`: of one micro-batch, 0 when not known.
  void before_run(std::int64_t step, bool first, std::vector<std::int64_t> left_out = {}, std::int64_t rows = 0);
  /// After backward.
  void after_gradients(optim::FlatParameters& parameters);
  /// After a commit.
  void after_commit(std::int64_t step, optim::Optimizer& optimizer);
  double lr_factor();
  /// Before a checkpoint of `step` is written: whether it is to find the disk full.
  bool fills_disk(std::int64_t step);

  double eps_of(const OpCall& call, double eps) override;
  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& seen) override;

 private:
  bool due(const Fault& fault, std::int64_t step) const;
  std::vector<const Fault*> active(std::string_view kind) const;
  void strike(const Fault& fault) { strike(fault, step_); }
  void strike(const Fault& fault, std::int64_t step);
  bool struck_in_this_call(const Fault& fault) const;
  void fill_row(std::string_view kind, const OpCall& call, Tensor& tensor, float value);
  Tensor planted_in(const Tensor& batch, std::int64_t rows);
  std::optional<std::int64_t> row_of(std::int64_t sample, std::int64_t rows) const;
  void change_weight(const Fault& fault, optim::Optimizer& optimizer, const std::function<float(float)>& f);

  nn::Module* model_ = nullptr;
  std::vector<Fault> faults_;
  static constexpr std::int64_t kEarlierLife = -1;
  /// In which call of before_step a fault struck in that step.
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> struck_;
  std::int64_t step_ = 0;
  std::int64_t call_ = 0;  // of before_step
  bool first_ = true;
  std::vector<std::int64_t> left_out_;
  std::int64_t rows_per_part_ = 0;
  const void* batch_ = nullptr;  // the tensor of this micro-batch that samples are rows of
  std::int64_t batch_rows_ = 0;
  std::int64_t micro_batch_ = -1;
};

using FireDrill [[deprecated("use FaultInjection")]] = FaultInjection;

}  // namespace binade::amp
