#pragma once

#include <array>
#include <string>
#include <string_view>

namespace binade::amp {

/// A program that writes run folders and understands `replay CAPSULE`.
struct KnownProgram {
  std::string_view name;
  std::string_view build_folder;  ///< its folder in a build, relative to the folder of binade-doctor
};

inline constexpr KnownProgram kBinadeGpt{"binade-gpt", "../examples/transformer"};
inline constexpr KnownProgram kBinadeUnet{"binade-unet", "../examples/unet"};
inline constexpr std::array kKnownPrograms{kBinadeGpt, kBinadeUnet};

/// The path of the program that a file names: a file may choose only from kKnownPrograms. The program is looked up in
/// the folder of this process's executable, then in its build folder; the working folder and PATH are not searched.
/// Throws ArgumentError when the program is unknown, not found, or replaceable by other users (core/code_file.h).
std::string known_program_path(std::string_view name);

}  // namespace binade::amp
