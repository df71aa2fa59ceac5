#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "binade/core/error.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/checkpoint/hdf5_profile.h"
#include "binade/io/files/forwarding_file_ops.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

/// A tensor of random bytes (bool: 0 and 1), so that every bit pattern occurs: NaN payloads, infinities, subnormals,
/// negative zero.
Tensor noise(const Shape& shape, DType dtype, unsigned seed) {
  Tensor t = Tensor::empty(shape, dtype);
  std::mt19937 random(seed);
  auto* bytes = t.bytes() == 0 ? nullptr : static_cast<unsigned char*>(t.mutable_raw());
  for (std::size_t i = 0; i < t.bytes(); ++i)
    bytes[i] = static_cast<unsigned char>(dtype == DType::boolean ? random() & 1 : random());
  return t;
}

/// A state with an entry of every kind and dtype, and with unusual sizes.
StateDict everything(unsigned seed = 1) {
  StateDict state;
  for (const DType d :
       {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u8, DType::boolean})
    state.put("model/blocks.0." + std::string(name_of(d)), noise({3, 5, 7}, d, seed + static_cast<unsigned>(d)));
  state.put("model/scalar", noise({}, DType::f32, seed));
  state.put("model/empty", Tensor::empty({0, 4}));
  state.put("model/wide", noise({2, 2, 2, 2, 1, 1, 1, 2}, DType::f16, seed));
  state.put("optim/moment/first", noise({100, 33}, DType::f32, seed + 9));
  state.put("progress/step", std::int64_t{500});
  state.put("progress/lowest", std::numeric_limits<std::int64_t>::min());
  state.put("amp/scale", 65536.0);
  state.put("amp/minus_zero", -0.0);
  state.put("sched/kind", std::string("cosine"));
  state.put("sched/empty", std::string());
  state.put("sched/utf8", std::string("Größe ∞"));
  state.put("sched/embedded", std::string("a\0b", 3));
  state.put("sched/long", std::string(100000, 'x'));
  state.put("data/quarantine", StateDict::Integers{5, -7, 1 << 30});
  state.put("data/none", StateDict::Integers{});
  state.put("guard/window", StateDict::Numbers{0.5, -1e300, 5e-324});
  state.put("guard/no_numbers", StateDict::Numbers{});
  state.put("guard/long", StateDict::Numbers(5000, 1.25));
  state.put("data/long", StateDict::Integers(5000, -3));
  return state;
}

void expect_same(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.values().size(), b.values().size());
  for (const auto& [name, value] : a.values()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(b.contains(name));
    const StateDict::Value& other = b.values().at(name);
    ASSERT_EQ(value.index(), other.index());
    if (const auto* t = std::get_if<Tensor>(&value)) {
      const Tensor& u = std::get<Tensor>(other);
      ASSERT_EQ(t->dtype(), u.dtype());
      ASSERT_EQ(t->shape(), u.shape());
      if (t->bytes() > 0) {
        EXPECT_EQ(std::memcmp(t->raw(), u.raw(), t->bytes()), 0);
      }
    } else if (const auto* d = std::get_if<double>(&value)) {
      EXPECT_EQ(std::bit_cast<std::uint64_t>(*d), std::bit_cast<std::uint64_t>(std::get<double>(other)));
    } else {
      EXPECT_TRUE(value.index() == 0 || value.index() == 2 ||
                  std::visit(
                      [&](const auto& x) {
                        using T = std::decay_t<decltype(x)>;
                        if constexpr (std::is_same_v<T, Tensor>)
                          return true;
                        else
                          return x == std::get<T>(other);
                      },
                      value));
    }
  }
}

const std::string kHash(64, 'a');

TEST(CheckpointFile, StoresEveryKindAndDtypeExactly) {
  const StateDict state = everything();
  const CheckpointImage image = encode_checkpoint(state, kHash);
  const DecodedCheckpoint back = decode_checkpoint(image.bytes());
  expect_same(state, back.state);
  EXPECT_EQ(back.info.state_hash, kHash);
  EXPECT_EQ(back.info.major, kCheckpointMajor);
  EXPECT_EQ(back.info.bytes, image.bytes().size());
  EXPECT_EQ(verify_checkpoint(image.bytes()).manifest, back.info.manifest);
}

