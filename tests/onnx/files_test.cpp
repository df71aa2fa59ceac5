#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "binade/autograd/functions.h"
#include "binade/autograd/inference_mode.h"
#include "binade/core/error.h"
#include "binade/core/make.h"
#include "binade/core/runtime.h"
#include "binade/io/onnx/import.h"
#include "binade/nn/activation.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/linear.h"
#include "binade/nn/sequential.h"
#include "tests/error_text.h"
#include "tests/onnx/models.h"

/// Files that export_model() writes are read again by import_model(). run_models.py compares them with onnxruntime.
namespace binade::onnx {
namespace {

namespace fs = std::filesystem;

class OnnxFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  Runtime runtime_{{.seed = 1, .threads = 1}};
  std::string folder_ = ::testing::TempDir() + "binade_onnx_" +
                        ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

/// The largest difference of two tensors, relative to the largest element of the second.
double difference(const Tensor& got, const Tensor& want) {
  if (got.shape() != want.shape() || got.dtype() != want.dtype()) return INFINITY;
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  double worst = 0, largest = 1e-3;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::isnan(a[i]) ? INFINITY : std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst / largest;
}

/// Sums have at most a few hundred terms in f32. The graph may add them in another order than the op.
constexpr double kTolerance = 1e-5;

std::vector<Variable> outputs_of(Sample& s, std::span<const Variable> inputs) {
  s.model->eval();
  const InferenceMode inference;
  return s.forward(inputs);
}

TEST_F(OnnxFiles, ImportedModelsGiveTheOutputsOfTheExportedOnes) {
  for (Sample& s : samples()) {
    SCOPED_TRACE(s.name);
    ASSERT_NO_THROW(export_model(path(s.name), *s.model, s.forward, s.inputs));
    Model model = import_model(path(s.name));
    EXPECT_EQ(model.opset(), kExportOpset);
    const std::vector<Variable> got = model.run(s.inputs), want = outputs_of(s, s.inputs);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LT(difference(got[i].value(), want[i].value()), kTolerance) << i;
  }
}

TEST_F(OnnxFiles, ADynamicBatchTakesAnyNumberOfSamples) {
  for (Sample& s : samples()) {
    SCOPED_TRACE(s.name);
    ASSERT_NO_THROW(export_model(path(s.name), *s.model, s.forward, s.inputs, {.dynamic_batch = true}));
    Model model = import_model(path(s.name));
    EXPECT_EQ((*model.inputs()[0].dims)[0], -1);
    std::vector<Variable> five;
    for (const Variable& x : s.inputs) five.push_back(concat({x, x, narrow(x, 0, 0, 1)}, 0));
    const std::vector<Variable> got = model.run(five), want = outputs_of(s, five);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LT(difference(got[i].value(), want[i].value()), kTolerance) << i;
  }
}

TEST_F(OnnxFiles, WeightsKeepTheirNamesAndAreTrained) {
  nn::Sequential net(nn::Linear({.in = 3, .out = 4}), nn::Relu(), nn::Linear({.in = 4, .out = 1}));
  const Variable x = randn({5, 3});
  export_model(path("net"), net, x);
  Model model = import_model(path("net"));
  std::vector<std::string> names;
  for (auto& [name, parameter] : nn::named_parameters(model)) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
  // The gradients of the imported weights are those of the exported ones.
  backward(sum(model(x)));
  backward(sum(net(x)));
  auto mine = nn::named_parameters(model), theirs = nn::named_parameters(net);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const Tensor a = mine[i].second->grad(), b = theirs[i].second->grad();
    EXPECT_LT(difference(a.reshape(b.shape()), b), kTolerance) << names[i];
  }
}

TEST_F(OnnxFiles, TheModesOfTheModelStay) {
  nn::Sequential net(nn::BatchNorm2d({.channels = 2}), nn::BatchNorm2d({.channels = 2}));
  net[1].eval();
  export_model(path("net"), net, Variable(randn({2, 4, 4, 2})));
  EXPECT_TRUE(net.training());
  EXPECT_TRUE(net[0].training());
  EXPECT_FALSE(net[1].training());
}

TEST_F(OnnxFiles, ExternalDataAreReadFromTheFolder) {
  nn::Linear layer({.in = 40, .out = 40});
  const Variable x = randn({2, 40});
  export_model(path("net"), layer, x, {.external_data = true});
  EXPECT_TRUE(fs::exists(path("net.data")));
  EXPECT_LT(difference(import_model(path("net"))(x).value(), layer(x).value()), kTolerance);
  fs::resize_file(path("net.data"), 100);
  EXPECT_NE(test::error_of<DataError>([&] { import_model(path("net")); }).find("too short"), std::string::npos);
  fs::remove(path("net.data"));
  fs::create_symlink("/etc/passwd", path("net.data"));
  EXPECT_THROW(import_model(path("net")), DataError);
}

struct Odd : nn::StatelessModule {
  std::function<Variable(const Variable&)> f{};
  Variable forward(const Variable& x) override { return f(x); }
};
struct Outer : nn::Module {
  Odd odd{};
  void visit(nn::Visitor& v) override { v("odd", odd); }
  Variable forward(const Variable& x) override { return odd(x); }
};

std::string refusal(const std::string& path, std::function<Variable(const Variable&)> f, bool batch = false) {
  Outer model;
  model.odd.f = std::move(f);
  return test::error_of<ArgumentError>([&] {
    export_model(path, model, Variable(randn({2, 3})), {.dynamic_batch = batch});
  });
}

TEST_F(OnnxFiles, InputsAndOutputsMayHaveTheNamesOfWeights) {
  Outer doubled;
  doubled.odd.f = [](const Variable& x) { return expand(sum(x, {1}, true), {x.dim(0), 3}) + x; };
  nn::Linear layer({.in = 3, .out = 3});
  const Variable x = randn({2, 3});
  const auto check_names = [&](nn::Module& net, const std::string& input, const std::string& output) {
    SCOPED_TRACE(input + " " + output);
    const Forward forward = [&](std::span<const Variable> in) { return std::vector<Variable>{net(in[0])}; };
    export_model(path("net"), net, forward, {x},
                 {.input_names = {input}, .output_names = {output}, .dynamic_batch = true});
    Model model = import_model(path("net"));
    EXPECT_EQ(model.inputs()[0].name, input);
    EXPECT_EQ(model.outputs()[0].name, output);
    EXPECT_LT(difference(model(x).value(), net(x).value()), kTolerance);
  };
  check_names(layer, "bias", "weight");
  check_names(layer, "weight_1", "weight");
  check_names(doubled, "batch_0", "batch_1");
}

TEST_F(OnnxFiles, AnOpWithoutCounterpartIsNamedWithItsModule) {
  const std::string text = refusal(path("x"), [](const Variable& x) { return lgamma(abs(x) + 1.0); });
  EXPECT_NE(text.find("lgamma [odd]"), std::string::npos) << text;
  EXPECT_FALSE(fs::exists(path("x")));
  // If no output depends on the node, there is no error.
  EXPECT_EQ(refusal(path("y"),
                    [](const Variable& x) {
                      lgamma(abs(x) + 1.0);
                      return x + 1.0;
                    }),
            "no error");
}

TEST_F(OnnxFiles, AGraphThatHoldsForTheExampleOnlyIsRefused) {
  for (const auto& f : std::vector<std::function<Variable(const Variable&)>>{
           [](const Variable& x) { return x * max(x).item(); },
           [](const Variable& x) { return x + Variable(x.value().clone()); },
           [](const Variable& x) { return take(x, reshape(nonzero(reshape(x, {6}) > 0.0), {-1})); }}) {
    const std::string text = refusal(path("x"), f);
    EXPECT_NE(text.find("differs between two runs"), std::string::npos) << text;
  }
  const std::string text = refusal(
      path("x"),
      [](const Variable& x) {
        return x + reshape(cast(arange(x.dim(0)), DType::f32), {x.dim(0), 1});
      },
      true);
  EXPECT_NE(text.find("export without dynamic_batch"), std::string::npos) << text;
}

TEST_F(OnnxFiles, DamagedFilesAreRefusedWithWords) {
  nn::Linear layer({.in = 3, .out = 2});
  export_model(path("net"), layer, Variable(randn({2, 3})));
  std::ifstream in(path("net"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto text_of = [&](const std::string& content) {
    std::ofstream(path("bad"), std::ios::binary) << content;
    return test::error_of<DataError>([&] { import_model(path("bad")); });
  };
  EXPECT_NE(text_of("").find("no complete ONNX model"), std::string::npos);
  EXPECT_NE(text_of("no model").find("bad"), std::string::npos);
  for (std::size_t size = 1; size < bytes.size(); size += 7)
    EXPECT_NE(text_of(bytes.substr(0, size)), "no error") << size;
  // With any byte changed, import_model() returns a model or throws; it must not crash.
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ 0x15);
    std::ofstream(path("bad"), std::ios::binary) << other;
    try {
      import_model(path("bad")).run(std::vector<Variable>{randn({2, 3})});
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()), "");
    }
  }
  EXPECT_THROW(import_model(path("missing")), DataError);
}

TEST_F(OnnxFiles, InputsAreCheckedAgainstTheDeclaration) {
  nn::Linear layer({.in = 3, .out = 2});
  export_model(path("net"), layer, Variable(randn({2, 3})));
  Model model = import_model(path("net"));
  EXPECT_NE(test::error_of<ShapeError>([&] {
              model(Variable(randn({2, 4})));
            }).find("wanted extents (2, 3)"),
            std::string::npos);
  EXPECT_THROW(model(Variable(randn({2, 3}, DType::f64))), DTypeError);
  EXPECT_THROW(model.run(std::vector<Variable>()), ArgumentError);
}

}  // namespace
}  // namespace binade::onnx
