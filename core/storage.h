#pragma once

#include <cstddef>
#include <cstdint>

#include "binade/core/backend.h"

namespace binade {

/// A block of device memory with one owner count (tensors share it).
class Storage {
 public:
  Storage(std::size_t bytes, Device device);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  void* data_ = nullptr;  // null when bytes_ == 0
  std::size_t bytes_ = 0;
  Device device_;
};

}  // namespace binade
