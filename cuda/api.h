#pragma once

#include <cstddef>
#include <cstdint>

#include "binade/core/faults.h"

/// The one door between libbinade, which links no CUDA library, and the module that does (libbinade_cuda): a table of C
/// functions. No object, exception or allocation crosses it. Every function returns a status; its text is had from
/// `last_error`, on the same thread.
namespace binade::cuda {

enum class Status : int {
  kOk = 0,
  kNoMemory,     ///< the device has none left for this
  kUnsupported,  ///< the device or a library cannot do this
  kBadData,      ///< what was waited for met data that no result exists for: take_fault() says which
  kLost,         ///< a kernel faulted or the device is gone: nothing on it can be used any more
  kFailed,       ///< anything else; the text says what
};

/// What the module knows of a device and of itself.
struct DeviceFacts {
  char name[256] = {};
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  int runtime_version = 0;  ///< CUDA: 1000 major + 10 minor
  int driver_version = 0;   ///< the newest CUDA that the driver serves
  char cublaslt[32] = {};   ///< version found; empty: none
  char cudnn[32] = {};
  char cudnn_built[32] = {};
};

enum class Copy : int { kHostToDevice, kDeviceToHost, kDeviceToDevice };

/// How libraries' plans are chosen from now on; what was chosen stays.
struct PlanOptions {
  int timed = 0;               ///< by time, else the first that a library names
  int any_order = 0;           ///< plans may add in another order every time
  const char* file = nullptr;  ///< where this machine keeps what it chose by time
  double seconds = 0;          ///< that this process may spend on times
};

/// Who wants to know of what a call stores (core/observation.h).
struct Watch {
  std::uint32_t* words = nullptr;  ///< two words of device memory that kernels observe into; null: nobody
  bool libraries = true;           ///< what a library stored is read again for them
};

struct Api {
  std::uint64_t abi;  ///< kAbi of cuda/abi.h, which cuda/abi.py writes: a module with another hash is refused
  const char* (*last_error)();

  /// How many devices there are.
  Status (*count)(int* count);
  /// Makes device `index` the one that everything below works on. Once.
  Status (*open)(int index, DeviceFacts* facts);

  Status (*allocate)(std::size_t bytes, void** memory);
  Status (*release)(void* memory);
  Status (*free_memory)(std::size_t* bytes);
  /// Ordered with the kernels. From the host: `from` may be written again on return. To the host: done on return.
  Status (*copy)(void* to, const void* from, std::size_t bytes, Copy kind);
  Status (*fill_zero)(void* memory, std::size_t bytes);
  Status (*synchronize)();

  /// Whether the module has a kernel of the table (core/kernels/table.h), by its position there.
  int (*has_kernel)(int kernel);
  /// Starts it with its struct.
  Status (*run)(int kernel, const void* args, const Watch& watch);
  /// What the last kBadData was about; from now on another can be noted.
  void (*take_fault)(Fault* fault);
  /// How often the host has waited for the device so far.
  std::uint64_t (*waits)();
  /// The algorithms that libraries have chosen so far, as text; it lasts until this thread asks again.
  Status (*plans)(const char** text);
  /// Takes such choices over, so that a run goes on with those it began with; those of another device or library
  /// version are passed by. `taken`: how many were not.
  Status (*use_plans)(const char* text, int* taken);
  Status (*choose_plans)(const PlanOptions* options);
  /// What libraries could not do and kernels of ours did, a line each, as `plans`.
  Status (*notes)(const char** text);

  /// Host memory that copies reach while the host goes on.
  Status (*allocate_pinned)(std::size_t bytes, void** memory);
  Status (*release_pinned)(void* memory);
  /// As `copy`, with such memory on the host's side: does not wait.
  Status (*copy_later)(void* to, const void* from, std::size_t bytes, Copy kind);

  /// A point behind all that has been sent; later ones have larger numbers.
  Status (*mark)(std::uint64_t* number);
  Status (*reached)(std::uint64_t number, int* yes);
  /// Not counted by `waits`.
  Status (*wait_for)(std::uint64_t number);
  /// To ordinary host memory what lies at `from` when that point has been reached, beside what is sent later: waits for
  /// the point and the copy. Not counted by `waits`.
  Status (*fetch)(void* to, const void* from, std::size_t bytes, std::uint64_t number);

  /// From now on what this thread sends is noted down instead of run; other threads wait until it is over. What needs
  /// the device to have run is refused.
  Status (*capture_begin)();
  /// Ends it, whatever the status. `graph` null: what was noted is dropped.
  Status (*capture_end)(void** graph);
  /// Runs what was noted, on the same addresses and arguments.
  Status (*graph_launch)(void* graph);
  /// Waits for the graph where it runs.
  Status (*graph_release)(void* graph);
};

/// The module's one exported function is `const Api* binade_cuda_api()`.
using ApiFunction = const Api* (*)();
inline constexpr const char* kApiSymbol = "binade_cuda_api";

}  // namespace binade::cuda
