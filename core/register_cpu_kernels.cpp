#include "core/kernel_slot.h"

namespace binade {

// The one list of CPU kernels: an op unit that has a KernelSlot declares `register_NAME_cpu()` in its header and is
// called here. A call, not a static initializer: a static library's linker would drop those.
void register_cpu_kernels() {}

}  // namespace binade
