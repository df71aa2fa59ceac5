#pragma once

#include <vector>

#include "tests/truth/task.h"

/// The models by family; each file of this folder defines one list.
namespace binade::truth {

std::vector<ModelEntry> dense_models();
std::vector<ModelEntry> image_models();
std::vector<ModelEntry> sequence_models();
std::vector<ModelEntry> recurrent_models();
std::vector<ModelEntry> generative_models();
std::vector<ModelEntry> metric_models();
std::vector<ModelEntry> decision_models();
std::vector<ModelEntry> set_models();

/// (rows, 1) -> a regression target of the hidden variable.
inline double wave(const Sample& s, std::int64_t k) {
  return 0.5 * s.latent() + 0.3 * (k % 2 == 0 ? 1 : -1) * s.latent() * s.latent();
}
/// An input that depends on the hidden variable, with noise.
inline double reading(const Sample& s, std::int64_t k) {
  return s.latent() * (1 + 0.2 * static_cast<double>(k % 5)) + 0.3 * s.normal(1, k);
}

}  // namespace binade::truth
