#include "core/kernel_slot.h"
#include "core/ops/products.h"
#include "core/optimizer_kernels.h"

namespace binade {

// The one list of CPU kernels: an op unit that has a KernelSlot declares `register_NAME_cpu()` in its header and is
// called here. A call, not a static initializer: a static library's linker would drop those.
void register_cpu_kernels() {
  ops::register_gemm_cpu();
  register_cpu_optimizer_kernels();
}

}  // namespace binade
