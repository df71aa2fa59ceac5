#include "binade/core/ops/cross_entropy.h"
#include "binade/core/ops/dice.h"
#include "binade/core/ops/element_losses.h"
#include "binade/core/step_context.h"
#include "binade/cuda/faults.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"
#include "binade/cuda/slots/op_list.h"
#include "binade/cuda/slots/walk.h"

namespace binade::cuda {
namespace {

using ops::CrossEntropy;

CrossEntropyCall call_of(const Tensor& logits, const Tensor& targets, const CrossEntropy::Params& p) {
  return {.rows = targets.numel(),
          .classes = logits.shape().cols(),
          .pitch = logits.pitch(),
          .logits = source(logits),
          .targets = source(targets),
          .ignore_index = p.ignore_index,
          .label_smoothing = p.label_smoothing};
}

void cross_entropy(const Tensor& logits, const Tensor& targets, Tensor& statistics, Tensor& count, Tensor& loss,
                   const CrossEntropy::Params& p) {
  CrossEntropyCall call = call_of(logits, targets, p);
  call.statistics = target(statistics);
  call.count = count.mutable_data<std::int64_t>();
  call.out = target(loss);
  call.number = number_call([op = where(CrossEntropy::info.name).to_string(), shape = targets.shape(),
                             classes = call.classes, ignore = p.ignore_index](std::int64_t row, std::int64_t label) {
    return ops::bad_target_text(op, shape, row, label, classes, ignore);
  });
  run(Call::kCrossEntropy, call, CrossEntropy::info.name);
}

void cross_entropy_backward(const Tensor& logits, const Tensor& targets, const Tensor& statistics, const Tensor& count,
                            const Tensor& gy, Tensor& gx, const CrossEntropy::Params& p) {
  CrossEntropyCall call = call_of(logits, targets, p);
  call.backward = true;
  Tensor read_statistics = statistics, read_count = count;  // the call is one struct for both directions
  call.statistics = target(read_statistics);
  call.count = read_count.mutable_data<std::int64_t>();
  call.gy = source(gy);
  call.out = target(gx);
  run(Call::kCrossEntropy, call, CrossEntropy::info.name);
}

template <class Op>
struct ElementLoss {
  using Params = typename Op::Params;

  static void start(int direction, const Tensor& x_any, const Tensor& t_any, Source gy, double divisor, Tensor& out,
                    const Params& p) {
    const Tensor x = x_any.contiguous_copy(), t = t_any.contiguous_copy();
    ElementLossCall call{.op = position_in<Op>(ops::ElementLosses{}),
                         .direction = direction,
                         .count = x.numel(),
                         .x = source(x),
                         .t = source(t),
                         .gy = gy,
                         .divisor = divisor,
                         .out = target(out)};
    put_params(call.params, p);
    run(Call::kElementLoss, call, Op::info.name);
  }
  static void forward(const Tensor& x, const Tensor& t, double divisor, Tensor& loss, const Params& p) {
    start(0, x, t, {}, divisor, loss, p);
  }
  static void backward(int which, const Tensor& x, const Tensor& t, const Tensor& gy, double divisor, Tensor& g,
                       const Params& p) {
    start(which + 1, x, t, source(gy), divisor, g, p);
  }
};

void dice_sums(const Tensor& x_any, const Tensor& t_any, Tensor& sums) {
  const Tensor x = x_any.contiguous_copy(), t = t_any.contiguous_copy();
  run(Call::kDiceSums, DiceSumsCall{x.numel(), source(x), source(t), target(sums)}, ops::Dice::info.name);
}
void dice_loss(const Tensor& sums, double smooth, Tensor& loss) {
  run(Call::kDiceLoss, DiceLossCall{source(sums), smooth, target(loss)}, ops::Dice::info.name);
}
void dice_gradient(const Tensor& other_any, const Tensor& sums, double smooth, const Tensor& gy, Tensor& g) {
  const Tensor other = other_any.contiguous_copy();
  run(Call::kDiceGradient, DiceGradientCall{g.numel(), source(other), source(sums), source(gy), smooth, target(g)},
      ops::Dice::info.name);
}

}  // namespace

void register_losses() {
  CrossEntropy::kernels.fill(DeviceType::kCuda, {&cross_entropy, &cross_entropy_backward});
  ops::for_each_op(ops::ElementLosses{}, []<class Op>(ops::OpTag<Op>) {
    ops::element_loss_kernels<Op>.fill(DeviceType::kCuda, {&ElementLoss<Op>::forward, &ElementLoss<Op>::backward});
  });
  ops::Dice::kernels.fill(DeviceType::kCuda, {&dice_sums, &dice_loss, &dice_gradient});
}

}  // namespace binade::cuda
