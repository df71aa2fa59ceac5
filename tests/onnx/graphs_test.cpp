#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "binade/autograd/functions.h"
#include "binade/core/make.h"
#include "binade/core/runtime.h"
#include "binade/io/onnx/import.h"
#include "tests/error_text.h"

/// Graphs that other programs write, and hostile ones: import_model() reads them or says what is wrong.
namespace binade::onnx {
namespace {

namespace fs = std::filesystem;
using ::onnx::AttributeProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

class OnnxGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ + "/inside");
    model_.set_ir_version(7);
    opset(13);
    info(*model_.mutable_graph()->add_input(), "x", {2, 3});
    info(*model_.mutable_graph()->add_output(), "y", {});
  }
  void TearDown() override { fs::remove_all(folder_); }

  void opset(std::int64_t version) {
    model_.clear_opset_import();
    model_.add_opset_import()->set_version(version);
  }
  static void info(::onnx::ValueInfoProto& to, const std::string& name, const std::vector<std::int64_t>& dims) {
    to.set_name(name);
    to.mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
    for (const std::int64_t d : dims)
      to.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(d);
  }
  NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs) {
    NodeProto& n = *model_.mutable_graph()->add_node();
    n.set_op_type(op);
    n.set_name("the_" + op);
    for (const std::string& name : inputs) n.add_input(name);
    for (const std::string& name : outputs) n.add_output(name);
    return n;
  }
  static void integers(NodeProto& n, const std::string& key, const std::vector<std::int64_t>& values) {
    AttributeProto& a = *n.add_attribute();
    a.set_name(key);
    a.set_type(AttributeProto::INTS);
    for (const std::int64_t v : values) a.add_ints(v);
  }
  static void integer(NodeProto& n, const std::string& key, std::int64_t value) {
    AttributeProto& a = *n.add_attribute();
    a.set_name(key);
    a.set_type(AttributeProto::INT);
    a.set_i(value);
  }
  TensorProto& weight(const std::string& name, const std::vector<std::int64_t>& dims, std::size_t count) {
    TensorProto& t = *model_.mutable_graph()->add_initializer();
    t.set_name(name);
    t.set_data_type(TensorProto::FLOAT);
    for (const std::int64_t d : dims) t.add_dims(d);
    for (std::size_t i = 0; i < count; ++i) t.add_float_data(static_cast<float>(i));
    return t;
  }
  TensorProto& whole(const std::string& name, const std::vector<std::int64_t>& values) {
    TensorProto& t = *model_.mutable_graph()->add_initializer();
    t.set_name(name);
    t.set_data_type(TensorProto::INT64);
    t.add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t v : values) t.add_int64_data(v);
    return t;
  }
  std::string written() const {
    std::ofstream file(folder_ + "/inside/model.onnx", std::ios::binary);
    model_.SerializeToOstream(&file);
    return folder_ + "/inside/model.onnx";
  }
  Model imported() const { return import_model(written()); }
  /// The text of the error of importing the graph, or of running it on x.
  std::string refusal() const {
    return test::error_of<Error>([&] { imported()(Variable(arange(6.f).reshape({2, 3}))); });
  }
  void expect_refusal(const std::string& part) const {
    const std::string text = refusal();
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  Runtime runtime_{{.seed = 1, .threads = 1}};
  ::onnx::ModelProto model_;
  std::string folder_ = ::testing::TempDir() + "binade_graphs_" +
                        ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(OnnxGraphs, AGraphIsComputedAndItsWeightsAreTrained) {
  weight("fc/weight:0", {3, 2}, 6);
  node("MatMul", {"x", "fc/weight:0"}, {"a"});
  node("Relu", {"a"}, {"y"});
  Model model = imported();
  const Variable y = model(Variable(Tensor::from({1.f, 0.f, 0.f, 0.f, 1.f, 1.f}, {2, 3})));
  EXPECT_EQ(y.value().to_vector<float>(), (std::vector<float>{0, 1, 6, 8}));
  backward(sum(y));
  const auto parameters = nn::named_parameters(model);
  ASSERT_EQ(parameters.size(), 1U);
  EXPECT_EQ(parameters[0].first, "fc_weight_0");
  EXPECT_EQ(parameters[0].second->grad().to_vector<float>(), (std::vector<float>{0, 1, 1, 1, 1, 1}));
}

TEST_F(OnnxGraphs, NodesOfConstantsAreFolded) {
  whole("a", {3});
  whole("b", {2});
  node("Concat", {"b", "a"}, {"c"});
  model_.mutable_graph()->mutable_node(0)->clear_attribute();
  integer(*model_.mutable_graph()->mutable_node(0), "axis", 0);
  node("Reshape", {"x", "c"}, {"y"});
  EXPECT_EQ(imported().nodes(), 1U);
}

/// Softmax before opset 13 is over all axes from `axis` on.
TEST_F(OnnxGraphs, OlderVersionsOfOperatorsAreKnown) {
  opset(9);
  integer(node("Softmax", {"x"}, {"y"}), "axis", 0);
  const Variable y = imported()(Variable(Tensor::zeros({2, 3})));
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_NEAR(y.value().at(i), 1.0 / 6, 1e-7);
  opset(6);
  expect_refusal("opset 7 or later, got opset 6");
}

TEST_F(OnnxGraphs, AllUnknownOperatorsAreListed) {
  node("Loop", {"x"}, {"a"});
  node("Fancy", {"a"}, {"y"});
  model_.mutable_graph()->mutable_node(1)->set_domain("com.example");
  expect_refusal("Loop (node \"the_Loop\"), com.example.Fancy (node \"the_Fancy\")");
  expect_refusal("opset 13");
}

TEST_F(OnnxGraphs, ACycleAndAMissingValueAreNamed) {
  node("Add", {"x", "b"}, {"a"});
  node("Relu", {"a"}, {"b"});
  node("Relu", {"b"}, {"y"});
  expect_refusal("node \"the_Add\" (Add, opset 13) reads \"b\"");
  model_.mutable_graph()->clear_node();
  node("MatMul", {"x", "weight"}, {"y"});
  expect_refusal("reads \"weight\", which is no input or initializer");
  model_.mutable_graph()->clear_node();
  expect_refusal("the output \"y\" is computed by no node");
}

TEST_F(OnnxGraphs, ANameIsGivenOnce) {
  weight("w", {1}, 1);
  node("Relu", {"x"}, {"w"});
  expect_refusal("the name \"w\" is given to two values");
}

TEST_F(OnnxGraphs, WeightsThatDoNotFitTheirShapeAreRefused) {
  node("Add", {"x", "w"}, {"y"});
  TensorProto& w = weight("w", {2, 3}, 5);
  expect_refusal("initializer \"w\" of shape (2, 3) and dtype f32 has 5 elements instead of 6");
  w.clear_float_data();
  w.set_raw_data("abc");
  expect_refusal("has 3 bytes instead of 24");
  w.set_dims(0, -1);
  expect_refusal("has the extent -1");
  w.set_dims(0, std::int64_t{1} << 40);
  w.set_dims(1, std::int64_t{1} << 40);
  expect_refusal("more than 2^48 elements");
  w.set_data_type(TensorProto::INT8);
  expect_refusal("has the dtype int8");
}

TEST_F(OnnxGraphs, ExternalDataStayInTheFolder) {
  std::ofstream(folder_ + "/outside.bin") << std::string(24, '\0');
  std::ofstream(folder_ + "/inside/data.bin") << std::string(24, '\0');
  node("Add", {"x", "w"}, {"y"});
  TensorProto& w = weight("w", {2, 3}, 0);
  w.set_data_location(TensorProto::EXTERNAL);
  auto& entry = *w.add_external_data();
  entry.set_key("location");
  entry.set_value("data.bin");
  EXPECT_EQ(refusal(), "no error");
  for (const char* outside : {"../outside.bin", "/etc/passwd", "", "a/../../outside.bin"}) {
    entry.set_value(outside);
    EXPECT_NE(refusal().find("external data"), std::string::npos) << outside;
  }
  fs::create_symlink(folder_ + "/outside.bin", folder_ + "/inside/link.bin");
  entry.set_value("link.bin");
  EXPECT_NE(refusal(), "no error");
}

TEST_F(OnnxGraphs, AttributesThatDoNotFitAreWords) {
  weight("w", {1, 1, 1, 1}, 1);
  whole("shape", {1, 1, 2, 3});
  const std::vector<std::function<void()>> nodes{
      [&] {
        integers(node("MaxPool", {"r"}, {"y"}), "kernel_shape", {0, 0});
      },
      [&] { integers(node("MaxPool", {"r"}, {"y"}), "kernel_shape", {1}); },
      [&] { node("MaxPool", {"r"}, {"y"}); },
      [&] {
        integers(node("Conv", {"r", "w"}, {"y"}), "strides", {0, 0});
      },
      [&] {
        integers(node("Conv", {"r", "w"}, {"y"}), "strides", {1});
      },
      [&] {
        integers(node("Conv", {"r", "w"}, {"y"}), "pads", {1, 1});
      },
      [&] { integer(node("DepthToSpace", {"r"}, {"y"}), "blocksize", 0); },
      [&] {
        integer(node("Gather", {"r", "shape"}, {"y"}), "axis", 9);
      },
      [&] {
        integers(node("Transpose", {"r"}, {"y"}), "perm", {0, 0, 1, 7});
      },
      [&] {
        integers(node("Concat", {"r", "r"}, {"y"}), "axis", {1});
      },
      [&] { node("Conv", {"r"}, {"y"}); },
      [&] {
        node("TopK", {"r", "shape"}, {"y"});
      },
      [&] { node("Resize", {"r"}, {"y"}); },
      [&] {
        node("Pad", {"r", "shape"}, {"y"});
      },
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    model_.mutable_graph()->clear_node();
    node("Reshape", {"x", "shape"}, {"r"});
    nodes[i]();
    EXPECT_NE(refusal(), "no error") << i;
  }
}

TEST_F(OnnxGraphs, HugeResultsAreRefused) {
  whole("huge", {std::int64_t{1} << 40, std::int64_t{1} << 20});
  node("ConstantOfShape", {"huge"}, {"y"});
  EXPECT_NE(refusal(), "no error");
}

}  // namespace
}  // namespace binade::onnx
