#include "binade/core/tensor_kernels.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {
namespace {

void convert(const TensorRows& to, const TensorRows& from, std::int64_t rows, std::int64_t cols) {
  run(Call::kConvert, ConvertCall{to, from, rows, cols}, "copy_from");
}
void fill(const TensorRows& to, double value, std::int64_t rows, std::int64_t cols) {
  run(Call::kFill, FillCall{to, value, rows, cols}, "fill");
}
void accumulate(const TensorRows& into, const TensorRows& from, std::int64_t rows, std::int64_t cols) {
  run(Call::kAccumulate, AccumulateCall{into, from, rows, cols}, "accumulate");
}
void observe(const void* values, DType dtype, std::int64_t count) {
  run(Call::kObserve, ObserveCall{values, dtype, count}, "observe");
}

void copy_all(std::span<const MemoryCopy> copies) { run(Call::kCopyAll, CopyAllCall{copies}, "copies"); }

}  // namespace

void register_tensor() {
  tensor_kernels().fill(DeviceType::kCuda, {&convert, &fill, &accumulate, &observe, &copy_all});
}

}  // namespace binade::cuda
