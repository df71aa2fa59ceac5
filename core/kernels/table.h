#pragma once

#include "binade/core/device.h"
#include "binade/core/kernels/attention.h"
#include "binade/core/kernels/channel_norm.h"
#include "binade/core/kernels/checksum.h"
#include "binade/core/kernels/conv.h"
#include "binade/core/kernels/ctc.h"
#include "binade/core/kernels/cumulate.h"
#include "binade/core/kernels/elementwise.h"
#include "binade/core/kernels/embedding.h"
#include "binade/core/kernels/fft.h"
#include "binade/core/kernels/fp8.h"
#include "binade/core/kernels/gemm.h"
#include "binade/core/kernels/index.h"
#include "binade/core/kernels/linalg.h"
#include "binade/core/kernels/losses.h"
#include "binade/core/kernels/move.h"
#include "binade/core/kernels/norm.h"
#include "binade/core/kernels/optimizer.h"
#include "binade/core/kernels/order.h"
#include "binade/core/kernels/pool.h"
#include "binade/core/kernels/probe.h"
#include "binade/core/kernels/random.h"
#include "binade/core/kernels/rearrange.h"
#include "binade/core/kernels/recurrent.h"
#include "binade/core/kernels/reduce.h"
#include "binade/core/kernels/sampling.h"
#include "binade/core/kernels/softmax.h"
#include "binade/core/kernels/step.h"
#include "binade/core/kernels/tensor.h"

/// All kernels: name and argument struct. A device consists of a KernelTable and a Backend (core/backend.h): ops fill
/// the struct and call the table of their tensors' device. `X(NAME, STRUCT)` declares KernelTable::NAME here,
/// `cpu::run_NAME` (core/kernels/cpu/) and `cuda::run_NAME` (cuda/device/).
///
/// To add a kernel: add its line here, its struct in the header of its family, and its `run_NAME` on the CPU. If a
/// GPU's module does not define `run_NAME`, calling the kernel throws.
#define BINADE_KERNELS(X)                        \
  X(convert, ConvertArgs)                        \
  X(fill, FillArgs)                              \
  X(accumulate, AccumulateArgs)                  \
  X(observe, ObserveArgs)                        \
  X(checksum, ChecksumArgs)                      \
  X(copy_all, CopyAllArgs)                       \
  X(box, BoxCopy)                                \
  X(permute, PermuteCopy)                        \
  X(rearrange, RearrangeArgs)                    \
  X(rearrange_sum, RearrangeSumArgs)             \
  X(gather, GatherArgs)                          \
  X(scatter, ScatterArgs)                        \
  X(scatter_gradient, ScatterGradientArgs)       \
  X(linear_index, LinearIndexArgs)               \
  X(coordinates, CoordinatesArgs)                \
  X(cumulate, CumulateArgs)                      \
  X(cumulate_gradient, CumulateGradientArgs)     \
  X(cumulative_extreme, CumulativeExtremeArgs)   \
  X(sort, SortArgs)                              \
  X(search, SearchArgs)                          \
  X(flag, FlagArgs)                              \
  X(compact, CompactArgs)                        \
  X(bin, BinArgs)                                \
  X(unary, UnaryArgs)                            \
  X(binary, BinaryArgs)                          \
  X(rare_unary, UnaryArgs)                       \
  X(rare_binary, BinaryArgs)                     \
  X(exact, ExactArgs)                            \
  X(where, WhereArgs)                            \
  X(reduce, ReduceArgs)                          \
  X(max_gradient, MaxGradientArgs)               \
  X(fold, FoldArgs)                              \
  X(product_gradient, ProductGradientArgs)       \
  X(softmax, SoftmaxArgs)                        \
  X(dropout, DropoutArgs)                        \
  X(random, RandomArgs)                          \
  X(element_loss, ElementLossArgs)               \
  X(cross_entropy, CrossEntropyArgs)             \
  X(ctc, CtcArgs)                                \
  X(dice_sums, DiceSumsArgs)                     \
  X(dice_loss, DiceLossArgs)                     \
  X(dice_gradient, DiceGradientArgs)             \
  X(embedding_rows, EmbeddingRowsArgs)           \
  X(embedding_gradient, EmbeddingGradientArgs)   \
  X(row_norm_forward, RowNormForward)            \
  X(row_norm_backward, RowNormBackward)          \
  X(batch_norm_forward, BatchNormForward)        \
  X(batch_norm_backward, BatchNormBackward)      \
  X(move_statistics, MoveStatistics)             \
  X(group_norm_forward, GroupNormForward)        \
  X(group_norm_backward, GroupNormBackward)      \
  X(max_pool_forward, MaxPool)                   \
  X(max_pool_backward, MaxPool)                  \
  X(resample, Resample)                          \
  X(weighted_gather, WeightedGatherArgs)         \
  X(weighted_scatter, WeightedScatterArgs)       \
  X(weighted_dot, WeightedDotArgs)               \
  X(fft, FftArgs)                                \
  X(gemm, GemmArgs)                              \
  X(cholesky, CholeskyArgs)                      \
  X(lu, LuArgs)                                  \
  X(triangular_solve, TriangularSolveArgs)       \
  X(qr, QrArgs)                                  \
  X(eigh, EighArgs)                              \
  X(svd, SvdArgs)                                \
  X(column_sums, ColumnSumsArgs)                 \
  X(activation_backward, ActivationBackwardArgs) \
  X(activate, ActivateArgs)                      \
  X(pack_operand, PackOperandArgs)               \
  X(recurrent_forward, RecurrentForward)         \
  X(recurrent_backward, RecurrentBackward)       \
  X(conv, ConvArgs)                              \
  X(conv_weight, ConvWeightArgs)                 \
  X(attention_forward, AttentionForward)         \
  X(attention_backward, AttentionBackward)       \
  X(additive_mask, AdditiveMaskArgs)             \
  X(fp8_round, Fp8Rounding)                      \
  X(fp8_begin_step, Fp8BeginStep)                \
  X(scan, ScanArguments)                         \
  X(update, UpdateArguments)                     \
  X(average, AverageArguments)                   \
  X(limit, LimitArguments)                       \
  X(limit_units, UnitLimitArguments)

