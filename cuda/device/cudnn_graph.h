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

/// cuDNN's graph interface. Host code that needs no GPU: engines can be chosen for a device of which only a description
/// exists (cuDNN 9.8 and later).
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
  /// Like finalize(), but returns false if cuDNN does not support what is described.
  bool finalized();

  std::int64_t integer(cudnnBackendAttributeName_t name) const;
  std::vector<std::int64_t> integers(cudnnBackendAttributeName_t name, std::int64_t count) const;

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

cudnnDataType_t type_of(DType dtype);

using Four = std::array<std::int64_t, 4>;  ///< extents or strides

struct TensorFacts {
  std::int64_t id;  ///< unique in a graph
  cudnnDataType_t type;
  Four extents, strides;
  int alignment = 16;
  bool is_virtual = false;   ///< an intermediate result that never reaches memory
  bool is_by_value = false;  ///< a number in host memory, read when the plan is executed
};
/// Returns a finalized descriptor.
Descriptor tensor(const TensorFacts& facts);

/// An operation graph with the descriptors that it consists of.
struct OperationGraph {
  std::vector<Descriptor> parts;
  Descriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};

  cudnnBackendDescriptor_t keep(Descriptor&& part) { return parts.emplace_back(std::move(part)).raw(); }
  /// REQUIRES that `operations` are among the parts. `handle`: the device of the graph; without it cuDNN would take the
  /// device to have no properties at all (null if the engines are for a described device).
  void finalize(const std::vector<cudnnBackendDescriptor_t>& operations, cudnnHandle_t handle);
};

/// The device for which engines are chosen: that of a handle, or one of which only a description exists.
struct EngineTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* device = nullptr;  ///< CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, if there is no handle
  std::int64_t most_workspace = std::int64_t{1} << 30;
  int multiprocessors = 132;
  bool any_order = false;  ///< engines may sum in another order every time
  bool mode_b = false;     ///< includes what heuristics of mode B propose
};

/// An engine that is ready to run.
struct EnginePlan {
  EngineChoice choice;
  OperationGraph graph;
  Descriptor plan;
  std::int64_t workspace = 0;
};

enum class TensorCores : int { kNone, kAllowed, kOnly };

/// Requirements on an engine in addition to Binade's guarantees, and into how many parts it should cut its sums.
struct EngineRequirements {
  TensorCores tensor_cores = TensorCores::kNone;  ///< f32 inputs are rounded to TF32 on Tensor Cores
  int slices = 1;  ///< parts into which a sum should be cut; they are computed concurrently and added in f32
};

/// Returns the engines that cuDNN's heuristics (mode A, then B if requested, then the fallbacks) propose for a graph
/// and that keep Binade's guarantees: the same bits every time (except with `any_order`), products of the inputs as
/// they are (no Winograd or Fourier transforms), sums in f32. The fastest come first; making a plan of one may still
/// fail. If terms.slices > 1, the list begins with engines that cut their sums into parts.
std::vector<EngineChoice> proposed_engines(const OperationGraph& graph, int form, const EngineRequirements& terms,
                                           const EngineTarget& target);
/// Returns the plan of a choice, or std::nullopt if this cuDNN does not support it or it would break the guarantees
/// above.
std::optional<EnginePlan> restore_engine(OperationGraph graph, const EngineChoice& choice,
                                         const EngineRequirements& terms, const EngineTarget& target);

}  // namespace binade::cuda
