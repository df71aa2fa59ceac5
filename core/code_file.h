#pragma once

#include <string>

namespace binade {

/// Why the file at `path` may not be loaded or run as code of this process; empty where it may. Code must lie in a
/// regular file, in a folder, that only this user or root owns and that nobody else may write to: another user could
/// replace it. (A group that holds nobody but the file's owner counts as the owner.) Links are followed first.
std::string why_no_code(const std::string& path);

}  // namespace binade
