#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "binade/core/state_dict.h"
#include "binade/io/files/run_folder.h"

namespace binade::amp {

/// Stores the library plans of a GPU (core/gpus.h) with a run, so that a resumed run uses the same plans and computes
/// the same bits. A run on the CPU has no library plans.
class LibraryPlans {
 public:
  /// Puts the plans, if any, into a checkpoint as the text "env/plans". Returns that text.
  static std::string put(StateDict& state);
  /// Loads the plans of a checkpoint, if it has any. Returns a message if some do not fit this device and its
  /// libraries; otherwise an empty string.
  std::string restore(const StateDict& state);
  /// Writes plans.txt, for people, if `text` has changed. Throws StorageError.
  void write(const io::RunFolder& folder, const std::string& text);
  /// Returns the notes since the last call, a line each. A note names a product, convolution or attention that runs in
  /// Binade's own kernels, because the GPU libraries have no plan for it.
  std::vector<std::string> unreported_notes();

 private:
  std::string written_;       // text of the latest write()
  std::size_t reported_ = 0;  // number of bytes of gpus::notes() that unreported_notes() has returned
};

}  // namespace binade::amp
