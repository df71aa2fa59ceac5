#pragma once

#include <string>

#include "core/kernels/gemm.h"
#include "cuda/api.h"

namespace binade::cuda {

/// Opens cuBLASLt and cuDNN for the open device and says in `facts` which were found.
void open_libraries(DeviceFacts& facts);

/// C (+)= A B, or A B + bias, by a library: f32 sums, rounded once, nothing observed. False, and nothing done, where
/// none computes this product so: an activation, a bias on a half result, f64, layouts that are dense in neither
/// direction.
bool library_gemm(const cpu::GemmArgs& g);

/// How libraries have chosen to compute what they were asked so far: a line that names device and version, then a line
/// for each product.
std::string library_plans();
/// Takes choices over from such a text; those of another device or version are passed by. Returns how many were taken.
int use_library_plans(const std::string& text);

}  // namespace binade::cuda
