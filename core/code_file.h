#pragma once

#include <string>

namespace binade {

/// Returns why the file at `path` must not be loaded or run as code, or an empty text if it may. Symbolic links are
/// resolved first. The file must be regular. It and its folder must belong to this user or to root, and nobody else may
/// write to either, because otherwise another user could replace the code. Write permission for a group is allowed if
/// the owner is its only member.
std::string why_not_executable(const std::string& path);

/// Returns the folder of the file that contains this code, which is libbinade or a program that it was linked into, as an
/// absolute path; empty if it cannot be determined. Modules are looked for there. A relative name is not accepted,
/// because it would be looked up in the working folder, which may contain files of other users.
std::string folder_of_library();

}  // namespace binade
