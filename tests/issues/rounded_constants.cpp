/// Constants that f16 rounds to 0.
#include <cmath>

#include "tests/issues/issue.h"

namespace binade::issues {
namespace {

using Cause = amp::CauseClass;

/// |x| of each row (B, D) -> (B, 1). Its derivative at 0 is 0, as torch.norm defines it.
struct RowNorm {
  struct Params {};
  static constexpr OpInfo info{.name = "row_norm", .inputs = "x", .precision = PrecisionClass::kAsIs};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    const std::vector<float> x = in[0].to_vector<float>();
    const std::size_t rows = static_cast<std::size_t>(in[0].dim(0)), width = x.size() / rows;
    std::vector<float> y(rows);
    for (std::size_t i = 0; i < x.size(); ++i) y[i / width] += x[i] * x[i];
    for (float& value : y) value = std::sqrt(value);
    const Tensor norm = Tensor::from(y, {in[0].dim(0), 1});
    ctx.save(in[0]);
    ctx.save(norm);
    return {norm.to(ctx.store_dtype)};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (!gx.needs(0)) return;
    std::vector<float> x = ctx.saved(0, info.name).to_vector<float>();
    const std::vector<float> norm = ctx.saved(1, info.name).to_vector<float>(), g = gy[0].to_vector<float>();
    const std::size_t width = x.size() / norm.size();
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = norm[i / width] > 0 ? g[i / width] * x[i] / norm[i / width] : 0.0f;
    gx.destination(0).copy_from(Tensor::from(x, ctx.saved(0, info.name).shape()));
  }
};

/// F.normalize in half precision, x / max(|x|, 1e-12), of a padding vector.
void normalize(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 8, false);
  nn::Module& norm = run.net.formula("normalize");
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.options.precision = half_in("normalize");
  run.loss = [&](const Batch& b) {
    const Variable h = encoder(b.x);
    return nn::cross_entropy(head(inside(norm, [&] { return h / clamp(apply_one<RowNorm>({}, {h}), 1e-12, 65504); })),
                             b.y);
  };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), labels(seed, {6}, 4)); };
  Batch faulty = healthy(9);
  fill_row(faulty.x, 2, 0);
  run.check(to_half(1e-12) == 0, "1e-12 is 0 in f16");
  run.check(std::isfinite(run.loss_in_double(faulty)), "finite in double precision");
  run.fault_between(healthy, faulty);
}

/// Min-max normalization of a query's scores, (s - min) / (max - min + 1e-8), for equal documents.
void min_max(Run& run) {
  nn::Linear& score = run.net.linear("score", 8, 1);
  nn::Module& distillation = run.net.formula("distillation");
  run.options.precision = half_in("distillation");
  run.loss = [&](const Batch& b) {
    const Variable s = reshape(score(b.x), {-1, 4});
    return inside(distillation, [&] {
      const Variable low = -max(-s, {-1}, true), high = max(s, {-1}, true);
      return nn::mse((s - low) / (high - low + 1e-8), b.y);
    });
  };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 4, 8}), normal(seed + 50, {6, 4})); };
  Batch faulty = healthy(9);
  fill_row(faulty.x, 3, 0.5);  // four equal documents
  run.check(to_half(1e-8) == 0, "1e-8 is 0 in f16");
  run.fault_between(healthy, faulty);
}

/// Layer norm composed in half precision with an epsilon of 1e-12: d (var + eps)^-1/2.
void layer_norm(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 8, false);
  nn::Module& norm = run.net.formula("norm");
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.options.precision = half_in("norm");
  run.loss = [&](const Batch& b) {
    const Variable h = encoder(b.x);
    const Variable y = inside(norm, [&] {
      const Variable d = h - mean(h, {-1}, true);
      return d * pow(mean(square(d), {-1}, true) + 1e-12, -0.5);
    });
    return nn::cross_entropy(head(y), b.y);
  };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), labels(seed, {6}, 4)); };
  Batch faulty = healthy(9);
  fill_row(faulty.x, 1, 0);
  run.check(std::isfinite(run.loss_in_double(faulty)), "finite in double precision");
  run.fault_between(healthy, faulty);
}

/// Adam whose moments and epsilon are f16: a zero gradient gives 0 / (sqrt(0) + 0).
void adam(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(b.x), b.y); };
  run.optimizer = [](Net& net) {
    return std::make_unique<optim::Adam>(net, optim::AdamOptions{.lr = 1e-3, .eps = 1e-8, .moment_dtype = DType::f16});
  };
  run.check(to_half(1e-8) == 0, "1e-8 is 0 in f16");
  run.repeat(3, [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}, 0), labels(seed, {6}, 4)); });
}

