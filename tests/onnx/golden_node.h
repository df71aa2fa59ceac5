#pragma once

#include "binade/io/onnx/nodes/node.h"
#include "tests/golden/golden_file.h"

namespace binade::onnx {

/// The node of a golden case, as run_nodes.py writes it: inputs in.0, in.1, …, attributes as params, tensors among the
/// attributes as attr.NAME, and the number of outputs as the param `outputs`.
Node node_of(const golden::Case& source);

}  // namespace binade::onnx
