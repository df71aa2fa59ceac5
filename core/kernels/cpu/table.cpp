
#include <atomic>

#include "binade/core/error.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/program_flags.h"
#include "binade/core/step_context.h"

namespace binade {
namespace cpu {

// Kernels that the level's loops implement completely, including the division among threads.
void run_gemm(const GemmArgs& a) { level().gemm.gemm(a); }
void run_column_sums(const ColumnSumsArgs& a) { level().gemm.column_sums(a); }
void run_activation_backward(const ActivationBackwardArgs& a) { level().gemm.activation_backward(a); }
void run_activate(const ActivateArgs& a) { level().gemm.activate(a); }
void run_pack_operand(const PackOperandArgs& a) { level().gemm.pack_operand(a); }
void run_conv(const ConvArgs& a) { level().conv.conv(a); }
void run_conv_weight(const ConvWeightArgs& a) { level().conv.weight_gradient(a); }
void run_attention_forward(const AttentionForward& a) { level().attention.forward(a); }
void run_attention_backward(const AttentionBackward& a) { level().attention.backward(a); }
void run_row_norm_forward(const RowNormForward& a) { level().row_norm.forward(a); }
void run_row_norm_backward(const RowNormBackward& a) { level().row_norm.backward(a); }
void run_max_pool_forward(const MaxPool& a) { level().pool.max_forward(a); }
void run_max_pool_backward(const MaxPool& a) { level().pool.max_backward(a); }
void run_resample(const Resample& a) { level().pool.resample(a); }

namespace {

KernelTable cpu_table() {
  KernelTable table;
#define BINADE_FILL(name, Args) table.name = &run_##name;
  BINADE_KERNELS(BINADE_FILL)
#undef BINADE_FILL
  table.packed_bytes = [](const GemmArgs& product) { return level().gemm.packed_bytes(product); };
  return table;
}

}  // namespace
}  // namespace cpu

namespace {
std::atomic<const KernelTable*> g_gpu = nullptr;
}

void detail::no_kernel(const char* name) {
  throw DeviceError(fmt::format("{}: this device has no kernel for it; use {}", where(name),
                                flag_or("device", "cpu", "Device::cpu()")));
}

const KernelTable& kernels(Device device) {
  static const KernelTable cpu = cpu::cpu_table();
  if (device.type == DeviceType::kCpu) return cpu;
  const KernelTable* const gpu = g_gpu.load(std::memory_order_acquire);
  check<DeviceError>(gpu != nullptr, "{}: no GPU is open; create a binade::Runtime for it first, or use another device",
                     device);
  return *gpu;
}

void set_gpu_kernels(const KernelTable& table) { g_gpu.store(&table, std::memory_order_release); }

}  // namespace binade