/// CIoU of tiny boxes in half precision: d / c.clamp(1e-16), where the squared diagonal c is 0.
void box_iou(Run& run) {
  nn::Linear& box = run.net.linear("box", 8, 4, false);
  nn::Module& iou = run.net.formula("iou_loss");
  run.options.precision = half_in("iou_loss");
  run.loss = [&](const Batch& b) {
    const Variable p = box(b.x);
    return inside(iou, [&] {
      const Variable center = narrow(p, 1, 0, 2), size = narrow(p, 1, 2, 2);
      const Variable target_center = narrow(b.y, 1, 0, 2), target_size = narrow(b.y, 1, 2, 2);
      const Variable low = minimum(center - size / 2, target_center - target_size / 2);
      const Variable high = maximum(center + size / 2, target_center + target_size / 2);
      const Variable c = sum(square(high - low), {-1}, true);
      const Variable d = sum(square(center - target_center), {-1}, true);
      return mean(d / clamp(c, 1e-16, 65504));
    });
  };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), normal(seed + 50, {6, 4})); };
  Batch faulty = healthy(9);
  fill_row(faulty.x, 4, 0);
  Tensor boxes = Tensor::from(std::vector<float>{0, 0, 1e-4f, 1e-4f}, {1, 4});
  faulty.y.narrow(4, 1).copy_from(boxes);
  run.check(to_half(2e-8) == 0 && to_half(1e-16) == 0, "the squared diagonal and its floor are 0 in f16");
  run.check(std::isfinite(run.loss_in_double(faulty)), "finite in double precision");
  run.fault_between(healthy, faulty);
}

/// A mean in half precision: its count, 70000, is inf in f16, so the loss is 0 from the first step on.
void infinite_count(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 1000);
  nn::Module& loss = run.net.formula("mean_loss");
  run.options.precision = half_in("mean_loss");
  run.loss = [&](const Batch& b) {
    const Variable d = head(b.x) * 0.01;
    return inside(loss, [&] { return sum(square(d)) / sum(Variable(Tensor::full({70, 1000}, 1))); });
  };
  run.check(std::isinf(to_half(70000)), "70000 is infinite in f16");
  run.repeat(60, [](std::uint64_t seed) { return batch_of(normal(seed, {70, 8}), normal(seed, {70, 1})); });
}

}  // namespace

std::vector<Issue> rounded_constants() {
  const std::vector<Cause> pole{Cause::kArithmeticSingularity, Cause::kRoundedConstant};
  return {
      {"normalize-eps",
       "https://github.com/pytorch/pytorch/issues/32137",
       "eps 1e-12 of F.normalize is 0 in half precision, so that a zero vector gives 0 / 0",
       "fp16",
       {{"div"}, {"normalize"}, "forward", 2, pole, "an eps that f16 can hold, or f32 for the op"},
       normalize},
      {"min-max-eps",
       "https://github.com/lightonai/pylate/issues/239",
       "the guard 1e-8 of a min-max normalization is 0 in fp16; equal scores divide by 0",
       "fp16",
       {{"div"}, {"distillation"}, "forward", 3, pole, "an eps that f16 can hold, or f32 for the op"},
       min_max},
      {"layer-norm-eps",
       "https://github.com/tensorflow/tensorflow/pull/24979",
       "epsilon 1e-12 of a composed layer norm is too small for float16",
       "fp16",
       {{"pow", "mul"},
        {"norm"},
        "forward",
        1,
        {Cause::kArithmeticSingularity, Cause::kNormalizationSingularity, Cause::kRoundedConstant},
        "an eps that f16 can hold, or f32 for the op"},
       layer_norm},
      {"adam-eps",
       "https://github.com/google-deepmind/optax/issues/1754",
       "Adam's eps 1e-8 is 0 in float16; a zero gradient divides 0 by 0",
       "f16 moments",
       {.classes = {Cause::kOptimizerUnderflow}, .remedy = "a larger eps, or f32 moments", .refusal = {"eps"}},
       adam},
      {"ciou-eps",
       "https://github.com/Megvii-BaseDetection/YOLOX/issues/1565",
       "clamp(1e-16) in the CIoU loss does not guard the division in fp16; the answer is to leave fp16",
       "fp16",
       {{"div"}, {"iou_loss"}, "forward", 4, pole, "an eps that f16 can hold, or f32 for the loss"},
       box_iou},
      {"infinite-count",
       "https://github.com/chelsea0x3b/dfdx/issues/748",
       "the divisor of the mean, above 65504, is inf in half precision, so that the loss is always 0",
       "fp16",
       {.classes = {Cause::kReductionOverflow},
        .remedy = "f32 for the reduction",
        .warnings = {amp::WarningKind::kOverflow, amp::WarningKind::kSwallowedOverflow},
        .silent = true},
       infinite_count},
  };
}

}  // namespace binade::issues
