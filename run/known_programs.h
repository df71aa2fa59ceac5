#pragma once

#include <array>
#include <string>
#include <string_view>

namespace binade::amp {

/// A program that writes run folders and has the command `replay CAPSULE`.
struct KnownProgram {
  std::string_view name;
  std::string_view build_folder;  ///< relative to the folder of binade-doctor in a build
};

inline constexpr KnownProgram kBinadeGpt{"binade-gpt", "../examples/transformer"};
inline constexpr KnownProgram kBinadeUnet{"binade-unet", "../examples/unet"};
inline constexpr std::array kKnownPrograms{kBinadeGpt, kBinadeUnet};

/// Returns the path of a program named in a file, which must be one of kKnownPrograms. Searches the folder of this
/// process's executable, then the program's build folder, but neither the working folder nor PATH. Throws ArgumentError
/// if the program is unknown, not found, or writable by other users (core/code_file.h).
std::string known_program_path(std::string_view name);

}  // namespace binade::amp
