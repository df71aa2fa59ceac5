#include "binade/core/state_copy.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "binade/core/backend.h"
#include "binade/core/gpus.h"
#include "binade/core/kernels/table.h"

namespace binade {

StateDict cloned(const StateDict& state) {
  StateDict copies;
  std::map<DeviceType, std::vector<MemoryCopy>> pieces;
  for (const auto& [name, value] : state.values()) {
    const auto* tensor = std::get_if<Tensor>(&value);
    if (tensor == nullptr) {
      copies.put(name, value);
    } else if (!tensor->contiguous() || tensor->bytes() == 0) {
      copies.put(name, tensor->clone());
    } else {
      Tensor copy = Tensor::empty(tensor->shape(), tensor->dtype(), tensor->device());
      pieces[tensor->device().type].push_back({copy.mutable_raw(), tensor->raw(), tensor->bytes()});
      copies.put(name, std::move(copy));
    }
  }
  for (const auto& [type, some] : pieces) kernels(Device{type}).copy_all({some});
  return copies;
}

StateDict on_host(const StateDict& state) {
  StateDict here;
  std::optional<std::uint64_t> sent;
  for (const auto& [name, value] : state.values()) {
    const auto* tensor = std::get_if<Tensor>(&value);
    if (tensor == nullptr || tensor->device() == Device::cpu()) {
      here.put(name, tensor != nullptr ? StateDict::Value(tensor->contiguous_copy()) : value);
      continue;
    }
    const Tensor source = tensor->contiguous_copy();
    if (!sent || !tensor->contiguous()) sent = backend_of(tensor->device()).mark(Stream{tensor->device()});
    Tensor copy = Tensor::empty(source.shape(), source.dtype());
    if (source.bytes() > 0) gpus::fetch(copy.mutable_raw(), source.raw(), source.bytes(), *sent);
    here.put(name, std::move(copy));
  }
  return here;
}

}  // namespace binade
