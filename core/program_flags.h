#pragma once

#include <string>
#include <string_view>

namespace binade {

/// Records that this program accepts the flag --`name` on its command line, with the same meaning as in Binade's own
/// programs (examples/common/train_settings.cpp). Messages then suggest the flag; otherwise they suggest C++ code with
/// the same effect.
void add_program_flag(std::string name);
/// True if add_program_flag() was called with `name`.
bool has_program_flag(std::string_view name);
/// Discards all records.
void clear_program_flags();

/// Returns "--NAME VALUE" ("--NAME" without a value) if the program has the flag, otherwise `cpp`.
std::string flag_or(std::string_view name, std::string_view value, std::string cpp);

}  // namespace binade
