#pragma once

#include <memory>
#include <vector>

#include "binade/autograd/node.h"

namespace binade {

/// Every node that `root` depends on, itself included, latest first: the tape, walked in reverse. A loop: chains may be
/// of any length.
std::vector<std::shared_ptr<Node>> reachable_nodes(const std::shared_ptr<Node>& root);

}  // namespace binade
