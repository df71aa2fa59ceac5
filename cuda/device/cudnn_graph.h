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

/// cuDNN's graph interface. Host code that needs no GPU: engines can be chosen for a device that is described in words
/// (cuDNN 9.8 and later).
namespace binade::cuda {

/// Throws the Failure that fits unless `status` is success.
void check(cudnnStatus_t status, const char* what);

/// A descriptor of cuDNN's, owned.
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
  /// One value of an enumeration, a bool or a double.
  template <class T>
  Descriptor& set_one(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T value) {
    return set(name, type, 1, &value);
  }
  /// Throws Failure with cuDNN's reason.
  Descriptor& finalize();
  /// The same, and false where cuDNN says that this cannot be computed.
  bool finalized();

  std::int64_t integer(cudnnBackendAttributeName_t name) const;
  std::vector<std::int64_t> integers(cudnnBackendAttributeName_t name, std::int64_t count) const;

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

cudnnDataType_t type_of(DType dtype);

using Four = std::array<std::int64_t, 4>;  ///< extents or strides

struct TensorFacts {
  std::int64_t id;  ///< no two of a graph have the same
  cudnnDataType_t type;
  Four extents, strides;
  int alignment = 16;
  bool is_virtual = false;   ///< it never reaches memory
  bool is_by_value = false;  ///< a number in host memory, read when the plan is executed
};
/// Finalized.
Descriptor tensor(const TensorFacts& facts);

/// An operation graph, finalized, with the descriptors that it is made of.
struct OperationGraph {
  std::vector<Descriptor> parts;
  Descriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};

  cudnnBackendDescriptor_t keep(Descriptor&& part) { return parts.emplace_back(std::move(part)).raw(); }
  /// REQUIRES that `operations` are among the parts.
  void finalize(const std::vector<cudnnBackendDescriptor_t>& operations);
};

/// Whom engines are chosen for: the device of a handle, or one that is only described.
struct EngineTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* device = nullptr;  ///< CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, where there is no handle
  std::int64_t most_workspace = std::int64_t{1} << 30;
  int multiprocessors = 132;
  bool any_order = false;  ///< engines may add in another order every time
  bool mode_b = false;     ///< also what heuristics of mode B name
};

/// An engine that is ready to run.
struct EnginePlan {
  EngineChoice choice;
  OperationGraph graph;
  Descriptor plan;
  std::int64_t workspace = 0;
};

enum class TensorCores : int { kNone, kAllowed, kOnly };

/// What an engine must keep to beside Binade's promises, and how far it should cut its sums.
struct EngineRequirements {
  TensorCores tensor_cores = TensorCores::kNone;  ///< they make TF32 of f32
  int slices = 1;  ///< a sum is worth cutting into so many parts, side by side on the device and added in f32
};

/// The engines that cuDNN's heuristics (mode A, then B where asked, then its fallbacks) name for a graph and that keep
/// Binade's promises: the same bits every time (but for `any_order`), products of the inputs as they are (no Winograd
/// or Fourier transforms), sums kept in f32. The fastest first; whether one can be planned is not known. Before them,
/// where `slices` says so, those that cut their sums.
std::vector<EngineChoice> proposed_engines(const OperationGraph& graph, int form, const EngineRequirements& terms,
                                           const EngineTarget& target);
/// The plan of a choice. Nothing where this cuDNN cannot compute it so, or it would break the promises above.
std::optional<EnginePlan> restore_engine(OperationGraph graph, const EngineChoice& choice,
                                         const EngineRequirements& terms, const EngineTarget& target);

}  // namespace binade::cuda
