#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "binade/core/state_dict.h"
#include "binade/io/files/files_below.h"

namespace binade::amp {

/// Writes the incidents of a run: incidents/000000000123/ with report.md, report.json and capsule.h5. Further incidents
/// of a step get the suffix "-2", "-3". Files are written whole or not at all.
class IncidentFolders {
 public:
  /// `run`: the run folder, which must outlive this object.
  explicit IncidentFolders(const io::FilesBelow& run) : run_(run) {}

  /// Returns the folder of an attempt's incident.
  std::string folder_of(std::int64_t step, std::int64_t attempt);
  /// Marks the folder of an incident as complete. Call it after the last write about the incident. If the run reaches
  /// the same attempt again after a rollback, a new incident gets a new folder.
  void close(std::int64_t step, std::int64_t attempt) { folders_.erase({step, attempt}); }
  /// Writes a file into the folder of an incident. Returns an empty string or the error message; it does not throw,
  /// because a run continues without a report.
  std::string write(std::int64_t step, std::int64_t attempt, const std::string& file, const std::string& text);
  /// Writes a repro bundle, unless it exceeds 1 GiB or this process has written 16. Returns the error message.
  std::string write_repro_bundle(std::int64_t step, std::int64_t attempt, const StateDict& bundle);

 private:
  /// Returns the path of the folder, relative to the run folder.
  const std::string& name_of(std::int64_t step, std::int64_t attempt);
  std::string put(std::int64_t step, std::int64_t attempt, const std::string& file, std::span<const std::byte> bytes);

  const io::FilesBelow& run_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> folders_;  // by step and attempt, until close()
  int bundles_ = 0;  // number of repro bundles that this process has written
};

}  // namespace binade::amp
