#include "binade/io/onnx/writing/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "binade/autograd/functions/shape.h"
#include "binade/autograd/observer.h"
#include "binade/core/error.h"

namespace binade::onnx {

WrittenConstant* Graph::constant(const std::string& name) {
  const auto found = std::ranges::find(constants, name, &WrittenConstant::name);
  return found == constants.end() ? nullptr : &*found;
}

Tensor permuted(const Tensor& x, const Integers& order) {
  const NoObserverScope unseen;
  const NoGradGuard no_gradients;
  return permute(x, {order.begin(), order.end()}).value().on_host();
}

void remove_unused(Graph& graph) {
  std::unordered_set<std::string> needed;
  for (const WrittenValueInfo& output : graph.outputs) needed.insert(output.name);
  std::vector<WrittenNode> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (std::ranges::none_of(node->outputs, [&](const std::string& name) { return needed.contains(name); })) continue;
    // An output that no node reads gets an empty name; at the end of the list, it is removed.
    for (std::string& name : node->outputs)
      if (!needed.contains(name)) name.clear();
    while (node->outputs.back().empty()) node->outputs.pop_back();
    needed.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  std::ranges::reverse(kept);
  graph.nodes = std::move(kept);
  std::erase_if(graph.constants, [&](const WrittenConstant& c) { return !needed.contains(c.name); });
}

void fold_transposed_weights(Graph& graph) {
  std::unordered_map<std::string, std::vector<const WrittenNode*>> readers;
  for (const WrittenNode& node : graph.nodes)
    for (const std::string& name : node.inputs) readers[name].push_back(&node);
  std::unordered_map<std::string, std::string> replaced;  // result of a folded node -> weight
  for (WrittenConstant& c : graph.constants) {
    const std::vector<const WrittenNode*>& all = readers[c.name];
    if (all.empty() || all[0]->op != "Transpose") continue;
    const auto same = [&](const WrittenNode* n) { return n->op == "Transpose" && n->attributes == all[0]->attributes; };
    if (!std::ranges::all_of(all, same)) continue;
    c.value = permuted(c.value, std::get<Integers>(all[0]->attributes.at("perm")));
    for (const WrittenNode* node : all) replaced[node->outputs[0]] = c.name;
  }
  std::erase_if(graph.nodes,
                [&](const WrittenNode& n) { return n.op == "Transpose" && replaced.contains(n.outputs[0]); });
  for (WrittenNode& node : graph.nodes)
    for (std::string& name : node.inputs)
      if (const auto found = replaced.find(name); found != replaced.end()) name = found->second;
}

void check_no_problems(const Graph& graph) {
  std::vector<std::string> problems;
  std::set<std::string> seen;
  for (const WrittenNode& node : graph.nodes) {
    if (node.problem.empty()) continue;
    const std::string line = fmt::format("{}: {}", node.origin, node.problem);
    if (seen.insert(line).second) problems.push_back(line);
  }
  check<ArgumentError>(problems.empty(), "onnx::export_model: no counterpart in ONNX, opset 17, for\n  {}",
                       fmt::join(problems, "\n  "));
}

namespace {

[[noreturn]] void depends_on_values(const std::string& origin, const std::string& what) {
  throw ArgumentError(fmt::format(
      "onnx::export_model: {}: {} differs between two runs on inputs with other values. The graph would hold "
      "only for the example: compute it with functions that record ops, or from shapes alone",
      origin, what));
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (a.defined() && a.raw() == b.raw()) return true;
  const Tensor x = a.on_host(), y = b.on_host();
  return x.bytes() == 0 || std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}

/// Replaces constants that depend on the batch size by nodes that compute them from it.
class Merge {
 public:
  Merge(Graph& graph, std::int64_t batch, std::int64_t other) : graph_(graph), batch_(batch), other_(other) {
    for (const auto* values : {&graph.inputs, &graph.outputs})
      for (const WrittenValueInfo& value : *values) taken_.insert(value.name);
    for (const WrittenConstant& c : graph.constants) taken_.insert(c.name);
  }

