#include "tests/conformance/registry.h"

namespace binade::conformance {

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    for (const auto family : {
             unary_cases,     binary_cases,    where_cases,        cast_cases,          reduce_cases,
             softmax_cases,   dropout_cases,   element_loss_cases, cross_entropy_cases, ctc_cases,
             dice_cases,      matmul_cases,    linear_cases,       conv_cases,          conv_transpose_cases,
             attention_cases, row_norm_cases,  group_norm_cases,   batch_norm_cases,    pool_cases,
             upsample_cases,  movement_cases,  embedding_cases,    projections_cases,   index_cases,
             scatter_cases,   rearrange_cases, scan_cases,         order_cases,         exact_cases,
             recurrent_cases, linalg_cases,    fft_cases,          sampling_cases,      resize_cases,
         })
      for (Case& c : family()) all.push_back(std::move(c));
    return all;
  }();
  return cases;
}

}  // namespace binade::conformance
