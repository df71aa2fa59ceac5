#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/core/dtype.h"
#include "binade/cuda/device/engine_choice.h"

/// cuDNN's graph interface. This host code needs no GPU, because engines can be chosen for a device that exists only as
/// a description (cuDNN 9.8 and later).
namespace binade::cuda {

/// Throws the matching Failure unless `status` is success.
void check(cudnnStatus_t status, const char* what);

/// Owns a descriptor of cuDNN.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : raw_(other.raw_) { other.raw_ = nullptr; }
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  cudnnBackendDescriptor_t raw() const { return raw_; }

  /// Set an attribute. Throw Failure with cuDNN's reason if it is refused.
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                  const void* values);
  Descriptor& set(cudnnBackendAttributeName_t name, std::initializer_list<std::int64_t> values);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t other);
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other) { return set(name, other.raw()); }
  /// Sets one enumerator, bool or double.
  template <class T>
  Descriptor& set_one(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T value) {
    return set(name, type, 1, &value);
  }
  /// Throws Failure with cuDNN's reason.
  Descriptor& finalize();
  /// Like finalize(), but returns false if cuDNN does not support the described operation or plan.
  bool finalized();

  /// Return the values of an attribute.
  std::int64_t integer(cudnnBackendAttributeName_t name) const;
  std::vector<std::int64_t> integers(cudnnBackendAttributeName_t name, std::int64_t count) const;

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

/// Returns cuDNN's name of a dtype.
cudnnDataType_t type_of(DType dtype);

using Four = std::array<std::int64_t, 4>;  ///< extents or strides

/// The description of a tensor in an operation graph.
struct TensorFacts {
  std::int64_t id;  ///< unique in a graph
  cudnnDataType_t type;
  Four extents, strides;
  int alignment = 16;        ///< bytes that divide the address
  bool is_virtual = false;   ///< an intermediate result that never reaches memory
  bool is_by_value = false;  ///< a number in host memory, read when the plan is executed
};
/// Returns the finalized descriptor of a tensor.
Descriptor tensor(const TensorFacts& facts);

/// An operation graph with the descriptors that it consists of.
struct OperationGraph {
  std::vector<Descriptor> parts;
  Descriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};

  /// Adds a descriptor to the parts, and returns cuDNN's handle of it.
  cudnnBackendDescriptor_t keep(Descriptor&& part) { return parts.emplace_back(std::move(part)).raw(); }
  /// Makes the graph of `operations`, which must be among the parts. `handle` determines the device of the graph;
  /// without it, cuDNN assumes a device without any properties. It may be null only if engines are chosen for a
  /// described device.
  void finalize(const std::vector<cudnnBackendDescriptor_t>& operations, cudnnHandle_t handle);
};

/// The device for which engines are chosen (the device of a handle, or one that exists only as a description), and the
/// conditions of the choice.
struct EngineTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* device = nullptr;                   ///< CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, if there is no handle
  std::int64_t most_workspace = std::int64_t{1} << 30;  ///< most bytes of workspace
  int multiprocessors = 132;                            ///< number of the device's multiprocessors
  bool any_order = false;                               ///< engines may add in a different order in each run
  bool mode_b = false;                                  ///< cuDNN's heuristics of mode B are queried too
};

/// An engine that is ready to run.
struct EnginePlan {
  EngineChoice choice;
  OperationGraph graph;
  Descriptor plan;
  std::int64_t workspace = 0;
};

/// Whether an engine may, or must, use Tensor Cores.
enum class TensorCores : int { kNone, kAllowed, kOnly };

/// Requirements on an engine in addition to Binade's guarantees, and the number of parts into which it should cut sums.
struct EngineRequirements {
  TensorCores tensor_cores = TensorCores::kNone;  ///< on Tensor Cores, f32 inputs are rounded to TF32
  int slices = 1;  ///< parts into which a sum should be cut; they are computed concurrently and added in f32
};

/// Returns the engines that cuDNN's heuristics (mode A, then B if requested, then the fallbacks) propose for a graph
/// and that keep Binade's guarantees: the same bits every time (except with `any_order`), products of the inputs as
/// they are (no Winograd or Fourier transforms), sums in f32. The fastest come first; making a plan of one may still
/// fail. If requirements.slices > 1, the list begins with engines that cut their sums into parts.
std::vector<EngineChoice> proposed_engines(const OperationGraph& graph, int form,
                                           const EngineRequirements& requirements, const EngineTarget& target);
/// Returns the plan of a choice, or std::nullopt if this version of cuDNN does not support it, or if it does not keep
/// the guarantees of proposed_engines().
std::optional<EnginePlan> restore_engine(OperationGraph graph, const EngineChoice& choice,
                                         const EngineRequirements& requirements, const EngineTarget& target);

}  // namespace binade::cuda
