// Prints tests/golden/data/checkpoint_format_1.hex. Run once for each format version, at its release:
//
//     ninja -C build tests/golden/write_checkpoint_format
//     build/tests/golden/write_checkpoint_format > tests/golden/data/checkpoint_format_1.hex
#include <cstdio>

#include "binade/io/checkpoint/file.h"
#include "tests/golden/checkpoint_format_1.h"

int main() {
  using namespace binade::io;
  constexpr std::size_t kBytesOfALine = 48;
  const CheckpointImage image = encode_checkpoint(state_of_format_1(), kStateHashOfFormat1);
  const std::span<const std::byte> bytes = image.bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool ends_a_line = (i + 1) % kBytesOfALine == 0 || i + 1 == bytes.size();
    std::printf("%02x%s", std::to_integer<unsigned>(bytes[i]), ends_a_line ? "\n" : "");
  }
}