TEST(CheckpointFile, SameStateGivesSameBytes) {
  const CheckpointImage a = encode_checkpoint(everything(), kHash);
  ::sleep(1);  // the files would differ if they had a timestamp
  const CheckpointImage b = encode_checkpoint(everything(), kHash);
  ASSERT_EQ(a.bytes().size(), b.bytes().size());
  EXPECT_EQ(std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()), 0);
}

TEST(CheckpointFile, SlicesAreStoredWithoutTheRestOfTheirStorage) {
  Tensor whole = noise({4, 6}, DType::f32, 3);
  StateDict sliced, copied;
  sliced.put("model/x", whole.channel_slice(2, 3));
  copied.put("model/x", whole.channel_slice(2, 3).clone());
  const CheckpointImage a = encode_checkpoint(sliced, ""), b = encode_checkpoint(copied, "");
  ASSERT_EQ(a.bytes().size(), b.bytes().size());
  EXPECT_EQ(std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()), 0);
}

TEST(CheckpointFile, ManyTensorsInOneGroup) {
  StateDict state;
  for (int i = 0; i < 1500; ++i)
    state.put("model/blocks." + std::to_string(i) + ".attention.query.weight", Tensor::full({2}, i));
  for (int i = 0; i < 600; ++i) state.put("sched/value." + std::to_string(i), std::int64_t{i});
  const CheckpointImage image = encode_checkpoint(state, "");
  expect_same(state, decode_checkpoint(image.bytes()).state);
}

TEST(CheckpointFile, StatesBeyondTheLimitsOfReadersAreNotWritten) {
  StateDict many;
  const Tensor one = Tensor::zeros({1});
  for (int i = 0; i < 65536; ++i) many.put("model/" + std::to_string(i), one);
  EXPECT_THAT(error_of<ArgumentError>([&] { encode_checkpoint(many, ""); }),
              ::testing::HasSubstr("at most 65536, got 65541"));
  StateDict values;
  for (int i = 0; i < 1025; ++i) values.put("sched/" + std::to_string(i), std::int64_t{i});
  EXPECT_THAT(error_of<ArgumentError>([&] { encode_checkpoint(values, ""); }),
              ::testing::HasSubstr("at most 1024, got 1025"));
}

/// Counts the bytes read.
class CountingOps final : public ForwardingFileOps {
 public:
  CountingOps() : ForwardingFileOps(FileOps::real()) {}
  int read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) override {
    const int error = ForwardingFileOps::read_at(file, offset, bytes, got);
    read += got;
    return error;
  }
  std::size_t read = 0;
};

TEST(CheckpointFile, OfOtherFilesOnlyTheFirstBytesAreRead) {
  const ScratchFolder folder;
  const auto refusal = [&](const std::string& begin) {
    std::filesystem::resize_file(folder.write("large.h5", begin), std::uintmax_t{64} << 20);
    CountingOps ops;
    const FileHandle handle = open_folder(ops, folder.path());
    const std::string why = error_of<NoCheckpointError>(
        [&] { read_checkpoint_image(ops, handle.get(), "large.h5", std::uint64_t{1} << 40, "large.h5"); });
    EXPECT_LE(ops.read, kUserBlockBytes) << why;
    return why;
  };
  EXPECT_THAT(refusal(""), ::testing::HasSubstr("large.h5: not a Binade checkpoint"));
  const CheckpointImage image = encode_checkpoint(everything(), kHash);
  EXPECT_THAT(refusal({reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size()}),
              ::testing::HasSubstr("large.h5: it is longer than it was"));
}

TEST(CheckpointFile, TruncationAtAnyLengthIsDetected) {
  const CheckpointImage image = encode_checkpoint(everything(), kHash);
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    const std::size_t length = random() % image.bytes().size();
    EXPECT_THROW(decode_checkpoint(image.bytes().first(length)), NoCheckpointError) << length;
  }
  std::vector<std::byte> longer(image.bytes().begin(), image.bytes().end());
  longer.push_back(std::byte{0});
  EXPECT_THROW(decode_checkpoint(longer), NoCheckpointError);
}

