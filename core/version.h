/// Identity of this build of Binade: release, source revision, compiler. Run folders and checkpoints record it, so that
/// a result can be traced to the code that produced it.
#pragma once

#include <string>
#include <string_view>

namespace binade {

/// Returns the release as "major.minor.patch".
std::string_view version();

/// Returns the git revision (12 hex digits), or "unknown" for a build outside a git checkout.
std::string_view git_revision();

/// Returns version, revision, compiler, build type and the compiled instruction sets in one line.
std::string build_id();

}  // namespace binade