  /// Returns f if an extent, a in one recording and b in the other, is f times the batch size; otherwise 0.
  std::int64_t factor(std::int64_t a, std::int64_t b) const {
    return a > 0 && a % batch_ == 0 && b == a / batch_ * other_ ? a / batch_ : 0;
  }

  void constant(WrittenConstant& mine, const Tensor& theirs) {
    if (same_bytes(mine.value, theirs)) return;
    std::string origin = "a constant";
    WrittenNode* reader = nullptr;
    for (WrittenNode& node : graph_.nodes)
      if (reader == nullptr && std::ranges::find(node.inputs, mine.name) != node.inputs.end()) reader = &node;
    if (reader != nullptr) origin = reader->origin;
    if (batch_ == other_ || mine.weight || mine.value.dtype() != theirs.dtype() || mine.value.rank() != theirs.rank())
      depends_on_values(origin, "an operand");
    if (mine.value.dtype() == DType::i64 && mine.value.rank() == 1 && mine.value.numel() == theirs.numel())
      list(mine, theirs, *reader, origin);
    else
      repeated(mine, theirs, origin);
  }

  std::vector<WrittenNode> take_nodes() { return std::move(before_); }
  std::vector<WrittenConstant> take_constants() { return std::move(constants_); }

 private:
  /// For a list of extents or positions: each number that differs must be a multiple of the batch size.
  void list(WrittenConstant& mine, const Tensor& theirs, const WrittenNode& reader, const std::string& origin) {
    Integers a = mine.value.to_vector<std::int64_t>();
    const Integers b = theirs.to_vector<std::int64_t>();
    std::size_t differing = 0, last = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      check<ArgumentError>(
          factor(a[i], b[i]) > 0,
          "onnx::export_model: {}: the number {} becomes {} with {} samples instead of {}, which is no "
          "multiple of the batch size; export without dynamic_batch",
          origin, a[i], b[i], other_, batch_);
      ++differing, last = i;
    }
    const auto negative = [](std::int64_t v) { return v < 0; };
    if (reader.op == "Reshape" && differing == 1 && std::ranges::none_of(a, negative)) {
      a[last] = -1;
      mine.value = Tensor::from(a, Shape{static_cast<std::int64_t>(a.size())});
      return;
    }
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < a.size(); ++i)
      parts.push_back(a[i] != b[i] ? times_batch(factor(a[i], b[i])) : number(Integers{a[i]}));
    become(mine.name,
           {.op = "Concat", .inputs = parts, .outputs = {mine.name}, .attributes = {{"axis", std::int64_t{0}}}});
  }

  /// For a tensor that repeats along the axes whose extents differ.
  void repeated(WrittenConstant& mine, const Tensor& theirs, const std::string& origin) {
    Tensor once = mine.value.on_host(), other = theirs.on_host();
    std::vector<std::string> dims;
    for (int d = 0; d < once.rank(); ++d) {
      const std::int64_t a = mine.value.dim(d), b = theirs.dim(d);
      if (a == b) {
        dims.push_back(number(Integers{a}));
        continue;
      }
      if (factor(a, b) == 0) depends_on_values(origin, "an operand");
      dims.push_back(times_batch(factor(a, b)));
      once = first(once, d, origin);
      other = first(other, d, origin);
    }
    if (!same_bytes(once, other)) depends_on_values(origin, "an operand");
    const std::string values = name();
    constants_.push_back({values, once, false});
    const std::string shape = name();
    before_.push_back({.op = "Concat", .inputs = dims, .outputs = {shape}, .attributes = {{"axis", std::int64_t{0}}}});
    become(mine.name, {.op = "Expand", .inputs = {values, shape}, .outputs = {mine.name}});
  }

