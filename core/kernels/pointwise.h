#pragma once

namespace binade::cpu {

struct ElementwiseKernels;
struct ReductionKernels;
struct RowKernels;
struct LossKernels;

/// One level's loops over elements and rows; each family is described in the header of its name. Pointers, so that what
/// dispatches does not see every op.
struct PointwiseKernels {
  const ElementwiseKernels* elementwise;
  const ReductionKernels* reduction;
  const RowKernels* rows;
  const LossKernels* losses;
};

}  // namespace binade::cpu
