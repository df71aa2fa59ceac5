#pragma once

#include "binade/cuda/calls/attention.h"
#include "binade/cuda/calls/conv.h"
#include "binade/cuda/calls/elementwise.h"
#include "binade/cuda/calls/embedding.h"
#include "binade/cuda/calls/fp8.h"
#include "binade/cuda/calls/look.h"
#include "binade/cuda/calls/losses.h"
#include "binade/cuda/calls/move.h"
#include "binade/cuda/calls/norm.h"
#include "binade/cuda/calls/optimizer.h"
#include "binade/cuda/calls/pool.h"
#include "binade/cuda/calls/products.h"
#include "binade/cuda/calls/reduce.h"
#include "binade/cuda/calls/rows.h"
#include "binade/cuda/calls/step.h"
#include "binade/cuda/calls/tensor.h"

namespace binade::cuda {

/// Every call that the module knows, by the struct that it takes. To add one: its struct in cuda/calls/, its line here,
/// its kernels in cuda/device/, and the slot that makes it in cuda/slots/.
enum class Call : int {
  kUnary,
  kBinary,
  kWhere,
  kConvert,
  kFill,
  kAccumulate,
  kObserve,
  kCopyAll,
  kRowNormForward,
  kRowNormBackward,
  kConv,
  kConvWeight,
  kGemm,
  kColumnSums,
  kActivationBackward,
  kFp8Round,
  kFp8BeginStep,
  kFp8Choice,
  kFp8Encode,
  kAttentionForward,
  kAttentionBackward,
  kAdditiveMask,
  kBox,
  kPermute,
  kReduce,
  kMaxGradient,
  kBatchNormForward,
  kBatchNormBackward,
  kMoveStatistics,
  kGroupNormForward,
  kGroupNormBackward,
  kMaxPoolForward,
  kMaxPoolBackward,
  kResample,
  kSoftmax,
  kDropout,
  kCrossEntropy,
  kElementLoss,
  kDiceSums,
  kDiceLoss,
  kDiceGradient,
  kEmbeddingRows,
  kEmbeddingGradient,
  kScan,
  kUpdate,
  kAverage,
  kLimit,
  kLimitUnits,
  kBeginStep,
  kDecide,
  kDecidedUpdate,
  kDecidedAverage,
  kCommit,
  kEndStep,
  kPoleLook,
  kZeroLook,
  kSoftmaxLook,
  kAttentionLook,
  kCount,
};

}  // namespace binade::cuda
