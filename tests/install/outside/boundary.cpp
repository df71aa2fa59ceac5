// Tests the boundary of the shared library: exceptions and their types, and modules and ops of the program that the
// library calls. Prints each failure, and then exits with 1.
#include <binade/binade.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

using namespace binade;

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

/// An exception that Binade does not know.
struct ProgramError : std::logic_error {
  using std::logic_error::logic_error;
};

/// y = x^3, for f32 and f64.
struct Cube {
  struct Params {};
  static constexpr OpInfo info{.name = "cube", .inputs = "x", .precision = PrecisionClass::kAsIs};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    check<ArgumentError>(in[0].shape().rank() == 1, "{}: wanted one dimension, got {}", where(info.name),
                         in[0].shape());
    const Tensor x = in[0].contiguous_copy();
    Tensor y = Tensor::empty(x.shape(), ctx.store_dtype, x.device());
    dispatch_float(x.dtype(), info.name, [&]<class T>(TypeTag<T>) {
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const auto v = load(x.data<T>()[i]);
        y.mutable_data<T>()[i] = store<T>(v * v * v);
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
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const auto v = load(x.data<T>()[i]);
        to.mutable_data<T>()[i] = store<T>(3 * v * v * load(gy[0].data<T>()[i]));
      }
    });
  }
};

struct CubeLayer : nn::Module {
  nn::Linear linear{{.in = 3, .out = 1}};
  void visit(nn::Visitor& v) override { v("linear", linear); }
  std::string kind() const override { return "CubeLayer"; }
  Variable forward(const Variable& x) override { return apply_one<Cube>({}, {reshape(linear(x), {x.shape()[0]})}); }
};

void exceptions() {
  const Variable a(Tensor::zeros({2, 3})), b(Tensor::zeros({2, 3}));
  try {
    matmul(a, b);
    expect(false, "matmul of (2, 3) and (2, 3) throws");
  } catch (const Error& error) {  // thrown in the library
    expect(dynamic_cast<const ShapeError*>(&error) != nullptr, "dynamic_cast of the library's exception");
    expect(typeid(error) == typeid(ShapeError), "type of the library's exception");
    expect(error.exit_code() == 20, "exit code of the library's exception");
  }
  try {
    matmul(a, b);
  } catch (const std::runtime_error& error) {
    expect(std::string(error.what()).find("matmul") != std::string::npos, "the message names the op");
  }
  try {
    parallel_for(100, 10, [](std::int64_t begin, std::int64_t) {
      if (begin == 50) throw ProgramError("thrown in the program, through the library");
    });
    expect(false, "parallel_for rethrows");
  } catch (const ProgramError& error) {
    expect(typeid(error) == typeid(ProgramError), "type of the program's exception");
  }
}

void modules_and_ops() {
  nn::Sequential net(nn::Linear({.in = 2, .out = 3}), CubeLayer());
  expect(dynamic_cast<nn::Linear*>(&net[0]) != nullptr, "dynamic_cast of Binade's module");
  expect(dynamic_cast<CubeLayer*>(&net[1]) != nullptr, "dynamic_cast of the program's module");
  int calls = 0;
  const HookHandle handle = net[1].register_forward_hook(
      [&](nn::Module&, const Variable&, const Variable&) { ++calls; });
  const Variable y = net(Tensor::full({4, 2}, 1));
  backward(sum(y));
  expect(calls == 1, "a hook of the program is called");
  expect(y.shape() == Shape({4}) && net[0].kind() == "Linear", "the program's module runs in Binade's");

  const GradcheckResult result = gradcheck([](const std::vector<Variable>& in) { return apply_one<Cube>({}, {in[0]}); },
                                           {Tensor::from(std::vector<double>{-1, 0.5, 2}, {3})});
  expect(result.passed, "gradcheck of the program's op");
  try {
    apply_one<Cube>({}, {Variable(Tensor::full({2, 2}, 1))});
    expect(false, "the program's op throws");
  } catch (const ArgumentError& error) {
    expect(std::string(error.what()).find("cube: wanted one dimension, got (2, 2)") != std::string::npos, error.what());
  }
  expect(fmt::format("{}", Shape{2, 3}) == "(2, 3)", "fmt formats a shape");
}

}  // namespace

int main() {
  try {
    Runtime runtime({.seed = 1});
    exceptions();
    modules_and_ops();
  } catch (const std::exception& error) {
    std::printf("failed: %s: %s\n", typeid(error).name(), error.what());
    return 1;
  }
  if (failures == 0) std::printf("boundary: everything crosses\n");
  return failures == 0 ? 0 : 1;
}
