#include "binade/nn/summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "binade/autograd/node.h"
#include "binade/autograd/trace.h"
#include "binade/core/error.h"
#include "binade/core/ops/attention.h"
#include "binade/core/ops/conv2d.h"
#include "binade/core/ops/conv_transpose2d.h"
#include "binade/core/ops/linear.h"
#include "binade/core/ops/matmul.h"
#include "binade/core/ops/projections.h"
#include "binade/core/ops/recurrent.h"

namespace binade::nn {
namespace {

/// A recorded op with the shape of its first output.
struct Recorded {
  const Node* node = nullptr;
  Shape output;
};

/// Returns all recorded ops that `y` depends on, in order of execution. Nodes do not store output shapes, so an op's
/// output shape is taken from the op that reads the output as its input.
std::vector<Recorded> tape_of(const Variable& y) {
  std::vector<Recorded> tape;
  if (!y.requires_grad() || y.is_leaf()) return tape;
  std::unordered_map<const Node*, Shape> outputs{{y.state()->node.get(), y.shape()}};
  for (const std::shared_ptr<Node>& node :
       reachable_nodes(y.state()->node)) {  // latest first, so that readers precede producers
    for (std::size_t i = 0; i < node->edges().size(); ++i)
      if (node->edges()[i].node) outputs.emplace(node->edges()[i].node.get(), node->context().inputs[i].shape);
    tape.push_back({node.get(), outputs.at(node.get())});
  }
  std::ranges::reverse(tape);
  return tape;
}

/// Returns twice the number of multiply-adds if the op is a product, convolution or attention, otherwise 0.
std::int64_t flops_of(const Recorded& op) {
  const OpInfo* info = &op.node->info();
  const std::vector<OpContext::Input>& in = op.node->context().inputs;
  if (info == &ops::Linear::info) return 2 * in[0].shape.numel() * in[1].shape[0];
  if (info == &ops::Projections::info) return 2 * op.output.numel() * in[0].shape[-1];
  if (info == &ops::Rnn::info || info == &ops::Lstm::info || info == &ops::Gru::info)  // x (B, T, in), w_ih, w_hh
    return 2 * in[0].shape[0] * in[0].shape[1] * (in[1].shape.numel() + in[2].shape.numel());
  if (info == &ops::Matmul::info) {  // a (…, M, K) or (…, K, M), y (…, M, N)
    const std::int64_t rows = op.output[-2];
    return rows == 0 ? 0 : 2 * op.output.numel() * (in[0].shape[-1] * in[0].shape[-2] / rows);
  }
  if (info == &ops::Conv2d::info) return 2 * op.output.numel() * (in[1].shape.numel() / in[1].shape[0]);
  if (info == &ops::ConvTranspose2d::info) return 2 * in[0].shape.numel() * (in[1].shape.numel() / in[1].shape[0]);
  if (info ==
      &ops::Attention::info) {  // y (B, T, …), k (B, S, …) or inside in[0] (B, T, …); two products: q k^T and p v
    const Shape& keys = in[1].shape.rank() > 0 ? in[1].shape : in[0].shape;
    return 4 * op.output.numel() * keys[1];
  }
  return 0;
}

bool is_within(const std::string& path, const std::string& module) {
  return module.empty() || path == module || (path.starts_with(module) && path[module.size()] == '.');
}

/// Adds a word to words that are separated by spaces, unless it is among them.
void add_word_once(std::string& words, std::string_view word) {
  if (fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos) return;
  words += (words.empty() ? "" : " ") + std::string(word);
}

/// Returns the number of bytes of tensors that `node` saved, without those in `seen`: parameters, and tensors
/// that earlier nodes saved. Adds the tensors to `seen`.
std::int64_t fresh_bytes(const Node& node, std::set<const void*>& seen) {
  std::int64_t bytes = 0;
  std::size_t left = node.context().saved_bytes();
  for (int i = 0; left > 0; ++i) {
    const Tensor& kept = node.context().saved(i, node.info().name);
    if (!kept.defined() || kept.numel() == 0) continue;
    left -= kept.bytes();
    if (seen.insert(kept.raw()).second) bytes += static_cast<std::int64_t>(kept.bytes());
  }
  return bytes;
}

std::string scaled_text(std::int64_t n, double unit, const char* const (&names)[4]) {
  auto value = static_cast<double>(n);
  int step = 0;
  while (value >= unit && step < 3) {
    value /= unit;
    ++step;
  }
  return step == 0 ? std::to_string(n) : fmt::format("{:.2f} {}", value, names[step]);
}
std::string count_text(std::int64_t n) { return scaled_text(n, 1000, {"", "K", "M", "G"}); }
std::string byte_text(std::int64_t n) { return scaled_text(n, 1024, {"", "KiB", "MiB", "GiB"}); }

}  // namespace

Summary summary(Module& root, const std::function<Variable()>& forward) {
  assign_paths(root);
  const Shadows shadows;  // receive the statistics, and are dropped at the end
  const TransactionScope transaction(shadows);
  const Variable y = forward();
  const std::vector<Recorded> tape = tape_of(y);

  Summary result;
  std::map<std::string, std::size_t> row_of;
  const auto add_row = [&](const std::string& path, const std::string& kind) {
    if (row_of.emplace(path, result.rows.size()).second) result.rows.push_back({path, kind, "", 0, 0, 0, ""});
  };
  add_row("", root.kind());
  for (const auto& [path, module] : named_modules(root)) add_row(path, module->kind());
  for (const Recorded& op : tape) add_row(op.node->module_path(), "-");

  for (const auto& [name, parameter] : named_parameters(root)) {
    const std::size_t dot = name.rfind('.');
    result.rows[row_of.at(dot == std::string::npos ? "" : name.substr(0, dot))].parameters +=
        parameter->value().numel();
  }
  std::set<const void*> seen;
  for (const auto& [name, parameter] : named_parameters(root)) {
    seen.insert(parameter->value().raw());
    if (parameter->state()->low.defined()) seen.insert(parameter->state()->low.raw());
  }
  for (const Recorded& op : tape) {
    SummaryRow& own = result.rows[row_of.at(op.node->module_path())];
    own.flops += flops_of(op);
    own.activation_bytes += fresh_bytes(*op.node, seen);
    add_word_once(own.precision, name_of(op.node->context().inputs[0].dtype));
    for (SummaryRow& row : result.rows)
      if (is_within(op.node->module_path(), row.path)) row.output_shape = op.output.to_string();
  }
  for (const SummaryRow& row : result.rows) {
    result.parameters += row.parameters;
    result.flops += row.flops;
    result.activation_bytes += row.activation_bytes;
  }
  return result;
}

Summary summary(Module& root, const Variable& x) {
  return summary(root, [&] { return root(x); });
}

std::string Summary::to_string() const {
  std::vector<std::vector<std::string>> cells{
      {"path", "kind", "output", "parameters", "FLOPs", "activations", "precision"}};
  for (const SummaryRow& row : rows)
    cells.push_back({row.path.empty() ? "(model)" : row.path, row.kind, row.output_shape, count_text(row.parameters),
                     count_text(row.flops), byte_text(row.activation_bytes), row.precision});
  cells.push_back({"total", "", "", count_text(parameters), count_text(flops), byte_text(activation_bytes), ""});
  std::vector<std::size_t> width(cells.front().size(), 0);
  for (const auto& line : cells)
    for (std::size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  std::string text;
  for (const auto& line : cells) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i)
      row += i < 3 || i == 6 ? fmt::format("{:<{}}  ", line[i], width[i]) : fmt::format("{:>{}}  ", line[i], width[i]);
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace binade::nn
