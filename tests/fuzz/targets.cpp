#include "tests/fuzz/target.h"

namespace binade::fuzz {

const std::vector<Target>& all_targets() {
  static const std::vector<Target> all{checkpoint_target(), safetensors_target(), npy_target(),     png_target(),
                                       idx_target(),        token_target(),       text_target(),    bpe_target(),
                                       manifest_target(),   settings_target(),    journal_target(), pytorch_target(),
                                       npz_target()};
  return all;
}

}  // namespace binade::fuzz
