// Checkpoints of other versions: old ones are always read; newer ones if their required features are known.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "binade/core/error.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/checkpoint/hdf5_profile.h"
#include "binade/io/checkpoint/layout.h"
#include "binade/io/checkpoint/sections.h"
#include "binade/io/checkpoint/store.h"
#include "tests/golden/checkpoint_format_1.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using Bytes = std::vector<std::byte>;

/// Registers the sections of the recorded state. The modules that own them are not in all programs that contain this
/// test, and "guard" has no owner any more.
const CheckpointSection kSections[] = {"amp",  "data",  "env",      "guard", "model",
                                       "norm", "optim", "progress", "rng",   "sched"};

/// The file written by tests/golden/write_checkpoint_format.cpp.
std::string recorded_path() {
  const char* given = std::getenv("BINADE_GOLDEN_DIR");
  return std::string(given != nullptr ? given : "tests/golden/data") + "/checkpoint_format_1.hex";
}

Bytes recorded() {
  std::ifstream file(recorded_path());
  Bytes bytes;
  for (std::string line; std::getline(file, line);)
    for (std::size_t i = 0; i + 1 < line.size(); i += 2)
      bytes.push_back(std::byte{static_cast<unsigned char>(std::stoul(line.substr(i, 2), nullptr, 16))});
  return bytes;
}

TEST(CheckpointFormat, TheRecordedCheckpointOfFormat1HasItsValues) {
  const Bytes bytes = recorded();
  ASSERT_GT(bytes.size(), 1000u) << recorded_path();
  ASSERT_LE(bytes.size(), 65536u);
  const DecodedCheckpoint read = decode_checkpoint(bytes);
  EXPECT_EQ(read.info.major, 1);
  EXPECT_EQ(read.info.minor, 0);
  EXPECT_EQ(read.info.state_hash, kStateHashOfFormat1);
  const StateDict wanted = state_of_format_1();
  ASSERT_EQ(read.state.values().size(), wanted.values().size());
  for (const auto& [name, value] : wanted.values()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(read.state.contains(name));
    const StateDict::Value& got = read.state.values().at(name);
    ASSERT_EQ(got.index(), value.index());
    if (const auto* tensor = std::get_if<Tensor>(&value)) {
      const Tensor& other = std::get<Tensor>(got);
      EXPECT_EQ(other.dtype(), tensor->dtype());
      ASSERT_EQ(other.shape(), tensor->shape());
      for (std::int64_t i = 0; i < tensor->numel(); ++i) EXPECT_EQ(other.at(i), tensor->at(i));
    }
  }
  EXPECT_EQ(read.state.number("amp/scale"), 65536.0);
  EXPECT_EQ(read.state.integer("progress/step"), 500);
  EXPECT_EQ(read.state.text("sched/kind"), "cosine");
  EXPECT_EQ(read.state.integers("data/quarantine"), (StateDict::Integers{5, -7}));
  EXPECT_EQ(read.state.numbers("guard/window"), (StateDict::Numbers{0.5, -1e300}));
}

/// Sets an integer attribute of /format as another version would have written it, and corrects all checksums.
void forge(std::span<std::byte> image, const std::string& name, std::int64_t value) {
  const auto text = std::as_bytes(std::span(name.c_str(), name.size() + 1));
  const auto found = std::search(image.begin(), image.end(), text.begin(), text.end());
  ASSERT_NE(found, image.end());
  const auto at = static_cast<std::size_t>(found - image.begin());
  // An attribute message has the sizes of name, type and space (2 bytes each), a byte, then name, type, space and
  // value.
  std::uint16_t sizes[3];
  std::memcpy(sizes, image.data() + at - 7, sizeof(sizes));
  ASSERT_EQ(sizes[0], name.size() + 1);
  // The attribute is in a checksummed block. It begins at the last signature before `at`; its end is where the checksum
  // matches.
  std::size_t begin = at;
  while (std::memcmp(image.data() + begin, "OHDR", 4) != 0 && std::memcmp(image.data() + begin, "OCHK", 4) != 0)
    --begin;
  const auto sum_at = [&](std::size_t end) {
    std::uint32_t sum = 0;
    std::memcpy(&sum, image.data() + end, sizeof(sum));
    return sum;
  };
  std::size_t end = at;
  while (lookup3(std::span<const std::byte>(image).subspan(begin, end - begin)) != sum_at(end)) ++end;
  std::memcpy(image.data() + at + sizes[0] + sizes[1] + sizes[2], &value, sizeof(value));
  const std::uint32_t sum = lookup3(std::span<const std::byte>(image).subspan(begin, end - begin));
  std::memcpy(image.data() + end, &sum, sizeof(sum));
  const Sha256::Digest digest = layout::guarded_digest(image);
  std::memcpy(image.data() + layout::kDigestAt, digest.data(), digest.size());
}

TEST(CheckpointFormat, ANewerMajorVersionIsRefusedWithTheReason) {
  Bytes bytes = recorded();
  forge(bytes, "major", 2);
  EXPECT_EQ(error_of<CheckpointError>([&] { decode_checkpoint(bytes); }),
            "checkpoint: it has format 2.0, this Binade reads 1.x: use the version that wrote it (binade 0.1.0)");
}

TEST(CheckpointFormat, AnUnknownRequiredFeatureIsRefusedWithTheReason) {
  Bytes bytes = recorded();
  forge(bytes, "required_features", 4);
  EXPECT_EQ(error_of<CheckpointError>([&] { decode_checkpoint(bytes); }),
            "checkpoint: it requires features 0x4 that this Binade does not have: use the version that wrote it "
            "(binade 0.1.0)");
}

TEST(CheckpointFormat, AnUnknownGroupOfANewerVersionIsIgnoredWithAWarning) {
  StateDict state = state_of_format_1();
  state.put("weather/wind", Tensor::full({3}, 7));
  state.put("weather/kind", std::string("storm"));
  CheckpointImage image = encode_checkpoint(state, kStateHashOfFormat1);
  EXPECT_TRUE(decode_checkpoint(image.bytes()).state.contains("weather/wind")) << "in its own version it is the user's";
  forge(image.mutable_bytes(), "minor", 3);
  const DecodedCheckpoint read = decode_checkpoint(image.bytes());
  EXPECT_EQ(read.info.left_out, (std::set<std::string>{"weather"}));
  EXPECT_EQ(read.state.values().size(), state_of_format_1().values().size());
  EXPECT_FALSE(read.state.contains("weather/wind"));

  const ScratchFolder folder;
  folder.write(checkpoint_file_name(500),
               std::string(reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size()));
  std::vector<std::string> warnings;
  StoreOptions options;
  options.warn = [&](const std::string& line) { warnings.push_back(line); };
  CheckpointStore store(folder.path(), options);
  EXPECT_EQ(store.load_newest().step, 500);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "checkpoint ckpt-000000000500.h5: it has format 1.3 and a group /weather that this Binade cannot read; "
            "it is ignored");
}

}  // namespace
TEST(CheckpointFormat, ASectionThatTheProgramRegistersIsReadFromANewerVersion) {
  StateDict state = state_of_format_1();
  state.put("climate/rain", std::int64_t{7});
  CheckpointImage image = encode_checkpoint(state, kStateHashOfFormat1);
  forge(image.mutable_bytes(), "minor", 3);
  EXPECT_FALSE(decode_checkpoint(image.bytes()).state.contains("climate/rain"));
  [[maybe_unused]] const CheckpointSection owner = "climate";
  EXPECT_TRUE(decode_checkpoint(image.bytes()).state.contains("climate/rain"));
}

}  // namespace binade::io
