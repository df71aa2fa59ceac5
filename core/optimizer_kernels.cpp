#include "core/optimizer_kernels.h"

#include "core/kernels/dispatch.h"
#include "core/parallel.h"

namespace binade {
namespace {

// Blocks are cut by size alone and each writes its own result, so the thread count cannot show.
void scan(const ScanArguments& a) {
  const cpu::OptimizerBlockKernels& kernels = cpu::kernels().optimizer;
  parallel_blocks(static_cast<std::int64_t>(a.blocks.size()), [&](std::int64_t b) {
    const FlatBlock& block = a.blocks[static_cast<std::size_t>(b)];
    const float* values = a.values[static_cast<std::size_t>(block.slice)];
    a.results[static_cast<std::size_t>(b)] = values == nullptr ? BlockScan{}
                                                               : kernels.scan(values + block.begin, block.count);
  });
}

void update(const UpdateArguments& a) {
  const cpu::OptimizerBlockKernels& kernels = cpu::kernels().optimizer;
  parallel_blocks(static_cast<std::int64_t>(a.blocks.size()), [&](std::int64_t b) {
    a.extremes[static_cast<std::size_t>(b)] = kernels.update(a, a.blocks[static_cast<std::size_t>(b)]);
  });
}

void average(const AverageArguments& a) {
  const cpu::OptimizerBlockKernels& kernels = cpu::kernels().optimizer;
  parallel_blocks(static_cast<std::int64_t>(a.blocks.size()), [&](std::int64_t b) {
    const FlatBlock& block = a.blocks[static_cast<std::size_t>(b)];
    const auto slice = static_cast<std::size_t>(block.slice);
    const auto* value = static_cast<const std::byte*>(a.values[slice]) +
                        static_cast<std::size_t>(block.begin) * size_of(a.value_dtypes[slice]);
    kernels.average(a.averages[slice] + block.begin, value, a.value_dtypes[slice], block.count, a.weight);
  });
}

}  // namespace

KernelSlot<OptimizerKernels>& optimizer_kernels() {
  static KernelSlot<OptimizerKernels> slot;
  return slot;
}

void register_cpu_optimizer_kernels() { optimizer_kernels().fill(DeviceType::kCpu, {&scan, &update, &average}); }

}  // namespace binade
