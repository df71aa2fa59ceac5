#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "binade/cuda/api.h"

namespace binade::cuda {

/// The keys of library plans that Binade's own kernels compute instead (gpus::quarantine_plans).
class Quarantine {
 public:
  /// Reads the keys in `file`, if it exists, and passes them to the module. `title`: the line before the keys in
  /// text(), which names libraries and device. REQUIRES an open device.
  Quarantine(const Api& api, std::string file, std::string title);

  /// Adds keys for this and later processes. Returns the reason if the file cannot be written.
  std::string add(const std::vector<std::string>& keys);
  /// Refuses these keys too, until the next call of suspend() replaces them.
  void suspend(std::vector<std::string> keys);
  std::vector<std::string> keys() const { return {keys_.begin(), keys_.end()}; }

  /// Returns the title and the keys, a line each; empty if there are no keys.
  std::string text() const;
  /// Adds the keys after the title in a text of plans, without writing them to the file. Returns their number.
  int use(std::string_view plans);

 private:
  void tell_module() const;

  const Api& api_;
  std::string file_, title_;
  std::set<std::string> keys_;
  std::vector<std::string> suspended_;
};

/// True if an OwnKernels object of this thread lives.
bool only_own_kernels();

}  // namespace binade::cuda
