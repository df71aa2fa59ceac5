#pragma once

#include <string>

#include "binade/amp/incident/fault_injection.h"
#include "binade/io/files/files_below.h"
#include "binade/io/records/json_lines.h"

namespace binade::amp {

/// The log of injected faults that have occurred (drills.jsonl). A fault occurs ("strikes") only once in a run, so each
/// strike is written to the disk before it happens, and read by the next process of the run.
class FaultLog {
 public:
  /// Tells `faults`, which must outlive the log, about the strikes of earlier processes. Throws StorageError if the
  /// file is not a regular one.
  FaultLog(const io::FilesBelow& files, const std::string& name, FaultInjection& faults);
  ~FaultLog() { faults_.on_strike = nullptr; }
  FaultLog(const FaultLog&) = delete;
  FaultLog& operator=(const FaultLog&) = delete;

 private:
  FaultInjection& faults_;
  io::JsonLines lines_;
};

}  // namespace binade::amp
