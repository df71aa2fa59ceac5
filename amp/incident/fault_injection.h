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
#include "binade/optim/parameter_list.h"

namespace binade::amp {

/// A fault that is injected on purpose, to see how the run handles it.
struct Fault {
  std::string spec{};  ///< the text that parse_fault() read
  std::string kind{};
  std::int64_t step = 0;
  std::int64_t every = 0;  ///< > 0: strikes again at this interval of steps
  bool once = false;       ///< strikes only in the first attempt at its step; otherwise in all attempts and replays
  bool again = false;      ///< strikes each time the run reaches its step; otherwise only the first time
  std::string path{};      ///< path of a module, buffer or parameter
  std::string op{};
  std::int64_t sample = 0;  ///< row of the step's whole batch
  std::int64_t index = 0;   ///< index of the element in its parameter
  std::int64_t bit = -1;    ///< number of the bit to flip, 0 for the lowest; -1: the highest exponent bit
  int rank = -1;            ///< strikes on this rank only; -1: on every rank that it concerns
  double seconds = 0;       ///< length of a pause
  double factor = 1;        ///< multiplies the sample, the weights or the learning rate, depending on the kind
  bool view = false;        ///< changes only the values that ops read, not the stored weights
};

/// Parses `KIND@step=K[,key=value…]`. Throws ArgumentError that suggests the nearest kind or key.
///
///   nan-input sample=S              an element of that sample is NaN
///   scale-sample sample=S,factor=F  the sample is multiplied
///   constant-row sample=S[,path=P]  a row of the sample that a norm reads is constant; without path: in every norm
///   mask-row sample=S[,path=P]      a row of the sample that a softmax reads is completely masked
///   drop-eps path=P                 the norms of a module compute without eps
///   inf-grad param=P[,index=I]      an element of that parameter's gradient is infinite
///   scale-weight path=P,factor=F    a parameter is multiplied; with view=1 only in what ops read
///   nan-weight path=P               a parameter gets a NaN after the step's commit
///   nan-buffer path=P               a buffer, or the first one of a module, gets a NaN before the step
///   bitflip path=P,op=O[,bit=B]     a bit of a result's first element flips, in one attempt; by default the top
///                                   exponent bit
///   enospc                          the first checkpoint from this step on fails because the disk is full
///   lr factor=F                     the step's learning rate is multiplied
///   sigterm, kill, stop             the process gets SIGTERM, SIGKILL or SIGSTOP before the step
///   slow seconds=T                  the step begins T seconds later
///
/// A module's path stands for its weight. Every kind takes `once=1`, `again=1`, `every=N`, and `rank=R`: the fault then
/// strikes on rank R only, which can give one rank another weight than the others. By default, a fault strikes in all
/// attempts and replays of its step when the run reaches the step for the first time. It does not strike when the run
/// reaches the step again (with another batch, after a rollback or in a resumed run).
Fault parse_fault(const std::string& spec);

/// Injects faults into the steps of one Trainer. The code that owns the run folder calls mark_struck() for faults that
/// struck in earlier processes of the run. `on_strike` is called before a fault without `again` strikes in a step for
/// the first time.
class FaultInjection final : public TapeObserver {
 public:
  FaultInjection() = default;
  /// `rank`: of this process. Throws ArgumentError for a path that the model does not have, and suggests the nearest.
  FaultInjection(const std::vector<std::string>& specs, nn::Module& model, int rank = 0);

  /// Adds a fault. Throws as the constructor does.
  void plant(const std::string& spec);

  bool planted() const { return !faults_.empty(); }
  const std::vector<Fault>& faults() const { return faults_; }
  void mark_struck(const std::string& spec, std::int64_t step) { struck_[{spec, step}] = kEarlierProcess; }
  [[deprecated("use mark_struck()")]] void has_struck(const std::string& s, std::int64_t step) { mark_struck(s, step); }
  std::function<void(const std::string& spec, std::int64_t step)> on_strike;

  /// True if a fault affects this step. The incidents of the step are then drills.
  bool concerns(std::int64_t step) const;

  /// Call before the first attempt at a step. Injects the faults that change state or end the process.
  void before_step(std::int64_t step, std::span<optim::Optimizer* const> optimizers);
  /// Call before each attempt and replay. `first`: true for the first attempt, false for retries and replays;
  /// `left_out`: rows of the step's whole batch that are left out, ascending; `rows`: number of rows of one
  /// micro-batch, 0 if unknown.
  void before_run(std::int64_t step, bool first, std::vector<std::int64_t> left_out = {}, std::int64_t rows = 0);
  /// Call after backward.
  void after_gradients(const optim::ParameterList& parameters);
  /// Call after the commit.
  void after_commit(std::int64_t step, std::span<optim::Optimizer* const> optimizers);
  /// Returns the factor by which faults multiply the learning rate of this attempt.
  double lr_factor();
  /// Call before a checkpoint of `step` is written. True if the write must fail because the disk is full.
  bool fills_disk(std::int64_t step);

  double eps_of(const OpCall& call, double eps) override;
  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& amax) override;

 private:
  bool due(const Fault& fault, std::int64_t step) const;
  std::vector<const Fault*> active(std::string_view kind) const;
  void strike(const Fault& fault) { strike(fault, step_); }
  void strike(const Fault& fault, std::int64_t step);
  bool struck_in_this_call(const Fault& fault) const;
  void fill_row(std::string_view kind, const OpCall& call, Tensor& tensor, float value);
  Tensor with_input_faults(const Tensor& batch, std::int64_t rows);
  std::optional<std::int64_t> row_of(std::int64_t sample, std::int64_t rows) const;
  void change_weight(const Fault& fault, std::span<optim::Optimizer* const> optimizers,
                     const std::function<float(float)>& f);

  bool is_here(const Fault& fault) const { return fault.rank < 0 || fault.rank == rank_; }

  nn::Module* model_ = nullptr;
  std::vector<Fault> faults_;
  static constexpr std::int64_t kEarlierProcess = -1;
  /// By fault and step: the number of the before_step() call in which the fault struck, or kEarlierProcess.
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> struck_;
  std::int64_t step_ = 0;
  std::int64_t call_ = 0;  // number of before_step() calls
  bool first_ = true;
  std::vector<std::int64_t> left_out_;
  std::int64_t rows_per_micro_batch_ = 0;
  const void* batch_ = nullptr;  // address of the micro-batch's tensor, whose rows are samples
  std::int64_t batch_rows_ = 0;
  std::int64_t micro_batch_ = -1;
  int rank_ = 0;
};

using FireDrill [[deprecated("use FaultInjection")]] = FaultInjection;

}  // namespace binade::amp
