/// Losses at their singularities, and means of zero elements.
#include <cmath>

#include "tests/issues/issue.h"

namespace binade::issues {
namespace {

using Cause = amp::CauseClass;

std::function<Batch(std::uint64_t)> classified(std::int64_t classes) {
  return [=](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), labels(seed, {6}, classes)); };
}

/// Cross entropy of a probability that is exactly 0: y log p.
void zero_probability(Run& run) {
  nn::Linear& decoder = run.net.linear("decoder", 8, 4);
  nn::Module& loss = run.net.formula("reconstruction");
  run.loss = [&](const Batch& b) {
    const Variable p = softmax(decoder(b.x));
    return inside(loss, [&] { return -mean(sum(log(p) * Variable(b.y), {-1})); });
  };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), Tensor::full({6, 4}, 0.25)); };
  Batch faulty = healthy(9);
  faulty.x.narrow(3, 1).copy_from(normal(12, {1, 8}, 400));
  run.check(std::isfinite(run.loss_in_double(faulty)), "finite in double precision");
  run.fault_between(healthy, faulty);
}

/// Binary cross entropy of a sigmoid that is exactly 1, with a target of 0.
void saturated_sigmoid(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 1);
  head.weight.mutable_value().fill(1);
  run.loss = [&](const Batch& b) { return nn::bce(sigmoid(head(b.x)), b.y); };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), Tensor::full({6, 1}, 0)); };
  Batch faulty = healthy(9);
  fill_row(faulty.x, 2, 4);
  run.check(1 / (1 + std::exp(-32.0f)) == 1, "sigmoid(32) is 1 in f32");
  run.fault_between(healthy, faulty);
}

/// Supervised contrastive loss: if no other sample of the batch has the class of a sample, it divides by 0 positives.
void no_positive(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 4);
  nn::Module& loss = run.net.formula("contrastive_loss");
  run.loss = [&](const Batch& b) {
    const Variable f = encoder(b.x);
    const std::vector<std::int32_t> y = b.y.to_vector<std::int32_t>();
    std::vector<float> positive;
    for (std::size_t i = 0; i < y.size(); ++i)
      for (std::size_t j = 0; j < y.size(); ++j) positive.push_back(i != j && y[i] == y[j] ? 1.0f : 0.0f);
    const Variable mask = Tensor::from(positive, {b.y.dim(0), b.y.dim(0)});
    return inside(loss, [&] {
      const Variable log_p = log_softmax(matmul(f, f, {.transpose_b = true}) / 0.8);
      return -mean(sum(mask * log_p, {-1}) / sum(mask, {-1}));
    });
  };
  const auto with_labels = [](std::vector<std::int32_t> y) {
    return [=](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), Tensor::from(y, {6})); };
  };
  const Batch faulty = with_labels({7, 1, 1, 2, 2, 2})(9);
  run.check(std::isnan(run.loss_in_double(faulty)), "0 / 0 in double precision, too");
  run.fault_between(with_labels({0, 1, 1, 0, 2, 2}), faulty);
}

/// A detection loss divided by the number of positive anchors, in a batch without an object.
void no_object(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 4);
  nn::Module& loss = run.net.formula("ssd_loss");
  run.loss = [&](const Batch& b) {
    const Variable boxes = head(b.x), positive = b.y;
    return inside(loss, [&] { return sum(square(boxes) * positive) / sum(positive); });
  };
  const auto with_objects = [](double value) {
    return [=](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), Tensor::full({6, 1}, value)); };
  };
  run.check(std::isnan(run.loss_in_double(with_objects(0)(9))), "0 / 0 in double precision, too");
  run.fault_between(with_objects(1), with_objects(0)(9));
}

/// Cross entropy whose targets are all ignored: a mean of zero elements.
void all_ignored(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(b.x), b.y); };
  run.fault_between(classified(4), batch_of(normal(9, {6, 8}), Tensor::full({6}, -100, DType::i32)));
}

/// Box regression with the targets log(width / anchor width). In the annotations, one width is negative.
void negative_box(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 2);
  nn::Module& coder = run.net.formula("bbox_coder");
  run.loss = [&](const Batch& b) {
    const Variable targets = inside(coder, [&] { return log(Variable(b.y) / 32.0); });
    return nn::l1(head(b.x), targets);
  };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), Tensor::full({6, 2}, 30)); };
  Batch faulty = healthy(9);
  fill_row(faulty.y, 3, -4);
  run.check(std::isnan(std::log(-4.0 / 32)), "NaN in double precision, too");
  run.fault_between(healthy, faulty);
}

}  // namespace

std::vector<Issue> losses() {
  const std::vector<Cause> pole{Cause::kLossFunctionSingularity, Cause::kArithmeticSingularity};
  const std::vector<Cause> pole_or_data{Cause::kLossFunctionSingularity, Cause::kArithmeticSingularity,
                                        Cause::kBadInput};
  return {
      {"zero-probability",
       "https://github.com/RasmussenLab/vamb/issues/12",
       "the softmax gives a probability of exactly 0, whose logarithm the cross entropy takes",
       "fp32",
       {{"log"}, {"reconstruction"}, "forward", 3, pole, "log_softmax, or a small pseudocount"},
       zero_probability},
      {"saturated-sigmoid",
       "https://github.com/Lasagne/Lasagne/issues/436",
       "binary_crossentropy of predictions that reach 0 or 1; clipping them works",
       "fp32",
       {{"bce"}, {}, "forward", 2, {Cause::kLossFunctionSingularity}, "bce_with_logits"},
       saturated_sigmoid},
      {"no-positive",
       "https://github.com/HobbitLong/SupContrast/pull/142",
       "a sample without a positive in the batch divides by 0",
       "fp32",
       {{"div"}, {"contrastive_loss"}, "forward", 0, pole_or_data, "divide by max(positives, 1)"},
       no_positive},
      {"no-object",
       "https://github.com/kuangliu/torchcv/issues/35",
       "num_pos is 0 in a batch without objects, and the loss is divided by it",
       "fp32",
       {{"div"}, {"ssd_loss"}, "forward", {}, pole_or_data, "divide by max(positives, 1)"},
       no_object},
      {"all-ignored",
       "https://github.com/pytorch/pytorch/issues/116349",
       "all targets are ignore_index: the mean over nothing is NaN",
       "fp32",
       {{"cross_entropy"},
        {},
        "forward",
        {},
        {Cause::kLossFunctionSingularity, Cause::kBadInput},
        "skip a batch without targets"},
       all_ignored},
      {"negative-box",
       "https://github.com/open-mmlab/mmdetection/issues/3397",
       "a negative value in the annotations: the regression target is the logarithm of a negative width",
       "fp32",
       {{"log"}, {"bbox_coder"}, "forward", 3, pole_or_data, "repair or drop the sample"},
       negative_box},
  };
}

}  // namespace binade::issues
