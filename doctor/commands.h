#pragma once

#include <cstdint>
#include <string>

/// The sub-commands of binade-doctor. Each prints its results to stdout and returns the exit code. Throws
/// binade::Error.
namespace binade::doctor {

/// Prints versions, processor, threads and device.
int env();

/// Prints a summary of a checkpoint or a run folder that fits on one screen; with `all`, prints every entry.
/// `checkpoint` selects the checkpoint of a run folder: see load() in selected_checkpoint.h.
int inspect(const std::string& path, const std::string& checkpoint, bool all);

/// Verifies a checkpoint, or all checkpoints of a run. Returns 0 if all are intact; otherwise prints the names of the
/// damaged ones and returns 22.
int verify(const std::string& path);

/// Prints the state hash of a checkpoint, computed from its contents. `checkpoint` selects the checkpoint of a run
/// folder: see load() in selected_checkpoint.h.
int hash(const std::string& path, const std::string& checkpoint);

/// Prints the entries that differ between two checkpoints: the first 40 or, with `all`, every one. Returns 0 if no
/// entry differs, otherwise 1.
int diff(const std::string& a, const std::string& b, bool all);

/// Writes an HTML report on a run folder (to report.html in it if `output` is empty) and prints its path.
int write_report(const std::string& run, const std::string& output);

/// Replaces this process by a program that replays a repro bundle: `program` if it is given, otherwise the program that
/// the bundle names, which must be listed in run/known_programs.h. Does not return; throws ArgumentError on failure.
int replay(const std::string& bundle, const std::string& program);

/// Arguments of `export` and `import`.
struct ExchangeOptions {
  std::string from{}, to{};  ///< paths of the input and of the output
  /// The convention of names and layouts in the exchange file: binade, auto (io::names_without_model()), pytorch-unet,
  /// hf-gpt2, or the path of a file of rules (io/exchange/name_map.h).
  std::string names = "binade";
  std::string entry{};  ///< import: dictionary in a file of torch.save(), such as "model"; empty: the whole file
  /// Rows of the token table that the exchange file (export) or the checkpoint (import) gets; 0: as in the input.
  std::int64_t vocabulary = 0;
  std::string checkpoint{};  ///< export: selects the checkpoint of a run folder, see load() in selected_checkpoint.h
};
/// Exports weights and normalization statistics of a checkpoint as a safetensors file. If the output path ends in .h5,
/// writes a model file instead (run/model_files/model_file.h).
int export_weights(const ExchangeOptions& options);
/// Imports a safetensors file or a file of torch.save() as a checkpoint that contains only weights, for --init-from.
int import_weights(const ExchangeOptions& options);

}  // namespace binade::doctor
