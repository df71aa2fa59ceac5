#pragma once

#include <stdexcept>
#include <string>

#include "binade/cuda/api.h"

namespace binade::cuda {

/// An error inside the module. module.cu converts it to a status and a text.
class Failure : public std::runtime_error {
 public:
  Failure(Status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

}  // namespace binade::cuda
