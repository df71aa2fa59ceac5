#pragma once

#include "cuda/device/cudnn_graph.h"

namespace binade::cuda {

/// A GPU (an H100) in words, as cuDNN writes them down: engines can be chosen for it where there is none. Null where
/// this cuDNN takes no description.
const Descriptor* described_device();

}  // namespace binade::cuda
