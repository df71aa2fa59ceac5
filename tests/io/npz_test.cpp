#include "binade/io/data/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "binade/core/error.h"
#include "binade/io/data/npy.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Runs NumPy in the folder; the test fails if the statements do.
void numpy(const ScratchFolder& folder, const std::string& statements) {
  const char* python = std::getenv("BINADE_PYTHON");
  ASSERT_NE(python, nullptr) << "BINADE_PYTHON names an interpreter with NumPy (./dev setup)";
  const std::string script = folder.write("script.py", "import numpy as np, os, zipfile\nos.chdir('" + folder.path() +
                                                           "')\n" + statements);
  ASSERT_EQ(std::system((std::string(python) + " " + script).c_str()), 0) << statements;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

TEST(Npz, FilesOfNumpyAreReadStoredAndDeflatedInBothOrders) {
  const ScratchFolder folder;
  numpy(folder, R"(
a = {t: np.arange(24).reshape(2, 3, 4).astype(t) for t in 'f2 f4 f8 i1 i2 i4 i8 u1 u2'.split()}
a['b1'] = np.array([True, False])
a['scalar'] = np.float64(2.5)
a['empty'] = np.zeros((3, 0), 'f4')
a['folder/name with blank'] = np.ones(2, 'f4')
np.savez('stored.npz', **a)
np.savez_compressed('deflated.npz', **a)
np.savez('fortran.npz', **{t: np.array(v, order='F') for t, v in a.items()})
np.savez('none.npz')
)");
  const NpzArrays stored = read_npz(folder.path("stored.npz"));
  ASSERT_EQ(stored.size(), 13u);
  EXPECT_EQ(stored.at("f2").dtype(), DType::f16);
  EXPECT_EQ(stored.at("b1").dtype(), DType::boolean);
  EXPECT_EQ(stored.at("i8").dtype(), DType::i64);
  EXPECT_EQ(stored.at("scalar").item(), 2.5);
  EXPECT_EQ(stored.at("empty").shape(), (Shape{3, 0}));
  EXPECT_THAT(stored.at("folder/name with blank").to_vector<float>(), ElementsAre(1, 1));
  for (const char* type : {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2"})
    for (int i = 0; i < 24; ++i) EXPECT_EQ(stored.at(type).at(i), i) << type;
  for (const char* file : {"deflated.npz", "fortran.npz"}) {
    const NpzArrays other = read_npz(folder.path(file));
    ASSERT_EQ(other.size(), stored.size()) << file;
    for (const auto& [name, tensor] : stored) EXPECT_TRUE(same(other.at(name), tensor)) << file << " " << name;
  }
  EXPECT_TRUE(read_npz(folder.path("none.npz")).empty());
}

TEST(Npz, NumpyReadsEveryDtypeThatIsWritten) {
  const ScratchFolder folder;
  NpzArrays arrays;
  for (const DType d : {DType::f64, DType::f32, DType::f16, DType::i64, DType::i32, DType::u8})
    arrays.emplace(std::string(name_of(d)), Tensor::from({0.0, 1.0, 2.0, 100.0, 5.0, 6.0}, {2, 3}).to(d));
  arrays.emplace("bool", Tensor::from({1.0, 0.0}).to(DType::boolean));
  arrays.emplace("bf16", Tensor::from({1.5, -2.0}).to(DType::bf16));
  arrays.emplace("scalar", Tensor::scalar(7));
  arrays.emplace("empty", Tensor::empty({0, 3}));
  arrays.emplace("line", Tensor::from({1.0f, 2.0f, 3.0f}).to(DType::f32));
  write_npz(folder.path("stored.npz"), arrays);
  write_npz(folder.path("deflated.npz"), arrays, {.compress = true});
  write_npz(folder.path("none.npz"), {});
  write_npy(folder.path("one.npy"), arrays.at("f32"));
  numpy(folder, R"(
for name in ('stored.npz', 'deflated.npz'):
    a = np.load(name)
    kinds = {'f64': 'f8', 'f32': 'f4', 'f16': 'f2', 'i64': 'i8', 'i32': 'i4', 'u8': 'u1'}
    for key, kind in kinds.items():
        assert a[key].dtype == np.dtype(kind) and np.array_equal(a[key], [[0, 1, 2], [100, 5, 6]]), key
    assert a['bool'].dtype == np.bool_ and a['bool'].tolist() == [True, False]
    assert a['bf16'].dtype == np.float32 and a['bf16'].tolist() == [1.5, -2]
    assert a['scalar'].shape == () and a['scalar'] == 7
    assert a['empty'].shape == (0, 3) and a['line'].shape == (3,)
    assert len(a.files) == 11
    assert zipfile.ZipFile(name).testzip() is None
    members = zipfile.ZipFile(name).infolist()
    assert all((m.compress_type == zipfile.ZIP_DEFLATED) == (name == 'deflated.npz') or m.file_size < 200 for m in members)
    assert all(m.date_time == (1980, 1, 1, 0, 0, 0) for m in members)
assert np.load('none.npz').files == []
with open('one.npy', 'rb') as f:
    assert np.lib.format.read_magic(f) == (1, 0)
assert os.path.getsize('one.npy') == 128 + 24 and np.load('one.npy').tolist() == [[0, 1, 2], [100, 5, 6]]
)");
  EXPECT_EQ(encode_npz(arrays), encode_npz(arrays));
  const NpzArrays back = read_npz(folder.path("stored.npz"));
  for (const auto& [name, tensor] : arrays) EXPECT_TRUE(name == "bf16" || same(back.at(name), tensor)) << name;
  EXPECT_TRUE(same(back.at("bf16").to(DType::bf16), arrays.at("bf16")));
}

TEST(Npz, OtherFilesAreRefusedWithWords) {
  const ScratchFolder folder;
  numpy(folder, R"(
np.save('one.npy', np.zeros(2))
np.savez('objects.npz', a=np.array([{}], dtype=object))
with zipfile.ZipFile('text.npz', 'w') as z:
    z.writestr('readme.txt', 'text')
with zipfile.ZipFile('bzip2.npz', 'w', zipfile.ZIP_BZIP2) as z:
    z.writestr('a.npy', b'x' * 1000)
)");
  folder.write("short.npz", "PK\x03\x04");
  const auto reason = [&](const char* name) { return error_of<DataError>([&] { read_npz(folder.path(name)); }); };
  EXPECT_THAT(reason("one.npy"), HasSubstr("read_npy()"));
  EXPECT_THAT(reason("objects.npz"), HasSubstr("a pickle is a program"));
  EXPECT_THAT(reason("text.npz"), HasSubstr("readme.txt"));
  EXPECT_THAT(reason("bzip2.npz"), HasSubstr("stored or deflated"));
  EXPECT_THAT(reason("short.npz"), HasSubstr("wanted a zip archive"));
  EXPECT_THAT(reason("missing.npz"), HasSubstr("missing.npz"));
}

TEST(Npz, ChangedAndTruncatedBytesDoNotCrash) {
  const NpzArrays arrays{{"a", Tensor::from({1.0f, 2.0f, 3.0f, 4.0f}, {2, 2})}, {"b", Tensor::full({200}, 3)}};
  for (const bool compress : {false, true}) {
    const std::vector<std::byte> file = encode_npz(arrays, {.compress = compress});
    for (std::size_t n = 0; n < file.size(); ++n)
      EXPECT_THROW(decode_npz(std::span(file).first(n), "cut"), DataError) << n;
    std::mt19937 random(3);
    int refused = 0;
    for (int i = 0; i < 1500; ++i) {
      std::vector<std::byte> changed = file;
      changed[random() % changed.size()] = std::byte{static_cast<unsigned char>(random())};
      try {
        decode_npz(changed, "changed");
      } catch (const DataError&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 700) << compress;
  }
}

TEST(Npz, StatedSizesAreBoundedByTheArchive) {
  std::vector<std::byte> file = encode_npz({{"a", Tensor::zeros({1000})}}, {.compress = true});
  // Sets the uncompressed size in the central directory, which begins with PK\1\2, to 2^32 - 3.
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const std::size_t central = text.find("PK\x01\x02");
  ASSERT_NE(central, std::string_view::npos);
  const std::uint32_t size = 0xfffffffd;
  std::memcpy(file.data() + central + 24, &size, sizeof size);
  EXPECT_THAT(error_of<DataError>([&] { decode_npz(file, "bomb"); }), HasSubstr("more than an archive of"));
}

}  // namespace
}  // namespace binade::io
