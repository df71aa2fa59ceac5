#include "binade/autograd/derivatives/table.h"

#include <unordered_map>

namespace binade::derivatives {
namespace {

const Entry* find(const OpInfo& op) {
  static const std::unordered_map<const OpInfo*, Entry> table = [] {
    std::unordered_map<const OpInfo*, Entry> entries;
    for (const auto& family : {derivatives_of_unary_ops(), derivatives_of_binary_ops(), derivatives_of_rare_ops(),
                               derivatives_of_shape_ops(), derivatives_of_reductions(), derivatives_of_products(),
                               derivatives_of_convolutions(), derivatives_of_norms(), derivatives_of_image_ops(),
                               derivatives_of_losses(), derivatives_of_attention(), derivatives_of_index_ops(),
                               derivatives_of_linear_algebra(), derivatives_of_signal_ops()})
      for (const Entry& entry : family) entries.emplace(entry.op, entry);
    return entries;
  }();
  const auto found = table.find(&op);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace

Derivative derivative_of(const Node& node) {
  if (const Derivative own = node.derivative()) return own;
  const Entry* entry = find(node.info());
  if (entry == nullptr)
    RecordedCall::refuse(node,
                         "give the op a member `derivative` (autograd/derivative.h), or compute the value with "
                         "functions of variables");
  if (entry->derivative == nullptr) RecordedCall::refuse(node, entry->advice);
  return entry->derivative;
}

}  // namespace binade::derivatives
