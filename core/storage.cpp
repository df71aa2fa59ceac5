#include "binade/core/storage.h"

namespace binade {

Storage::Storage(std::size_t bytes, Device device) : bytes_(bytes), device_(device) {
  if (bytes_ > 0) data_ = backend_of(device_).allocate(bytes_, Stream{device_});
}

Storage::~Storage() {
  if (data_ != nullptr) backend_of(device_).release(data_, bytes_, Stream{device_});
}

}  // namespace binade
