#pragma once

#include <vector>

#include "tests/conformance/case.h"

/// Functions that return the test cases, one per family of ops. To test an op that is not elementwise, write a function
/// that returns its cases (softmax_cases is a short example), declare it here and list it in registry.cpp.
namespace binade::conformance {

std::vector<Case> unary_cases();
std::vector<Case> binary_cases();
std::vector<Case> exact_cases();
std::vector<Case> where_cases();
std::vector<Case> cast_cases();
std::vector<Case> reduce_cases();
std::vector<Case> softmax_cases();
std::vector<Case> dropout_cases();
std::vector<Case> element_loss_cases();
std::vector<Case> cross_entropy_cases();
std::vector<Case> ctc_cases();
std::vector<Case> dice_cases();
std::vector<Case> matmul_cases();
std::vector<Case> linear_cases();
std::vector<Case> projections_cases();
std::vector<Case> conv_cases();
std::vector<Case> conv_transpose_cases();
std::vector<Case> attention_cases();
std::vector<Case> row_norm_cases();
std::vector<Case> group_norm_cases();
std::vector<Case> batch_norm_cases();
std::vector<Case> pool_cases();
std::vector<Case> upsample_cases();
std::vector<Case> movement_cases();
std::vector<Case> embedding_cases();
std::vector<Case> index_cases();
std::vector<Case> scatter_cases();
std::vector<Case> rearrange_cases();
std::vector<Case> recurrent_cases();
std::vector<Case> scan_cases();
std::vector<Case> order_cases();
std::vector<Case> linalg_cases();
std::vector<Case> fft_cases();
std::vector<Case> sampling_cases();
std::vector<Case> resize_cases();

}  // namespace binade::conformance
