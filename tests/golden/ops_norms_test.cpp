#include <gtest/gtest.h>

#include "binade/autograd/functions/norm.h"
#include "tests/golden/op_case.h"

namespace binade::golden {
namespace {

/// The new running statistic of BatchNorm2d: (1 - momentum) old + momentum * correction * batch.
Variable running(const Variable& old, const Variable& batch, double momentum, double correction) {
  Tensor kept = Tensor::empty(old.shape(), DType::f64);
  for (std::int64_t i = 0; i < kept.numel(); ++i)
    kept.mutable_data<double>()[i] = (1 - momentum) * old.value().at(i) + momentum * correction * batch.value().at(i);
  return kept;
}

Outputs run_batch_norm(const Case& c, const Inputs& in) {
  const ChannelNormOptions options{.eps = c.number("eps"), .relu = c.flag("relu")};
  if (!c.flag("training"))
    return {{"y", batch_norm_with(in["x"], in["running_mean"], in["running_var"], in["w"], in["b"], options)}};
  const BatchNormResult result = batch_norm(in["x"], in["w"], in["b"], options);
  const double momentum = c.number("momentum"), count = static_cast<double>(in["x"].shape().rows());
  return {{"y", result.y},
          {"running_mean", running(in["running_mean"], result.mean, momentum, 1)},
          {"running_var", running(in["running_var"], result.var, momentum, count / (count - 1))}};
}

Outputs outputs_of(const AddNormResult& result) { return {{"y", result.y}, {"sum", result.h}}; }

TEST(GoldenOps, NormsMatchPyTorch) {
  check_family(
      "norms",
      {
          {"batch_norm", run_batch_norm},
          {"layer_norm",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", layer_norm(in["x"], in["w"], in["b"], c.number("eps"))}};
           }},
          {"layer_norm_residual",
           [](const Case& c, const Inputs& in) {
             return outputs_of(add_layer_norm(in["x"], in["residual"], in["w"], in["b"], c.number("eps")));
           }},
          {"rms_norm",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", rms_norm(in["x"], in["w"], c.number("eps"))}};
           }},
          {"rms_norm_residual",
           [](const Case& c, const Inputs& in) {
             return outputs_of(add_rms_norm(in["x"], in["residual"], in["w"], c.number("eps")));
           }},
          {"group_norm",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", group_norm(in["x"], c.integer("groups"), in["w"], in["b"], {.eps = c.number("eps")})}};
           }},
      });
}

}  // namespace
}  // namespace binade::golden
