#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/functions.h"
#include "binade/nn/bilinear.h"
#include "binade/nn/flatten.h"
#include "binade/nn/padding.h"
#include "binade/nn/transformer.h"
#include "tests/golden/op_case.h"

/// The functions of math.h, composites.h, statistics.h, differences.h, pieces.h and linalg.h that PyTorch has under the
/// same name, compared with PyTorch's.
namespace binade::golden {
namespace {

using In = const Inputs&;

Function of(Variable (*f)(In)) {
  return [f](const Case&, In in) -> Outputs { return {{"y", f(in)}}; };
}
Function of_x(Variable (*f)(const Variable&)) {
  return [f](const Case&, In in) -> Outputs { return {{"y", f(in["x"])}}; };
}
Function of_pair(Variable (*f)(const Variable&, const Variable&)) {
  return [f](const Case&, In in) -> Outputs { return {{"y", f(in["a"], in["b"])}}; };
}
Variable squared_distance(const Variable& a, const Variable& b) { return sum(square(a - b), -1); }

std::map<std::string, Function> elementwise() {
  return {
      {"erfc", of_x(erfc)},
      {"sinc", of_x(sinc)},
      {"i0", of_x(i0)},
      {"i1", of_x(i1)},
      {"polygamma_0", of_x([](const Variable& x) { return polygamma(0, x); })},
      {"polygamma_1", of_x([](const Variable& x) { return polygamma(1, x); })},
      {"polygamma_2", of_x([](const Variable& x) { return polygamma(2, x); })},
      {"polygamma_4", of_x([](const Variable& x) { return polygamma(4, x); })},
      {"mvlgamma_3", of_x([](const Variable& x) { return mvlgamma(x, 3); })},
      {"logit", of_x([](const Variable& x) { return logit(x); })},
      {"logit_eps", of_x([](const Variable& x) { return logit(x, 0.05); })},
      {"deg2rad", of_x(deg2rad)},
      {"rad2deg", of_x(rad2deg)},
      {"signbit", of_x(signbit)},
      {"lerp", of([](In in) { return lerp(in["a"], in["b"], in["w"]); })},
      {"lerp_03", of_pair([](const Variable& a, const Variable& b) { return lerp(a, b, 0.3); })},
      {"addcmul", of([](In in) { return addcmul(in["x"], in["a"], in["b"], 0.5); })},
      {"addcdiv", of([](In in) { return addcdiv(in["x"], in["a"], in["b"], 0.5); })},
      {"fmax", of_pair(fmax)},
      {"fmin", of_pair(fmin)},
      {"heaviside", of_pair(heaviside)},
      {"logaddexp2", of_pair(logaddexp2)},
      {"isclose", of_pair([](const Variable& a, const Variable& b) { return isclose(a, b); })},
      {"gcd", of_pair(gcd)},
      {"lcm", of_pair(lcm)},
      {"isin", of_pair(isin)},
  };
}

std::map<std::string, Function> layers() {
  return {
      {"normalize_1", of_x([](const Variable& x) { return normalize(x, 1); })},
      {"normalize_2", of_x([](const Variable& x) { return normalize(x); })},
      {"normalize_3", of_x([](const Variable& x) { return normalize(x, 3); })},
      {"softmin", of_x([](const Variable& x) { return softmin(x); })},
      {"channel_shuffle", of_x([](const Variable& x) { return channel_shuffle(x, 3); })},
      {"triplet", of([](In in) {
         return triplet_margin_with_distance(in["a"], in["p"], in["n"], squared_distance, {.margin = 2});
       })},
      {"triplet_swap", of([](In in) {
         return triplet_margin_with_distance(in["a"], in["p"], in["n"], squared_distance,
                                             {.margin = 2, .swap = true, .reduction = Reduction::kNone});
       })},
  };
}

template <Quantile between>
void add_quantiles(std::map<std::string, Function>& all, const std::string& name) {
  all["quantile_" + name] = of_x([](const Variable& x) { return quantile(x, 0.3, 1, {.between = between}); });
  all["nanquantile_" + name] = of_x([](const Variable& x) { return nanquantile(x, 0.3, 1, {.between = between}); });
}

std::map<std::string, Function> statistics() {
  std::map<std::string, Function> all{
      {"nansum", of_x([](const Variable& x) { return nansum(x); })},
      {"nansum_along", of_x([](const Variable& x) { return nansum(x, 1); })},
      {"nanmean", of_x([](const Variable& x) { return nanmean(x); })},
      {"nanmean_along", of_x([](const Variable& x) { return nanmean(x, 1); })},
      {"nanmedian", of_x([](const Variable& x) { return nanmedian(x); })},
      {"nanmedian_along",
       [](const Case&, In in) -> Outputs {
         const auto [values, indices] = nanmedian(in["x"], 1);
         return {{"y", values}, {"at", indices}};
       }},
      {"quantile_several", of_x([](const Variable& x) {
         return quantile(x, {0, 0.25, 1});
       })},
      {"quantile_keepdim", of_x([](const Variable& x) { return quantile(x, 0.75, 1, {.keepdim = true}); })},
      {"mode", of_x([](const Variable& x) { return mode(x, 1).values; })},
      {"aminmax",
       [](const Case&, In in) -> Outputs {
         const auto [low, high] = aminmax(in["x"], 1);
         return {{"low", low}, {"high", high}};
       }},
      {"var_mean",
       [](const Case&, In in) -> Outputs {
         const auto [variance, mean] = var_mean(in["x"], 1);
         return {{"y", variance}, {"m", mean}};
       }},
      {"std_mean",
       [](const Case&, In in) -> Outputs {
         const auto [deviation, mean] = std_mean(in["x"], 1, 0);
         return {{"y", deviation}, {"m", mean}};
       }},
      {"cov", of_x([](const Variable& x) { return cov(x); })},
      {"cov_weighted", of([](In in) { return cov(in["x"], {.frequencies = in["f"], .weights = in["w"]}); })},
      {"cov_counts", of([](In in) { return cov(in["x"], {.correction = 0, .frequencies = in["f"]}); })},
      {"corrcoef", of_x(corrcoef)},
      {"histogram_5",
       [](const Case&, In in) -> Outputs {
         const auto [counts, edges] = histogram(in["x"], 5);
         return {{"y", counts}, {"e", edges}};
       }},
      {"histogram_range",
       [](const Case&, In in) -> Outputs {
         const auto [counts, edges] = histogram(in["x"], 4, {.low = -1, .high = 1});
         return {{"y", counts}, {"e", edges}};
       }},
      {"histogram_density",
       [](const Case&, In in) -> Outputs {
         const auto [counts, edges] = histogram(in["x"], in["e"], {.weights = in["w"], .density = true});
         return {{"y", counts}, {"e", edges}};
       }},
  };
  add_quantiles<Quantile::kLinear>(all, "linear");
  add_quantiles<Quantile::kLower>(all, "lower");
  add_quantiles<Quantile::kHigher>(all, "higher");
  add_quantiles<Quantile::kNearest>(all, "nearest");
  add_quantiles<Quantile::kMidpoint>(all, "midpoint");
  return all;
}

std::map<std::string, Function> differences() {
  return {
      {"diff", of_x([](const Variable& x) { return diff(x, 1, 1); })},
      {"diff_twice", of([](In in) { return diff(in["x"], 2, 1, in["p"], in["a"]); })},
      {"gradient_1", of_x([](const Variable& x) { return gradient(x, 0.5, 1); })},
      {"gradient_2", of_x([](const Variable& x) { return gradient(x, 0.5, 1, 2); })},
      {"gradient_points_1", of([](In in) { return gradient(in["x"], in["p"], 1); })},
      {"gradient_points_2", of([](In in) { return gradient(in["x"], in["p"], 1, 2); })},
      {"trapezoid", of_x([](const Variable& x) { return trapezoid(x, 0.5, 1); })},
      {"trapezoid_points", of([](In in) { return trapezoid(in["x"], in["p"], 1); })},
      {"cumulative_trapezoid", of_x([](const Variable& x) { return cumulative_trapezoid(x, 0.5, 1); })},
      {"cumulative_trapezoid_points", of([](In in) { return cumulative_trapezoid(in["x"], in["p"], 1); })},
  };
}

std::map<std::string, Function> pieces() {
  return {
      {"atleast_1d", of_x(atleast_1d)},
      {"atleast_2d", of_x(atleast_2d)},
      {"atleast_3d", of_x(atleast_3d)},
      {"column_stack", of_pair([](const Variable& a, const Variable& b) {
         return column_stack({a, b});
       })},
      {"dstack", of_pair([](const Variable& a, const Variable& b) {
         return dstack({a, b});
       })},
      {"broadcast_tensors",
       [](const Case&, In in) -> Outputs {
         const std::vector<Variable> wide = broadcast_tensors({in["a"], in["b"]});
         return {{"y", wide[0]}, {"z", wide[1]}};
       }},
      {"pad_sequence", of([](In in) {
         return pad_sequence({in["a"], in["b"], in["c"]}, 0.5);
       })},
      {"select_scatter", of([](In in) { return select_scatter(in["x"], in["s"], 1, -2); })},
      {"slice_scatter", of([](In in) { return slice_scatter(in["x"], in["s"], 1, 1, 4, 2); })},
      {"diagonal_scatter", of([](In in) { return diagonal_scatter(in["x"], in["s"], 1); })},
      {"masked_scatter", of([](In in) { return masked_scatter(in["x"], in["m"], in["s"]); })},
      {"cartesian_prod", of_pair([](const Variable& a, const Variable& b) {
         return cartesian_prod({a, b});
       })},
      {"combinations_3", of_x([](const Variable& x) { return combinations(x, 3); })},
      {"combinations_again", of_x([](const Variable& x) { return combinations(x, 3, true); })},
  };
}

std::map<std::string, Function> algebra() {
  return {
      {"pdist_0.5", of_x([](const Variable& x) { return pdist(x, 0.5); })},
      {"pdist_1", of_x([](const Variable& x) { return pdist(x, 1); })},
      {"pdist_2", of_x([](const Variable& x) { return pdist(x); })},
      {"pdist_3", of_x([](const Variable& x) { return pdist(x, 3); })},
      {"renorm", of_x([](const Variable& x) { return renorm(x, 3, 1, 1.5); })},
      {"logdet", of_x(logdet)},
      {"cholesky_inverse", of_x([](const Variable& x) { return cholesky_inverse(x); })},
      {"cholesky_inverse_upper", of_x([](const Variable& x) { return cholesky_inverse(x, true); })},
      {"lu_solve", of_pair([](const Variable& a, const Variable& b) { return lu_solve(lu_factor(a), b); })},
      {"tensorinv_1", of_x([](const Variable& x) { return tensorinv(x, 1); })},
      {"tensorsolve", of_pair([](const Variable& a, const Variable& b) { return tensorsolve(a, b); })},
      {"tensorsolve_axes", of_pair([](const Variable& a, const Variable& b) {
         return tensorsolve(a, b, {0, 1});
       })},
      {"householder", of([](In in) { return householder_product(in["a"], in["t"]); })},
  };
}

/// Replaces parameters of a module by the inputs of their names, so that gradients reach the inputs, and sets
/// evaluation mode.
template <class M>
void prepare(M& module, In in) {
  for (const auto& [name, parameter] : nn::named_parameters(module)) static_cast<Variable&>(*parameter) = in[name];
  module.eval();
}

template <class Pad>
void add_padding(std::map<std::string, Function>& all, const std::vector<std::int64_t>& sides) {
  const std::string name = Pad({.padding = sides}).kind();
  all[name] = [sides](const Case&, In in) -> Outputs {
    if constexpr (requires { Pad({.padding = {}, .value = 0.5}); })
      return {{"y", Pad({.padding = sides, .value = 0.5})(in["x"])}};
    else
      return {{"y", Pad({.padding = sides})(in["x"])}};
  };
}

std::map<std::string, Function> modules() {
  std::map<std::string, Function> all{
      {"Bilinear",
       [](const Case&, In in) -> Outputs {
         nn::Bilinear layer({.in1 = 3, .in2 = 4, .out = 2});
         prepare(layer, in);
         return {{"y", layer(in["a"], in["b"])}};
       }},
      {"PairwiseDistance",
       [](const Case&, In in) -> Outputs {
         nn::PairwiseDistance distance({.p = 3, .eps = 1e-3, .keepdim = true});
         return {{"y", distance(in["a"], in["b"])}};
       }},
      {"Transformer",
       [](const Case&, In in) -> Outputs {
         nn::Transformer model(
             {.encoder_layers = 1, .decoder_layers = 1, .layer = {.dim = 8, .heads = 2, .hidden = 6}});
         prepare(model, in);
         return {{"y", model(in["x"], in["target"])}};
       }},
  };
  add_padding<nn::ZeroPad1d>(all, {1, 2});
  add_padding<nn::ReflectionPad1d>(all, {1, 2});
  add_padding<nn::ReplicationPad1d>(all, {1, 2});
  add_padding<nn::CircularPad1d>(all, {1, 2});
  add_padding<nn::ConstantPad1d>(all, {1, 2});
  add_padding<nn::ZeroPad2d>(all, {1, 2, 3, 0});
  add_padding<nn::ReflectionPad2d>(all, {1, 2, 3, 0});
  add_padding<nn::ReplicationPad2d>(all, {1, 2, 3, 0});
  add_padding<nn::CircularPad2d>(all, {1, 2, 3, 0});
  add_padding<nn::ConstantPad2d>(all, {1, 2, 3, 0});
  add_padding<nn::ZeroPad3d>(all, {1, 0, 2, 1, 0, 2});
  add_padding<nn::ReflectionPad3d>(all, {1, 0, 2, 1, 0, 2});
  add_padding<nn::ReplicationPad3d>(all, {1, 0, 2, 1, 0, 2});
  add_padding<nn::CircularPad3d>(all, {1, 0, 2, 1, 0, 2});
  add_padding<nn::ConstantPad3d>(all, {1, 0, 2, 1, 0, 2});
  return all;
}

TEST(GoldenOps, NamesMatchPyTorch) {
  std::map<std::string, Function> functions = elementwise();
  functions.merge(layers());
  functions.merge(statistics());
  functions.merge(differences());
  functions.merge(pieces());
  functions.merge(algebra());
  functions.merge(modules());
  check_family("names", functions);
}

}  // namespace
}  // namespace binade::golden
