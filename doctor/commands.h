#pragma once

#include <cstdint>
#include <string>

/// The sub-commands of binade-doctor. Each writes its findings to stdout, throws binade::Error on what it cannot work
/// with, and returns the exit code.
namespace binade::doctor {

/// Versions, processor, threads and device.
int env();

/// Prints the contents of a checkpoint or a run folder in one screen; with `all`, every entry. `checkpoint` selects one
/// of a run folder: see load() in subject.h.
int inspect(const std::string& path, const std::string& checkpoint, bool all);

/// Whether a checkpoint, or every one of a run, is whole: 0, or 22 after naming those that are not.
int verify(const std::string& path);

/// The state hash of a checkpoint, computed from its contents. `checkpoint` as above.
int hash(const std::string& path, const std::string& checkpoint);

/// Which entries differ between two checkpoints: 0 when none does, else 1.
int diff(const std::string& a, const std::string& b, bool all);

/// A run folder told as one HTML page (report.html in it where `output` is empty), whose path is printed.
int write_report(const std::string& run, const std::string& output);

/// Replaces this process by a program with `replay CAPSULE`: `program` if it is given, otherwise the one that the
/// capsule names, which must be listed in run/known_programs.h. Does not return; throws ArgumentError on failure.
int replay(const std::string& capsule, const std::string& program);

struct ExchangeOptions {
  std::string from{}, to{};
  std::string names = "binade";  ///< binade, pytorch-unet or hf-gpt2
  /// Rows of the token table in the exchange file (export) or in Binade (import); 0: as it is
  std::int64_t vocabulary = 0;
  std::string checkpoint{};  ///< export, of a run folder: see load() in subject.h
};
/// Weights and statistics of a checkpoint as safetensors.
int export_weights(const ExchangeOptions& options);
/// Weights in safetensors as a checkpoint that holds nothing else, for --init-from.
int import_weights(const ExchangeOptions& options);

}  // namespace binade::doctor
