/// What was built: release, source revision, compiler. Written into run folders and checkpoints' side files so that a
/// result can be traced to the code that made it.
#pragma once

#include <string>
#include <string_view>

namespace binade {

/// The release, as "major.minor.patch".
std::string_view version();

/// The git revision (12 hex digits), or "unknown" for a build outside a git checkout.
std::string_view git_revision();

/// One line: version, revision, compiler, build type and the instruction sets compiled in.
std::string build_id();

}  // namespace binade
