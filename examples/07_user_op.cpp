// 7. A custom op: one struct, which the tape records and the precision policy casts like Binade's own ops.
#include <binade.h>

#include <cmath>
#include <cstdio>

using namespace binade;

/// y = x / (1 + |x|),  dy/dx = 1 / (1 + |x|)^2. Any shape, any floating dtype; computes in float (double for f64).
struct Softsign {
  struct Params {};
  static constexpr OpInfo info{.name = "softsign", .precision = PrecisionClass::kAsIs};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    const Tensor x = in[0].contiguous_copy();
    Tensor y = Tensor::empty(x.shape(), ctx.store_dtype, x.device());
    dispatch_float(x.dtype(), info.name, [&]<class T>(TypeTag<T>) {
      const T* const from = x.data<T>();
      T* const into = y.mutable_data<T>();
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const auto v = load(from[i]);
        into[i] = store<T>(v / (1 + std::abs(v)));
      }
    });
    ctx.save(x);
    return {y};
  }

  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (!gx.needs(0)) return;
    const Tensor& x = ctx.saved(0, info.name);
    Tensor to = gx.destination(0);
    dispatch_float(x.dtype(), info.name, [&]<class T>(TypeTag<T>) {
      dispatch_float(to.dtype(), info.name, [&]<class G>(TypeTag<G>) {
        const T *const from = x.data<T>(), *const gradient = gy[0].data<T>();
        G* const into = to.mutable_data<G>();
        for (std::int64_t i = 0; i < x.numel(); ++i) {
          const auto v = 1 + std::abs(load(from[i]));
          into[i] = store<G>(static_cast<Compute<G>>(load(gradient[i]) / (v * v)));
        }
      });
    });
  }
};

Variable softsign(const Variable& x) { return apply_one<Softsign>({}, {x}); }

int main() {
  Runtime runtime({.seed = 1});
  const Tensor x = Tensor::from(std::vector<double>{-3, -0.5, 0.25, 2}, {4});
  const GradcheckResult result = gradcheck([](const std::vector<Variable>& in) { return softsign(in[0]); }, {x});
  std::printf("gradcheck %s\n", result.passed ? "passed" : result.message.c_str());

  const Variable h(Tensor::from(std::vector<float>{-3, -0.5f, 0.25f, 2}, {4}).to(DType::f16), true);
  const Variable y = softsign(h);
  backward(sum(y));
  std::printf("y  %s\ngx %s\n", y.value().to_string().c_str(), h.grad().to_string().c_str());
  return result.passed ? 0 : 1;
}
