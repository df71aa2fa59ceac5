#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/arguments.h"

namespace binade::fuzz {

/// Calls a public function, module or tensor method with arguments drawn by `Arguments`. Each function has one line in
/// one of the tables below; complete_test.py compares the tables with the headers.
struct Call {
  std::string name{};
  std::vector<Variable> (*call)(Arguments&);
};

const std::vector<Call>& elementwise_calls();  ///< autograd/functions/{elementwise,math,comparison}.h, the operators
const std::vector<Call>& function_calls();     ///< the other headers of autograd/functions/
const std::vector<Call>& loss_calls();         ///< autograd/functions/losses.h
const std::vector<Call>& movement_calls();     ///< functions that index, scan, sort or rearrange
const std::vector<Call>& linalg_calls();       ///< autograd/functions/linalg.h
const std::vector<Call>& name_calls();         ///< composites.h, statistics.h, differences.h, pieces.h
const std::vector<Call>& signal_calls();       ///< autograd/functions/{fft,sampling}.h, pooling with indices
const std::vector<Call>& module_calls();       ///< nn/: constructed with hostile options, then run
const std::vector<Call>& tensor_calls();       ///< methods of Tensor and Shape

}  // namespace binade::fuzz
