#include "tests/cuda/described_device.h"

#include <string>

namespace binade::cuda {

const Descriptor* described_device() {
  static const Descriptor* device = []() -> const Descriptor* {
    const std::string words =
        R"({"cudaDeviceId":0,"deviceVer":900,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],)"
        R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"totalGlobalMem":85000000000,"multiProcessorCount":132,)"
        R"("warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
        R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
        R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,)"
        R"("memClockRateKHz":2619000,"l2CacheSize":52428800,"deviceName":"NVIDIA H100 80GB HBM3"})";
    auto* made = new Descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    if (cudnnBackendSetAttribute(made->raw(), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                 static_cast<std::int64_t>(words.size()) + 1, words.c_str()) != CUDNN_STATUS_SUCCESS ||
        !made->finalized())
      return nullptr;
    return made;
  }();
  return device;
}

Descriptor described_engine(const OperationGraph& graph, std::int64_t index) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.graph);
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {index});
  engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *described_device());
  engine.finalize();
  return engine;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const Descriptor& engine) {
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(engine.raw(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()),
        "notes");
  notes.resize(static_cast<std::size_t>(count));
  return notes;
}

}  // namespace binade::cuda
