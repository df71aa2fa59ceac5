#pragma once

#include <string>

#include "binade/core/state_dict.h"

namespace binade::io {

inline const std::string kStateHashOfFormat1(64, 'a');

/// The state in tests/golden/data/checkpoint_format_1.hex. Never change it: released files of format 1 must stay
/// readable.
inline StateDict state_of_format_1() {
  StateDict state;
  const std::vector<float> values = {1.5f, -2.0f, 0x1p-14f, 0.0f, 3.25f, -0.5f};
  for (const DType d : {DType::f32, DType::f16, DType::bf16, DType::f64})
    state.put("model/" + std::string(name_of(d)), Tensor::from<float>(values, {2, 3}).to(d));
  state.put("model/i64", Tensor::from<std::int64_t>({1, -2, 3}, {3}));
  state.put("model/empty", Tensor::empty({0, 4}));
  state.put("amp/scale", 65536.0);
  state.put("progress/step", std::int64_t{500});
  state.put("sched/kind", std::string("cosine"));
  state.put("data/quarantine", StateDict::Integers{5, -7});
  state.put("guard/window", StateDict::Numbers{0.5, -1e300});
  return state;
}

}  // namespace binade::io
