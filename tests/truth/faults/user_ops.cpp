#include <cmath>

#include "tests/truth/faults/tapped.h"

/// A user's ops whose OpInfo declares nothing: no singularities, no range, no family.
namespace binade::truth {

namespace {

/// y = f(x) elementwise, in float or double, stored in the op's dtype.
template <class F>
struct Own {
  struct Params {};
  static constexpr OpInfo info{.name = F::kName, .precision = F::kFull ? PrecisionClass::kFull : PrecisionClass::kAsIs};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    const Tensor x = in[0].contiguous_copy();
    std::vector<double> y = x.to_vector<double>();
    for (double& v : y) v = F::value(v);
    ctx.save(x);
    return {Tensor::from(y, x.shape()).to(ctx.store_dtype)};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (!gx.needs(0)) return;
    const Tensor& x = ctx.saved(0, info.name);
    std::vector<double> g = gy[0].to_vector<double>();
    const std::vector<double> at = x.to_vector<double>();
    for (std::size_t i = 0; i < g.size(); ++i) g[i] *= F::derivative(at[i]);
    gx.destination(0).copy_from(Tensor::from(g, x.shape()));
  }
};

struct Arccosine {
  static constexpr const char* kName = "arccosine";
  static constexpr bool kFull = true;
  static double value(double x) { return std::acos(x); }
  static double derivative(double x) { return -1 / std::sqrt(1 - x * x); }
};
struct XLogX {
  static constexpr const char* kName = "x_log_x";
  static constexpr bool kFull = true;
  static double value(double x) { return x * std::log(x); }
  static double derivative(double x) { return std::log(x) + 1; }
};
struct InverseSoftplus {
  static constexpr const char* kName = "softplus_inverse";
  static constexpr bool kFull = true;
  static double value(double x) { return std::log(std::expm1(x)); }
  static double derivative(double x) { return 1 / -std::expm1(-x); }
};
struct Cube {
  static constexpr const char* kName = "cube";
  static constexpr bool kFull = false;
  static double value(double x) { return x * x * x; }
  static double derivative(double x) { return 3 * x * x; }
};
struct Hyperbola {
  static constexpr const char* kName = "tail";
  static constexpr bool kFull = true;
  static double value(double x) { return 1 / (x - 1.25e-1); }
  static double derivative(double x) { return -1 / ((x - 1.25e-1) * (x - 1.25e-1)); }
};

template <class F>
Variable own(const Variable& x) {
  return apply_one<Own<F>>({}, {x});
}

}  // namespace

std::vector<Scenario> user_op_faults() {
  const std::vector<std::string> pole{"arithmetic-pole"};
  return tapped("user op", {{"angle between equal vectors",
                             [](const Variable& h, const Variable& g) {
                               const Variable power = sum(square(h), {-1}, true) + 0.1;
                               return h + own<Arccosine>(power / (power + g)) * 0.1;
                             },
                             {0},
                             {"arccosine"},
                             pole},
                            {"arccosine beyond 1",
                             [](const Variable& h, const Variable& g) { return h + own<Arccosine>(g * 0.45) * 0.1; },
                             {2.5, -4},
                             {"arccosine"},
                             pole},
                            {"x log x at 0",
                             [](const Variable& h, const Variable& g) { return h + own<XLogX>(g) * 0.1; },
                             {0},
                             {"x_log_x"},
                             pole},
                            {"inverse softplus at 0",
                             [](const Variable& h, const Variable& g) { return h + own<InverseSoftplus>(g) * 0.1; },
                             {0},
                             {"softplus_inverse"},
                             pole},
                            {"quotient with a hidden singularity",
                             [](const Variable& h, const Variable& g) { return h * own<Hyperbola>(g) * 0.2; },
                             {0.125},
                             {"tail"},
                             pole},
                            {"cube in fp16",
                             [](const Variable& h, const Variable& g) {
                               return h * (0.1 * log(1.0 + abs(own<Cube>(cast(g, h.dtype())))));
                             },
                             {60, 1000},
                             {"cube"},
                             {"activation-overflow"},
                             Proof::kOverflow,
                             {"fp16"}}});
}

}  // namespace binade::truth
