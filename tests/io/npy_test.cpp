#include "binade/io/data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <span>

#include "binade/core/error.h"
#include "binade/io/data/text_data.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Runs NumPy to write the files.
class NumpyFiles : public ::testing::Test {
 protected:
  static void write(const ScratchFolder& folder, const std::string& statements) {
    const char* python = std::getenv("BINADE_PYTHON");
    ASSERT_NE(python, nullptr) << "BINADE_PYTHON names an interpreter with NumPy (./dev setup)";
    const std::string script = folder.write("write.py",
                                            "import numpy as np, os\nos.chdir('" + folder.path() + "')\n" + statements);
    ASSERT_EQ(std::system((std::string(python) + " " + script).c_str()), 0)
        << "is NumPy there? ./dev setup installs it";
  }
};

TEST_F(NumpyFiles, EveryTypeAndVersionKeepsItsValues) {
  const ScratchFolder folder;
  write(folder, R"(
for t in 'f2 f4 f8 i1 i2 i4 i8 u1 u2'.split():
    np.save(t, np.arange(6).reshape(2, 3).astype(t))
np.save('b1', np.array([True, False]))
np.save('negative', np.array([-1, -300], 'i2'))
np.save('scalar', np.float32(2.5))
np.save('empty', np.zeros((3, 0, 2), 'f4'))
np.save('fortran', np.asfortranarray(np.arange(6, dtype='f4').reshape(2, 3)))
for v in (1, 2, 3):
    with open(f'v{v}.npy', 'wb') as f:
        np.lib.format.write_array(f, np.array([1.5, -2], 'f4'), version=(v, 0))
)");
  for (const char* type : {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2"}) {
    const NpyArray a = read_npy(folder.path(std::string(type) + ".npy"));
    EXPECT_EQ(a.type, type);
    EXPECT_EQ(a.values.shape(), (Shape{2, 3})) << type;
    EXPECT_THAT(a.values.to_vector<double>(), ElementsAre(0, 1, 2, 3, 4, 5)) << type;
  }
  EXPECT_EQ(read_npy(folder.path("f2.npy")).values.dtype(), DType::f16);
  EXPECT_EQ(read_npy(folder.path("b1.npy")).values.dtype(), DType::boolean);
  EXPECT_THAT(read_npy(folder.path("negative.npy")).values.to_vector<std::int64_t>(), ElementsAre(-1, -300));
  EXPECT_THAT(read_npy(folder.path("fortran.npy")).values.to_vector<float>(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(read_npy(folder.path("scalar.npy")).values.item(), 2.5);
  EXPECT_EQ(read_npy(folder.path("empty.npy")).values.shape(), (Shape{3, 0, 2}));
  for (const char* name : {"v1.npy", "v2.npy", "v3.npy"})
    EXPECT_THAT(read_npy(folder.path(name)).values.to_vector<float>(), ElementsAre(1.5f, -2.0f)) << name;
}

TEST_F(NumpyFiles, OtherArraysAreRefusedWithARemedy) {
  const ScratchFolder folder;
  write(folder, R"(
np.save('objects', np.array([{}, 'a'], dtype=object), allow_pickle=True)
np.save('big', np.arange(3).astype('>i4'))
np.save('record', np.zeros(2, dtype=[('a', '<i4')]))
np.save('text', np.array(['abc']))
np.save('complex', np.zeros(2, 'c8'))
np.save('wide', np.zeros(2, 'u8'))
np.save('time', np.zeros(2, 'M8[us]'))
np.savez('archive', np.zeros(2))
with open('cut.npy', 'wb') as f:
    np.save(f, np.arange(6))
    f.truncate(f.tell() - 1)
with open('long.npy', 'wb') as f:
    np.save(f, np.arange(6))
    f.write(b'x')
)");
  const auto reason = [&](const std::string& name) {
    return error_of<DataError>([&] { read_npy(folder.path(name)); });
  };
  EXPECT_THAT(reason("objects.npy"), HasSubstr("a pickle is a program"));
  EXPECT_THAT(reason("big.npy"), HasSubstr("a.astype('<i4')"));
  EXPECT_THAT(reason("record.npy"), HasSubstr("records"));
  EXPECT_THAT(reason("text.npy"), HasSubstr("got '<U3'"));
  EXPECT_THAT(reason("complex.npy"), HasSubstr("got '<c8'"));
  EXPECT_THAT(reason("wide.npy"), HasSubstr("got '<u8'"));
  EXPECT_THAT(reason("time.npy"), HasSubstr("got '<M8[us]'"));
  EXPECT_THAT(reason("archive.npz"), HasSubstr("wanted a .npy file"));
  EXPECT_THAT(reason("cut.npy"), HasSubstr("needs 6 values"));
  EXPECT_THAT(reason("long.npy"), HasSubstr("needs 6 values"));
  EXPECT_THAT(reason("missing.npy"), HasSubstr("missing.npy"));
}

TEST_F(NumpyFiles, CanBeTokenFiles) {
  const ScratchFolder folder;
  write(folder, R"(
np.save('tokens', np.array([1, 50256, 7], 'u2'))
np.save('negative', np.array([1, -1]))
np.save('floats', np.zeros(3))
np.save('table', np.zeros((2, 2), 'i4'))
)");
  const TokenSequence tokens = read_token_file(folder.path("tokens.npy"), 50257);
  ASSERT_EQ(tokens.size(), 3);
  EXPECT_EQ(tokens[1], 50256);
  const auto reason = [&](const std::string& name) {
    return error_of<DataError>([&] { read_token_file(folder.path(name), 100); });
  };
  EXPECT_THAT(reason("tokens.npy"), HasSubstr("token 50256 at index 1 is outside the vocabulary of 100"));
  EXPECT_THAT(reason("negative.npy"), HasSubstr("token -1 at index 1"));
  EXPECT_THAT(reason("floats.npy"), HasSubstr("whole numbers in one dimension"));
  EXPECT_THAT(reason("table.npy"), HasSubstr("whole numbers in one dimension"));
}

}  // namespace
}  // namespace binade::io
