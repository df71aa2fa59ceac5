#pragma once

#include "binade/io/onnx/nodes/node.h"
#include "tests/golden/golden_file.h"

namespace binade::onnx {

/// Returns the node of a golden case, which run_nodes.py writes as follows: inputs in.0, in.1, …; attributes as params;
/// attributes that are tensors as attr.NAME; the number of outputs as the param `outputs`.
Node node_of(const golden::Case& source);

}  // namespace binade::onnx
