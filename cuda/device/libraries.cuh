#pragma once

#include "cuda/api.h"

namespace binade::cuda {

/// Opens cuBLASLt and cuDNN for the open device and says in `facts` which were found.
void open_libraries(DeviceFacts& facts);

}  // namespace binade::cuda
