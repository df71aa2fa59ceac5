#pragma once

#include <cstddef>
#include <cstdint>

#include "binade/core/faults.h"

/// The only interface between libbinade, which links no CUDA library, and the module that does (libbinade_cuda): a
/// table of C functions. No object, exception or allocation passes from one library to the other. A function that
/// returns a Status stores a text about an error, which `last_error` returns on the same thread.
namespace binade::cuda {

/// The result of a function of the table.
enum class Status : int {
  kOk = 0,
  kNoMemory,     ///< the device has no memory left
  kUnsupported,  ///< the device or a library cannot do this
  kBadData,      ///< a kernel read data for which its op has no result, such as an index out of range; see take_fault()
  kLost,         ///< a kernel faulted or the device is gone; this process cannot use the device any more
  kFailed,       ///< any other error; last_error() describes it
};

/// Properties of a device and of the module.
struct DeviceFacts {
  char name[256] = {};
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  int runtime_version = 0;    ///< version of the CUDA runtime: 1000 major + 10 minor
  int driver_version = 0;     ///< newest CUDA version that the driver supports: 1000 major + 10 minor
  char cublaslt[32] = {};     ///< version of the loaded cuBLASLt; empty: none is loaded
  char cudnn[32] = {};        ///< version of the loaded cuDNN; empty: none is loaded
  char cudnn_built[32] = {};  ///< version of the cuDNN headers with which the module was compiled
};

/// The direction of a copy.
enum class Copy : int { kHostToDevice, kDeviceToHost, kDeviceToDevice };

/// How library plans are chosen from now on; earlier choices stay.
struct PlanOptions {
  int timed = 0;               ///< 1: plans are chosen by measured time; 0: the first that a library proposes
  int any_order = 0;           ///< 1: plans may add sums in a different order in each run
  const char* file = nullptr;  ///< path of the file in which this machine keeps plans chosen by time
  double seconds = 0;          ///< seconds that this process may spend on timing plans
};

/// The addresses at which a kernel call records the largest magnitudes of the values that it stores
/// (core/observation.h).
struct Watch {
  std::uint32_t* words = nullptr;  ///< two device words to which kernels write observed maxima; null: not observed
  bool libraries = true;           ///< true: results of GPU libraries are read again, to observe them too
  bool own = false;  ///< true: Binade's own kernels compute everything, and the keys that libraries would have computed
                     ///< are recorded (Api::recorded_keys)
};

/// The functions of the module.
struct Api {
  std::uint64_t abi;  ///< kAbi of cuda/abi.h, written by cuda/abi.py: a module with another hash is refused
  const char* (*last_error)();

  /// Stores the number of devices in `count`.
  Status (*count)(int* count);
  /// Opens device `index`, which all functions below use, and stores its properties in `facts`. Call it once.
  Status (*open)(int index, DeviceFacts* facts);

  /// Allocate device memory, free it, and store the number of free bytes of the device in `bytes`.
  Status (*allocate)(std::size_t bytes, void** memory);
  Status (*release)(void* memory);
  Status (*free_memory)(std::size_t* bytes);
  /// Copies in the order of the kernels' stream. When a copy from the host returns, `from` may be overwritten; when a
  /// copy to the host returns, it is complete.
  Status (*copy)(void* to, const void* from, std::size_t bytes, Copy kind);
  Status (*fill_zero)(void* memory, std::size_t bytes);
  Status (*synchronize)();

  /// Returns 1 if the module has the kernel at this position of the table (core/kernels/table.h).
  int (*has_kernel)(int kernel);
  /// Starts a kernel with its argument struct.
  Status (*run)(int kernel, const void* args, const Watch& watch);
  /// Returns the data of the last kBadData and clears it, so that another can be recorded.
  void (*take_fault)(Fault* fault);
  /// Returns the number of times the host has waited for the device.
  std::uint64_t (*waits)();
  /// Stores the plans that libraries have chosen so far, as text; valid until this thread's next call.
  Status (*plans)(const char** text);
  /// Adopts plans from the text of plans(), so that a run continues with the plans that it began with. Skips plans of
  /// another device or library version. `taken`: number of plans adopted.
  Status (*use_plans)(const char* text, int* taken);
  /// Sets how plans are chosen from now on.
  Status (*choose_plans)(const PlanOptions* options);
  /// Sets the keys of library plans, one per line, that Binade's own kernels compute from now on.
  Status (*refuse_keys)(const char* keys);
  /// Returns the keys that were recorded since the last call (Watch::own), one per line; valid until this thread's next
  /// call.
  Status (*recorded_keys)(const char** keys);
  /// Returns the calls that Binade's kernels computed because libraries could not, one per line; valid until this
  /// thread's next call.
  Status (*notes)(const char** text);

  /// Allocate and free page-locked host memory, for copies that do not block the host.
  Status (*allocate_pinned)(std::size_t bytes, void** memory);
  Status (*release_pinned)(void* memory);
  /// Like `copy`, but does not wait. Host memory that it reads or writes must come from `allocate_pinned`.
  Status (*copy_later)(void* to, const void* from, std::size_t bytes, Copy kind);

  /// Places a mark after all work submitted so far and stores its number; later marks have larger numbers.
  Status (*mark)(std::uint64_t* number);
  /// Stores 1 in `yes` if the device has reached the mark, otherwise 0.
  Status (*reached)(std::uint64_t number, int* yes);
  /// Waits until the device has reached the mark. `waits` does not count this.
  Status (*wait_for)(std::uint64_t number);
  /// Copies the content that `from` has when the mark is reached to ordinary host memory, concurrently with later work.
  /// Waits for the mark and the copy. `waits` does not count this.
  Status (*fetch)(void* to, const void* from, std::size_t bytes, std::uint64_t number);

  /// Starts a capture: the work that this thread submits is recorded instead of run, and other threads wait until the
  /// capture ends. Calls that need completed device work fail.
  Status (*capture_begin)();
  /// Ends the capture, even if it returns an error. If `graph` is null, discards the captured work.
  Status (*capture_end)(void** graph);
  /// Launches a captured graph, with the addresses and arguments that were captured.
  Status (*graph_launch)(void* graph);
  /// Frees a graph, after waiting for it if it is running.
  Status (*graph_release)(void* graph);
};

/// The module's one exported function is `const Api* binade_cuda_api()`.
using ApiFunction = const Api* (*)();
inline constexpr const char* kApiSymbol = "binade_cuda_api";  ///< name by which dlsym() finds it

}  // namespace binade::cuda
