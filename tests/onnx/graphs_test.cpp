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

/// Graphs as other programs write them, and hostile graphs: import_model() reads them or reports the problem.
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
  static void number(NodeProto& n, const std::string& key, float value) {
    AttributeProto& a = *n.add_attribute();
    a.set_name(key);
    a.set_type(AttributeProto::FLOAT);
    a.set_f(value);
  }
  static void text(NodeProto& n, const std::string& key, const std::string& value) {
    AttributeProto& a = *n.add_attribute();
    a.set_name(key);
    a.set_type(AttributeProto::STRING);
    a.set_s(value);
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
  /// y of the graph for x = 0, 1, …, 5 of shape (2, 3).
  Tensor result() const { return imported()(Variable(arange(6.f).reshape({2, 3}))).value(); }
  /// The text of the error of importing the graph, or of running it on x.
  std::string refusal() const {
    return test::error_of<Error>([&] { result(); });
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

/// Before opset 13, Softmax normalizes over all axes from `axis` on together.
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

/// A sequence is one value with several tensors; a Variable could only hold one of them.
TEST_F(OnnxGraphs, SequencesAreRefused) {
  integer(node("SplitToSequence", {"x"}, {"parts"}), "axis", 1);
  integer(node("ConcatFromSequence", {"parts"}, {"y"}), "axis", 1);
  expect_refusal("SplitToSequence (node \"the_SplitToSequence\"), ConcatFromSequence");
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

/// 100 tensors of 1 MiB in a file of 1 MiB.
TEST_F(OnnxGraphs, ExternalDataThatManyTensorsShareAreRefused) {
  std::ofstream(folder_ + "/inside/data.bin") << std::string(1 << 20, '\0');
  for (int i = 0; i < 100; ++i) {
    TensorProto& w = weight("w" + std::to_string(i), {1 << 18}, 0);
    w.set_data_location(TensorProto::EXTERNAL);
    auto& entry = *w.add_external_data();
    entry.set_key("location");
    entry.set_value(i % 2 == 0 ? "data.bin" : "./data.bin");
  }
  node("Relu", {"x"}, {"y"});
  expect_refusal("too short for all tensors that share it");
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

/// The extents of these inputs would lead to reads beyond the end of a list.
TEST_F(OnnxGraphs, OperandsOfImpossibleExtentsAreWords) {
  weight("w", {1, 2, 3}, 6);
  weight("r", {1, 2, 2}, 4);
  weight("bias", {1, 1}, 1);
  node("MaxPool", {"x"}, {"y", "positions"});
  expect_refusal("kernel_shape is missing");

  model_.mutable_graph()->clear_node();
  whole("sequence", {2, 1, 3});
  node("Reshape", {"x", "sequence"}, {"s"});
  node("RNN", {"s", "w", "r", "bias"}, {"y"});
  expect_refusal("a bias of fewer than two numbers");

  model_.mutable_graph()->clear_node();
  whole("indices", {0, 0, 0, 0, 0});
  weight("update", {}, 1);
  text(node("ScatterND", {"x", "indices", "update"}, {"y"}), "reduction", "max");
  expect_refusal("an index of more axes than there are");

  model_.mutable_graph()->clear_node();
  whole("size", {1, 1});
  node("AffineGrid", {"x", "size"}, {"y"});
  expect_refusal("neither (N, C, H, W) nor (N, C, D, H, W)");

  model_.mutable_graph()->clear_node();
  whole("heads", {1, 6, 1, 1});
  weight("keys", {1, 0, 1, 1}, 0);
  node("Reshape", {"x", "heads"}, {"q"});
  number(node("Attention", {"q", "keys", "keys"}, {"y"}), "softcap", 1);
  expect_refusal("no multiple of that of key heads");
}

TEST_F(OnnxGraphs, AnIndexOutsideOfTheAxisIsRefused) {
  whole("index", {-1});
  node("Gather", {"x", "index"}, {"y"});
  EXPECT_EQ(result().to_vector<float>(), (std::vector<float>{3, 4, 5}));
  for (const std::int64_t outside : {7, -7}) {
    model_.mutable_graph()->mutable_initializer(0)->set_int64_data(0, outside);
    EXPECT_NE(refusal(), "no error") << outside;
  }
}

/// ONNX's defaults are 1.6733 and 1.0507, also if only one of the two is given.
TEST_F(OnnxGraphs, SeluHasADefaultForEachNumber) {
  number(node("Selu", {"x"}, {"y"}), "alpha", 2);
  EXPECT_NEAR(result().at(1), 1.0507009873554805, 1e-6);
  model_.mutable_graph()->clear_node();
  number(node("Selu", {"x"}, {"y"}), "gamma", 3);
  EXPECT_NEAR(result().at(1), 3, 1e-6);
}

TEST_F(OnnxGraphs, AttributesThatChangeAFormulaAreRead) {
  integer(node("LSTM", {"x", "x", "x"}, {"y"}), "input_forget", 1);
  expect_refusal("couple the gates");

  model_.mutable_graph()->clear_node();
  weight("scale", {}, 1);
  integer(node("QuantizeLinear", {"x", "scale"}, {"y"}), "output_dtype", TensorProto::INT8);
  expect_refusal("no dtype int8");
  model_.mutable_graph()->clear_node();
  integer(node("Cast", {"x"}, {"u"}), "to", TensorProto::UINT8);
  integer(node("DequantizeLinear", {"u", "scale"}, {"y"}), "output_dtype", TensorProto::FLOAT16);
  EXPECT_EQ(result().dtype(), DType::f16);

  model_.mutable_graph()->clear_node();
  whole("pads", {1, 1, 1, 1});
  text(node("Pad", {"x", "pads"}, {"y"}), "mode", "mirror");
  expect_refusal("mode mirror");

  model_.mutable_graph()->clear_node();
  whole("wide", {2, 6});
  NodeProto& resize = node("Resize", {"x", "", "", "wide"}, {"y"});
  text(resize, "nearest_mode", "floor");
  text(resize, "coordinate_transformation_mode", "tf_half_pixel_for_nn");  // floor((i + 0.5) / 2)
  EXPECT_EQ(result().to_vector<float>(), (std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  resize.mutable_attribute(1)->set_s("unheard_of");
  expect_refusal("unheard_of");
}

/// A window of 2 channels contains a channel and the next one. Here alpha is 2, bias 1 and beta 1.
TEST_F(OnnxGraphs, AnEvenLrnReachesTheNextChannel) {
  NodeProto& lrn = node("LRN", {"x"}, {"y"});
  integer(lrn, "size", 2);
  number(lrn, "alpha", 2);
  number(lrn, "beta", 1);
  const std::vector<double> want{0, 1.0 / 6, 2.0 / 5, 3.0 / 26, 4.0 / 42, 5.0 / 26};
  const Tensor y = result();
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(y.at(static_cast<std::int64_t>(i)), want[i], 1e-6) << i;
}

/// If the number of windows is rounded up, an input that is smaller than the window has one window.
TEST_F(OnnxGraphs, CeilModeOfASmallInputGivesOneWindow) {
  whole("line", {1, 1, 6});
  node("Reshape", {"x", "line"}, {"r"});
  NodeProto& pool = node("MaxPool", {"r"}, {"y"});
  integers(pool, "kernel_shape", {7});
  integers(pool, "strides", {2});
  integer(pool, "ceil_mode", 1);
  EXPECT_EQ(result().shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(result().at(0), 5);
}

/// Numbers that f64 cannot hold.
TEST_F(OnnxGraphs, WholeConstantsAreExact) {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  integer(node("Constant", {}, {"y"}), "value_int", large);
  EXPECT_EQ(result().to_vector<std::int64_t>(), (std::vector<std::int64_t>{large}));
  model_.mutable_graph()->clear_node();
  whole("extents", {2});
  AttributeProto& attribute = *node("ConstantOfShape", {"extents"}, {"y"}).add_attribute();
  attribute.set_name("value");
  attribute.set_type(AttributeProto::TENSOR);
  TensorProto& value = *attribute.mutable_t();
  value.set_data_type(TensorProto::INT64);
  value.add_dims(1);
  value.add_int64_data(large);
  EXPECT_EQ(result().to_vector<std::int64_t>(), (std::vector<std::int64_t>{large, large}));
}

TEST_F(OnnxGraphs, NoAxesToInsertLeaveATensorAsItIs) {
  whole("line", {1, 6});
  node("Reshape", {"x", "line"}, {"r"});
  whole("axes", {});
  node("Unsqueeze", {"r", "axes"}, {"y"});
  EXPECT_EQ(result().shape(), (Shape{1, 6}));
}

TEST_F(OnnxGraphs, TwoInputsOfOneNameAreRefused) {
  info(*model_.mutable_graph()->add_input(), "x", {2, 3});
  node("Relu", {"x"}, {"y"});
  expect_refusal("the name \"x\" is given to two values");
}

/// Checkpoints allow fewer characters in names, so different names may become equal. Many such names must not make
/// reading slow.
TEST_F(OnnxGraphs, ManyNamesThatBecomeEqualAreToldApart) {
  constexpr int kCount = 30000;
  for (int i = 0; i < kCount; ++i) {
    std::string name;
    for (int bit = 0; bit < 15; ++bit) name += (i >> bit & 1) != 0 ? '/' : ':';
    weight(name, {1}, 1);
  }
  node("Relu", {"x"}, {"y"});
  Model model = imported();
  EXPECT_EQ(nn::named_parameters(model).size(), static_cast<std::size_t>(kCount));
}

TEST_F(OnnxGraphs, HugeResultsAreRefused) {
  whole("huge", {std::int64_t{1} << 40, std::int64_t{1} << 20});
  node("ConstantOfShape", {"huge"}, {"y"});
  EXPECT_NE(refusal(), "no error");
}

}  // namespace
}  // namespace binade::onnx
