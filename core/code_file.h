#pragma once

#include <string>

namespace binade {

/// Returns why the file at `path` must not be loaded or run as code, or an empty text if it may. The file must be
/// regular. This user or root must own the file and its folder, and nobody else may have write permission to either,
/// because otherwise another user could replace the code. (A group that has no members but the file's owner counts as
/// the owner.) Links are followed first.
std::string why_no_code(const std::string& path);

}  // namespace binade
