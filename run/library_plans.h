#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "binade/core/state_dict.h"
#include "binade/io/files/run_folder.h"

namespace binade::amp {

/// What a run on a GPU keeps of the choices of its libraries (core/gpus.h): a resumed run computes with the engines it
/// began with, so that it goes on to the same bits. On the CPU there are none, and nothing is kept.
class LibraryPlans {
 public:
  /// Puts them into a checkpoint as the text "env/plans", where there are any. Returns that text.
  static std::string put(StateDict& state);
  /// Takes over those of a checkpoint, which may hold none. Returns what a person should know: which do not fit this
  /// device and its libraries. Empty where all do.
  std::string restore(const StateDict& state);
  /// Writes plans.txt, for people, where `text` is another than the last one. Throws StorageError.
  void write(const io::RunFolder& folder, const std::string& text);
  /// What libraries could not do and Binade's own kernels did, as far as it has not been told: a line each.
  std::vector<std::string> untold_notes();

 private:
  std::string written_;
  std::size_t told_ = 0;  // bytes of gpus::notes()
};

}  // namespace binade::amp
