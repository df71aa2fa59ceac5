#pragma once

#include "binade/cuda/calls.h"

/// What module.cu runs: one function a call, defined in the file of its family. Each starts kernels on the context's
/// stream and returns; each throws Failure.
namespace binade::cuda {

void run_unary(const UnaryCall& call);
void run_binary(const BinaryCall& call);
void run_where(const WhereCall& call);

void run_convert(const ConvertCall& call);
void run_fill(const FillCall& call);
void run_accumulate(const AccumulateCall& call);
void run_observe(const ObserveCall& call);
void run_copy_all(const CopyAllCall& call);

void run_row_norm_forward(const RowNormForwardCall& call);
void run_row_norm_backward(const RowNormBackwardCall& call);

void run_conv(const ConvCall& call);
void run_conv_weight(const ConvWeightCall& call);
void run_gemm(const cpu::GemmArgs& args);
void run_column_sums(const ColumnSumsCall& call);
void run_activation_backward(const ActivationBackwardCall& call);
void run_fp8_round(const ops::Fp8Rounding& r);
void run_fp8_begin_step(const Fp8BeginStepCall& call);
void run_fp8_choice(const Fp8ChoiceCall& call);
void run_fp8_encode(const ops::Fp8Encoding& e);
void run_attention_forward(const cpu::AttentionForward& f);
void run_attention_backward(const cpu::AttentionBackward& w);
void run_additive_mask(const AdditiveMaskCall& call);
void run_box(const BoxCall& call);
void run_permute(const PermuteCall& call);

void run_reduce(const ReduceCall& call);
void run_max_gradient(const MaxGradientCall& call);

void run_batch_norm_forward(const BatchNormForwardCall& call);
void run_batch_norm_backward(const BatchNormBackwardCall& call);
void run_move_statistics(const MoveStatisticsCall& call);
void run_group_norm_forward(const GroupNormForwardCall& call);
void run_group_norm_backward(const GroupNormBackwardCall& call);

void run_max_pool_forward(const MaxPoolCall& call);
void run_max_pool_backward(const MaxPoolCall& call);
void run_resample(const ResampleCall& call);

void run_softmax(const SoftmaxCall& call);
void run_dropout(const DropoutCall& call);

void run_cross_entropy(const CrossEntropyCall& call);
void run_element_loss(const ElementLossCall& call);
void run_dice_sums(const DiceSumsCall& call);
void run_dice_loss(const DiceLossCall& call);
void run_dice_gradient(const DiceGradientCall& call);
void run_embedding_rows(const EmbeddingRowsCall& call);
void run_embedding_gradient(const EmbeddingGradientCall& call);

void run_scan(const ScanCall& call);
void run_update(const UpdateCall& call);
void run_average(const AverageCall& call);
void run_limit(const LimitCall& call);
void run_limit_units(const LimitUnitsCall& call);

void run_begin_step(const BeginStepCall& call);
void run_decide(const DecideCall& call);
void run_decided_update(const DecidedUpdateCall& call);
void run_decided_average(const DecidedAverageCall& call);
void run_commit(const CommitCall& call);
void run_end_step(const EndStepCall& call);

void run_pole_look(const PoleLook& look);
void run_zero_look(const ZeroLook& look);
void run_softmax_look(const SoftmaxLook& look);
void run_attention_look(const AttentionLook& look);

}  // namespace binade::cuda