/// Kernels of devices whose memory the host cannot read. The CPU has none.
#define BINADE_DEVICE_KERNELS(X)         \
  X(fp8_choice, Fp8Choice)               \
  X(fp8_encode, Fp8Encoding)             \
  X(begin_step, BeginStepArgs)           \
  X(decide, DecideArgs)                  \
  X(decided_update, DecidedUpdateArgs)   \
  X(decided_average, DecidedAverageArgs) \
  X(commit, CommitArgs)                  \
  X(end_step, EndStepArgs)               \
  X(singularity_probe, SingularityProbe) \
  X(zero_probe, ZeroProbe)               \
  X(softmax_probe, SoftmaxProbe)         \
  X(attention_probe, AttentionProbe)

namespace binade {

namespace detail {
/// Throws DeviceError.
[[noreturn]] void no_kernel(const char* name);
}  // namespace detail

/// An entry of a table. Calling an entry throws DeviceError if the device lacks the kernel.
template <class Args>
class Kernel {
 public:
  /// The function that starts the kernel.
  using Function = void (*)(const Args&);

  explicit constexpr Kernel(const char* name) : name_(name) {}
  Kernel& operator=(Function function) {
    function_ = function;
    return *this;
  }
  explicit operator bool() const { return function_ != nullptr; }
  void operator()(const Args& args) const {
    if (function_ == nullptr) [[unlikely]]
      detail::no_kernel(name_);
    function_(args);
  }

 private:
  const char* name_;
  Function function_ = nullptr;
};

/// The kernels of one device.
struct KernelTable {
#define BINADE_ENTRY(name, Args) Kernel<Args> name{#name};
  BINADE_KERNELS(BINADE_ENTRY)
  BINADE_DEVICE_KERNELS(BINADE_ENTRY)
#undef BINADE_ENTRY

  /// Returns the number of bytes that pack_operand stores. Null: `gemm` has no use for a packed operand.
  std::size_t (*packed_bytes)(const GemmArgs& product) = nullptr;
  bool low_bias = false;  ///< `gemm` accepts a bias in the results' 16-bit dtype
  /// Returns true if `gemm` multiplies results of `dtype` by this activation's derivative faster than a following
  /// activation_backward. Null: always true.
  bool (*derivative_in_product)(Activation activation, DType dtype) = nullptr;
};

/// Returns the table of a device. Throws DeviceError for a GPU that has not been opened (core/gpus.h).
const KernelTable& kernels(Device device);

/// Sets the table of the open GPU, which must outlive every use of the GPU.
void set_gpu_kernels(const KernelTable& table);

}  // namespace binade
