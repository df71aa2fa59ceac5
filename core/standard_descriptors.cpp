#include "binade/core/standard_descriptors.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "binade/core/error.h"

namespace binade {

void open_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    // open() returns the lowest free number, which is `descriptor`, because the lower ones are open.
    const int opened = ::open("/dev/null", O_RDWR);
    check<StorageError>(opened == descriptor, "descriptor {} is closed, and /dev/null cannot take its place: {}",
                        descriptor, std::strerror(errno));
  }
}

}  // namespace binade
