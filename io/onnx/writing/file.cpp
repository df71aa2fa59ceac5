#include "binade/io/onnx/writing/file.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <bit>
#include <span>

#include "binade/core/error.h"
#include "binade/core/version.h"
#include "binade/io/files/file_ops.h"
#include "binade/io/files/output_file.h"
#include "binade/io/onnx/export.h"
#include "binade/io/onnx/writing/recorder.h"

namespace binade::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data of ONNX is little-endian");

constexpr std::size_t kMostInside = std::size_t{3} << 29;
constexpr std::size_t kAlignment = 4096;  // of external data, so that they can be memory-mapped

void fill(::onnx::TensorProto& to, const std::string& name, const Tensor& value) {
  to.set_name(name);
  to.set_data_type(static_cast<int>(data_type_of(value.dtype())));
  for (const std::int64_t d : value.shape().dims()) to.add_dims(d);
}
std::string_view bytes_of(const Tensor& host) { return {static_cast<const char*>(host.raw()), host.bytes()}; }

void fill(::onnx::AttributeProto& to, const WrittenAttribute& value) {
  using ::onnx::AttributeProto;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    to.set_type(AttributeProto::INT);
    to.set_i(*whole);
  } else if (const auto* number = std::get_if<double>(&value)) {
    to.set_type(AttributeProto::FLOAT);
    to.set_f(static_cast<float>(*number));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    to.set_type(AttributeProto::STRING);
    to.set_s(*text);
  } else if (const auto* list = std::get_if<Integers>(&value)) {
    to.set_type(AttributeProto::INTS);
    for (const std::int64_t v : *list) to.add_ints(v);
  } else {
    to.set_type(AttributeProto::STRINGS);
    for (const std::string& v : std::get<std::vector<std::string>>(value)) to.add_strings(v);
  }
}

void fill(::onnx::ValueInfoProto& to, const WrittenValueInfo& value) {
  to.set_name(value.name);
  auto* type = to.mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<int>(data_type_of(value.dtype)));
  type->mutable_shape();
  for (const std::int64_t d : value.dims) {
    auto* dim = type->mutable_shape()->add_dim();
    if (d == -1)
      dim->set_dim_param("batch");
    else if (d < 0)
      dim->set_dim_param(fmt::format("{} batch", -d));
    else
      dim->set_dim_value(d);
  }
}

/// Appends a weight to the external data.
void outside(::onnx::TensorProto& to, std::string& data, const std::string& location, const Tensor& host) {
  data.resize((data.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
  const auto entry = [&](const char* key, const std::string& value) {
    auto* pair = to.add_external_data();
    pair->set_key(key);
    pair->set_value(value);
  };
  entry("location", location);
  entry("offset", std::to_string(data.size()));
  entry("length", std::to_string(host.bytes()));
  to.set_data_location(::onnx::TensorProto::EXTERNAL);
  data += bytes_of(host);
}

}  // namespace

void write_graph(const std::string& path, const Graph& graph, bool external) {
  ::onnx::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name("Binade");
  model.set_producer_version(std::string(version()));
  auto* opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(kExportOpset);
  ::onnx::GraphProto& to = *model.mutable_graph();
  to.set_name("model");
  for (const WrittenValueInfo& v : graph.inputs) fill(*to.add_input(), v);
  for (const WrittenValueInfo& v : graph.outputs) fill(*to.add_output(), v);

  std::size_t bytes = 0;
  for (const WrittenConstant& c : graph.constants) bytes += c.value.bytes();
  external = external || bytes > kMostInside;
  std::string data;
  const std::string location = io::split_path(path).second + ".data";
  for (const WrittenConstant& c : graph.constants) {
    const Tensor host = c.value.on_host();
    if (!c.weight && !(external && host.bytes() > kAlignment)) {
      ::onnx::NodeProto& node = *to.add_node();
      node.set_op_type("Constant");
      node.set_name(c.name);
      node.add_output(c.name);
      ::onnx::AttributeProto& value = *node.add_attribute();
      value.set_name("value");
      value.set_type(::onnx::AttributeProto::TENSOR);
      fill(*value.mutable_t(), c.name, host);
      value.mutable_t()->set_raw_data(std::string(bytes_of(host)));
      continue;
    }
    ::onnx::TensorProto& tensor = *to.add_initializer();
    fill(tensor, c.name, host);
    if (external && host.bytes() > 0)
      outside(tensor, data, location, host);
    else
      tensor.set_raw_data(std::string(bytes_of(host)));
  }
  for (const WrittenNode& n : graph.nodes) {
    ::onnx::NodeProto& node = *to.add_node();
    node.set_op_type(n.op);
    for (const std::string& name : n.outputs)
      if (node.name().empty()) node.set_name(name);
    node.set_doc_string(n.origin);
    for (const std::string& name : n.inputs) node.add_input(name);
    for (const std::string& name : n.outputs) node.add_output(name);
    for (const auto& [key, value] : n.attributes) {
      ::onnx::AttributeProto& attribute = *node.add_attribute();
      attribute.set_name(key);
      fill(attribute, value);
    }
  }
  std::string message;
  check<StorageError>(model.SerializeToString(&message), "{}: the model has more than 2 GiB without its weights", path);
  if (external) io::write_output_file(path + ".data", io::bytes_of(data));
  io::write_output_file(path, io::bytes_of(message));
}

}  // namespace binade::onnx
