#include "binade/io/records/library_versions.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "binade/io/checkpoint/hdf5.h"

namespace binade::io {

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  hbool_t threadsafe = false;
  H5get_libversion(&major, &minor, &release);
  H5is_library_threadsafe(&threadsafe);
  return fmt::format("{}.{}.{} (built against {}.{}.{}{})", major, minor, release, H5_VERS_MAJOR, H5_VERS_MINOR,
                     H5_VERS_RELEASE, threadsafe ? ", thread-safe" : "");
}

std::string json_version() {
  return fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH);
}

}  // namespace binade::io
