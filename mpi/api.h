#pragma once

#include <cstddef>

/// The only interface between libbinade, which links no MPI, and the module that does (libbinade_mpi): a table of C
/// functions. No object, exception or allocation passes from one library to the other. A function that fails returns
/// false and stores a text, which `last_error` returns.
namespace binade::mpi {

/// Bytes that go to a rank or come from it.
struct Piece {
  int rank = 0;
  void* data = nullptr;  ///< not written if the piece is outgoing
  std::size_t bytes = 0;
};

/// How move() ended.
enum class Moved : int {
  kDone = 0,
  kTimeout,  ///< the deadline passed: `missing` has the ranks
  kFailed,   ///< last_error() says why
};

/// The functions of the module. Used by one thread at a time.
struct Api {
  std::size_t size;     ///< sizeof(Api): a module of another version is refused
  const char* version;  ///< version() of the Binade that the module was built from
  const char* (*last_error)();
  /// Initializes MPI. `library`: name and version of the MPI.
  bool (*open)(int* rank, int* size, char (*library)[64]);
  /// Sends and receives pieces; between two ranks they arrive in the order of sending. After `seconds` without an
  /// answer it calls `waits_longer` with `context` and the ranks that have not answered, and if that returns true it
  /// waits for as long again. `missing`: room for as many ranks as there are; `missing_count`: number of those that did
  /// not answer.
  Moved (*move)(const Piece* outgoing, std::size_t outgoing_count, const Piece* incoming, std::size_t incoming_count,
                double seconds, bool (*waits_longer)(const void* context, const int* missing, std::size_t count),
                const void* context, int* missing, std::size_t* missing_count);
  /// Ends all processes of the job with this exit code.
  void (*end_job)(int code);
  /// Waits for the other ranks to close too. MPI cannot be opened again afterwards.
  void (*close)();
};

/// The type and the name of the one function that the module exports.
using ApiFunction = const Api* (*)();
inline constexpr const char* kApiSymbol = "binade_mpi_api";

}  // namespace binade::mpi