  /// Returns position 0 of an axis. Throws ArgumentError if another position has other values.
  static Tensor first(const Tensor& x, int axis, const std::string& origin) {
    const NoObserverScope unseen;
    const NoGradGuard no_gradients;
    const Tensor one = narrow(x, axis, 0, 1).value().on_host();
    for (std::int64_t i = 1; i < x.dim(axis); ++i)
      if (!same_bytes(one, narrow(x, axis, i, 1).value().on_host()))
        throw ArgumentError(
            fmt::format("onnx::export_model: {}: an operand of shape {} has other values for each sample; "
                        "export without dynamic_batch",
                        origin, x.shape()));
    return one;
  }

  std::string name() {
    std::string unique;
    do unique = fmt::format("batch_{}", count_++);
    while (taken_.contains(unique));
    return unique;
  }
  std::string number(const Integers& values) {
    constants_.push_back({name(), Tensor::from(values, Shape{static_cast<std::int64_t>(values.size())}), false});
    return constants_.back().name;
  }
  std::string times_batch(std::int64_t factor) {
    if (size_.empty()) {
      size_ = name();
      before_.push_back({.op = "Shape",
                         .inputs = {graph_.inputs[0].name},
                         .outputs = {size_},
                         .attributes = {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}}});
    }
    if (factor == 1) return size_;
    const std::string product = name();
    before_.push_back({.op = "Mul", .inputs = {size_, number({factor})}, .outputs = {product}});
    return product;
  }
  void become(const std::string& constant, WrittenNode node) {
    before_.push_back(std::move(node));
    std::erase_if(graph_.constants, [&](const WrittenConstant& c) { return c.name == constant; });
  }

  Graph& graph_;
  std::int64_t batch_, other_;
  std::vector<WrittenNode> before_;
  std::vector<WrittenConstant> constants_;
  std::string size_;
  std::unordered_set<std::string> taken_;  // names of inputs, outputs and constants
  int count_ = 0;
};

void merge_dims(std::vector<WrittenValueInfo>& mine, const std::vector<WrittenValueInfo>& theirs, const Merge& rule) {
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i].dims.size() != theirs[i].dims.size()) depends_on_values(mine[i].name, "the rank");
    for (std::size_t d = 0; d < mine[i].dims.size(); ++d) {
      if (mine[i].dims[d] == theirs[i].dims[d]) continue;
      const std::int64_t factor = rule.factor(mine[i].dims[d], theirs[i].dims[d]);
      if (factor == 0) depends_on_values(mine[i].name, "the shape");
      mine[i].dims[d] = -factor;
    }
  }
}

}  // namespace

void merge(Graph& graph, const Graph& other, std::int64_t batch, std::int64_t other_batch) {
  const std::size_t common = std::min(graph.nodes.size(), other.nodes.size());
  for (std::size_t i = 0; i < common; ++i) {
    const WrittenNode &a = graph.nodes[i], &b = other.nodes[i];
    if (a.op != b.op || a.inputs != b.inputs || a.outputs != b.outputs || a.origin != b.origin)
      depends_on_values(a.origin, "the sequence of ops");
    if (a.attributes != b.attributes) depends_on_values(a.origin, "a number of the op");
  }
  if (graph.nodes.size() != other.nodes.size() || graph.constants.size() != other.constants.size() ||
      graph.outputs.size() != other.outputs.size())
    depends_on_values("the model", "the number of ops");
  Merge rule(graph, batch, other_batch);
  merge_dims(graph.inputs, other.inputs, rule);
  merge_dims(graph.outputs, other.outputs, rule);
  for (const WrittenConstant& theirs : other.constants) {
    WrittenConstant* mine = graph.constant(theirs.name);
    if (mine == nullptr) depends_on_values("the model", "the set of constants");
    rule.constant(*mine, theirs.value);
  }
  std::vector<WrittenNode> nodes = rule.take_nodes();
  graph.nodes.insert(graph.nodes.begin(), nodes.begin(), nodes.end());
  for (WrittenConstant& c : rule.take_constants()) graph.constants.push_back(std::move(c));
}

}  // namespace binade::onnx
