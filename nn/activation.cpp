#include "nn/activation.h"

#include "autograd/functions/elementwise.h"

namespace binade::nn {

Variable Relu::forward(const Variable& x) { return relu(x); }
Variable Gelu::forward(const Variable& x) { return options_.tanh ? gelu_tanh(x) : gelu(x); }

}  // namespace binade::nn