TEST(CheckpointFile, AnyFlippedBitIsDetected) {
  const CheckpointImage image = encode_checkpoint(everything(), kHash);
  std::vector<std::byte> bytes(image.bytes().begin(), image.bytes().end());
  std::mt19937 random(6);
  const auto flipped_is_refused = [&](std::size_t bit) {
    const std::byte mask{static_cast<unsigned char>(1u << (bit % 8))};
    bytes[bit / 8] ^= mask;
    EXPECT_THROW(verify_checkpoint(bytes), Error) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  };
  for (std::size_t bit = 0; bit < 64 * 8; ++bit) flipped_is_refused(bit);  // every bit of the user block's header
  for (int i = 0; i < 500; ++i) flipped_is_refused(random() % (8 * bytes.size()));
  EXPECT_NO_THROW(verify_checkpoint(bytes));
}

/// A block of metadata whose last four bytes are its checksum: superblock, object header or continuation.
struct Block {
  std::size_t begin, size;
};
std::vector<Block> metadata_blocks(std::span<const std::byte> image) {
  std::vector<Block> blocks = {{kUserBlockBytes, 48}};
  const auto number = [&](std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, image.data() + at, size);
    return value;
  };
  for (std::size_t at = kUserBlockBytes; at + 20 < image.size(); ++at) {
    if (std::memcmp(image.data() + at, "OHDR", 4) != 0) continue;
    const auto flags = static_cast<unsigned>(image[at + 5]);
    const std::size_t width = std::size_t{1} << (flags & 3), prefix = 6 + ((flags & 0x10) != 0 ? 4 : 0);
    const std::size_t size = prefix + width + number(at + prefix, width) + 4;
    if (at + size > image.size()) continue;
    blocks.push_back({at, size});
    for (std::size_t m = at + prefix + width; m + 4 <= at + size - 4; m += 4 + number(m + 1, 2))
      if (image[m] == std::byte{0x10}) blocks.push_back({kUserBlockBytes + number(m + 4, 8), number(m + 12, 8)});
  }
  return blocks;
}

TEST(CheckpointFile, AForgedStructureWithRightChecksumsIsRefusedOrReadSafely) {
  // An attacker can correct the checksums too, and then only the checks of the structure protect the loader. Every
  // forged image must be refused or read without invalid accesses, which sanitizer builds detect.
  const CheckpointImage image = encode_checkpoint(everything(), kHash);
  const std::vector<Block> blocks = metadata_blocks(image.bytes());
  ASSERT_GT(blocks.size(), 20u);
  std::mt19937 random(7);
  int refused = 0, read = 0;
  const int rounds = 20000;
  for (int i = 0; i < rounds; ++i) {
    std::vector<std::byte> bytes(image.bytes().begin(), image.bytes().end());
    const Block block = blocks[random() % blocks.size()];
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < changes; ++k) {
      const std::size_t at = block.begin + random() % (block.size - 4);
      constexpr unsigned char kAwkward[] = {0, 1, 2, 3, 0x10, 0x7f, 0x80, 0xff};
      bytes[at] = std::byte{random() % 2 ? kAwkward[random() % std::size(kAwkward)]
                                         : static_cast<unsigned char>(random())};
      if (random() % 4 == 0 && at + 8 < block.begin + block.size - 4)
        std::memset(bytes.data() + at, random() % 2 ? 0xff : 0, 8);
    }
    const std::uint32_t sum = lookup3(std::span(bytes).subspan(block.begin, block.size - 4));
    std::memcpy(bytes.data() + block.begin + block.size - 4, &sum, 4);
    try {
      const StoredTree tree = read_profile(bytes, kUserBlockBytes);
      for (const auto& [name, dataset] : tree.datasets)
        ASSERT_TRUE(dataset.bytes.empty() ||
                    (dataset.bytes.data() >= bytes.data() &&
                     dataset.bytes.data() + dataset.bytes.size() <= bytes.data() + bytes.size()));
      ++read;
    } catch (const NoCheckpointError&) {
      ++refused;
    }
  }
  std::printf("%d forged images: %d refused, %d read\n", rounds, refused, read);
  EXPECT_GT(refused, rounds / 2);
}

