#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "binade/core/state_dict.h"
#include "binade/io/files/files_below.h"

namespace binade::amp {

/// The incidents of a run on disk: incidents/000000000123/ with report.md, report.json and capsule.h5; "-2", "-3"
/// behind the name of a step that had several. Files are written whole or not at all.
class IncidentFolders {
 public:
  /// The run's folder must outlive this.
  explicit IncidentFolders(const io::FilesBelow& run) : run_(run) {}

  /// The folder of one attempt's incident, the same one until the incident is closed.
  std::string of(std::int64_t step, std::int64_t attempt);
  /// Closes the incident: nothing more is written about it. If the run rolled back and reaches the same attempt again,
  /// an incident there is a new one with its own folder.
  void close(std::int64_t step, std::int64_t attempt) { folders_.erase({step, attempt}); }
  /// Empty, or what went wrong: a run goes on without a report.
  std::string write(std::int64_t step, std::int64_t attempt, const std::string& file, const std::string& text);
  /// The same for a repro bundle. Those beyond 1 GiB, and all after the first 16 of this process, are left out.
  std::string write_repro_bundle(std::int64_t step, std::int64_t attempt, const StateDict& bundle);

 private:
  /// The folder's name below the run's.
  const std::string& name_of(std::int64_t step, std::int64_t attempt);
  std::string put(std::int64_t step, std::int64_t attempt, const std::string& file, std::span<const std::byte> bytes);

  const io::FilesBelow& run_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> folders_;  // of open incidents
  int bundles_ = 0;
};

}  // namespace binade::amp
