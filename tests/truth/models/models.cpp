#include "tests/truth/models/models.h"

namespace binade::truth {

std::span<const ModelEntry> models() {
  static const std::vector<ModelEntry> all = [] {
    std::vector<ModelEntry> list;
    for (const auto& family : {dense_models(), image_models(), sequence_models(), recurrent_models(),
                               generative_models(), metric_models(), decision_models(), set_models()})
      list.insert(list.end(), family.begin(), family.end());
    return list;
  }();
  return all;
}

const ModelEntry& model_named(const std::string& name) {
  for (const ModelEntry& entry : models())
    if (entry.name == name) return entry;
  throw ArgumentError("truth: no model is called " + name);
}

}  // namespace binade::truth
