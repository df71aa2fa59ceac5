#pragma once

#include <array>
#include <string>
#include <string_view>

namespace binade::amp {

/// A program that writes run folders and understands `replay CAPSULE`.
struct KnownProgram {
  std::string_view name;
  std::string_view build_folder;  ///< where a build has it, seen from the folder of binade-doctor
};

inline constexpr KnownProgram kBinadeGpt{"binade-gpt", "../examples/transformer"};
inline constexpr KnownProgram kBinadeUnet{"binade-unet", "../examples/unet"};
inline constexpr std::array kKnownPrograms{kBinadeGpt, kBinadeUnet};

/// The path of the program that a file names: a file may choose among kKnownPrograms and nothing else. It is looked up
/// in the folder of this process's executable, then where a build has it; the working folder and PATH are not asked.
/// Throws ArgumentError when it is not known, not there, or when other users could replace it (core/code_file.h).
std::string known_program_path(std::string_view name);

}  // namespace binade::amp
