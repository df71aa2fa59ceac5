#pragma once

#include <cudnn.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "cuda/device/conv_plan.h"

/// cuDNN's graph interface for convolutions: one operation, or an operation and a pointwise one behind it. Host code
/// that needs no GPU: engines can be chosen for a device that is described in words (cuDNN 9.8 and later).
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
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other);
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

/// What the tensors of a convolution are called in its graph.
enum ConvTensor : std::int64_t { kTensorX = 1, kTensorW, kTensorY, kTensorBias, kTensorSums };

/// The operation graph of a key, finalized, with the descriptors that it is made of.
struct ConvGraph {
  std::vector<Descriptor> parts;
  Descriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
};
/// Throws Failure where cuDNN knows no such graph. REQUIRES kThroughFloat with a bias.
ConvGraph conv_graph(const ConvKey& key, ConvForm form);

/// Whom engines are chosen for: the device of a handle, or one that is only described.
struct ConvTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* device = nullptr;  ///< CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, where there is no handle
  std::int64_t most_workspace = std::int64_t{1} << 30;
};

/// An engine that is ready to run.
struct ConvPlan {
  ConvChoice choice;
  ConvGraph graph;
  Descriptor plan;
  std::int64_t workspace = 0;
};

/// The first engine that cuDNN's heuristics (mode A, then its fallbacks) name and that computes what Binade promises:
/// the same bits every time, products of the inputs as they are (TF32 only where the key allows it, no Winograd or
/// Fourier transforms), sums kept in f32. Nothing where there is none.
std::optional<ConvPlan> choose_conv_plan(const ConvKey& key, const ConvTarget& target);

/// The plan of an earlier choice. Nothing where this cuDNN cannot compute it so, or it would break the promises above.
std::optional<ConvPlan> restore_conv_plan(const ConvKey& key, const ConvChoice& choice, const ConvTarget& target);

}  // namespace binade::cuda