TEST(CheckpointFile, ForeignFilesAreRefusedAsNoCheckpoint) {
  const auto message = [](const std::string& content) {
    try {
      decode_checkpoint(std::as_bytes(std::span(content)));
    } catch (const NoCheckpointError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(message("").find("not a Binade checkpoint"), std::string::npos);
  EXPECT_NE(message(std::string(4096, 'x')).find("not a Binade checkpoint"), std::string::npos);
  EXPECT_NE(message("\x89HDF\r\n\x1a\n").find("not a Binade checkpoint"), std::string::npos);
}

TEST(CheckpointFile, InvalidEntryNamesAreRefused) {
  for (const char* name :
       {"model/", "/x", "plain", "format/x", "manifest/x", "model/a\nb", "model/..", "model/\xff", "a/b/c/d/e/f/g"}) {
    StateDict state;
    state.put(name, std::int64_t{1});
    EXPECT_THROW(encode_checkpoint(state, ""), ArgumentError) << name;
  }
  StateDict clash;
  clash.put("model/x", std::int64_t{1});
  clash.put("model/x/y", std::int64_t{1});
  EXPECT_THROW(encode_checkpoint(clash, ""), ArgumentError);
}

int run(const std::string& command) { return std::system((command + " > /dev/null 2>&1").c_str()); }

TEST(CheckpointFile, StockToolsReadIt) {
  const ScratchFolder folder;
  const std::string path = folder.path("ckpt.h5");
  StateDict state = everything();
  const std::vector<float> values = {1.5f, -2.0f, 0x1p-14f};
  state.put("model/known.f16", Tensor::from<float>(values, {3}).to(DType::f16));
  state.put("model/known.bf16", Tensor::from<float>(values, {3}).to(DType::bf16));
  const CheckpointImage image = encode_checkpoint(state, kHash);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(image.bytes().data()), static_cast<std::streamsize>(image.bytes().size()));
  if (run("h5dump --version") == 0) {
    EXPECT_EQ(run("h5dump " + path), 0);
    EXPECT_EQ(run("h5dump -d /model/known.f16 " + path + " | grep -q '1.5, -2, 6.10352e-05'"), 0);
  }
  const char* given = std::getenv("BINADE_PYTHON");
  const std::string python = given != nullptr ? given : "/usr/bin/python3";
  ASSERT_EQ(run(python + " -c 'import h5py'"), 0) << python << " (BINADE_PYTHON) cannot import h5py; run ./dev setup";
  const std::string script = folder.path("read.py");
  std::ofstream(script)
      << "import h5py, sys\n"
         "f = h5py.File('"
      << path
      << "', 'r')\n"
         "assert sorted(f) == sorted(['amp','data','format','guard','manifest','model','optim','progress','sched'])\n"
         "for name in ('known.f16', 'known.bf16'):\n"
         "    assert f['model/' + name][:].tolist() == [1.5, -2.0, 2.0 ** -14], name\n"
         "assert f['model/known.f16'].dtype == 'float16'\n"
         "assert f['model/known.bf16'].attrs['dtype'] in (b'bf16', 'bf16')\n"
         "assert f['optim/moment/first'].shape == (100, 33)\n"
         "assert f['model/empty'].shape == (0, 4)\n"
         "assert f['progress'].attrs['step'] == 500 and f['amp'].attrs['scale'] == 65536.0\n"
         "assert f['sched'].attrs['kind'] in (b'cosine', 'cosine')\n"
         "assert list(f['data'].attrs['quarantine']) == [5, -7, 1 << 30]\n"
         "assert f['guard/long'][4999] == 1.25\n"
         "assert f.userblock_size == 512\n";
  EXPECT_EQ(run(python + " " + script), 0);
}

}  // namespace
}  // namespace binade::io
