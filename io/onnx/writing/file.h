#pragma once

#include <string>

#include "binade/io/onnx/writing/graph.h"

namespace binade::onnx {

/// Writes a graph as an ONNX file, with the weights in a second file PATH.data if `external` or if they have more than
/// 1.5 GiB, because a protobuf message has at most 2 GiB. Throws StorageError.
void write_graph(const std::string& path, const Graph& graph, bool external);

}  // namespace binade::onnx
