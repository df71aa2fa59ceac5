// Damaged HDF5 image files. libhdf5 parses arbitrary bytes, so reading must end with data or with a DataError.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <functional>

#include "binade/core/error.h"
#include "binade/core/random.h"
#include "binade/io/data/image_data.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

/// The bytes of a file as h5py writes it by default (`version` H5F_LIBVER_EARLIEST) or with libver="latest"; chunked
/// and compressed, or contiguous.
std::string image_file(const ScratchFolder& folder, H5F_libver_t version, bool compressed) {
  const std::string path = folder.path("whole.h5");
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, version, H5F_LIBVER_LATEST);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hsize_t dims[] = {3, 16, 12}, chunk[] = {1, 8, 8};
  std::vector<std::uint8_t> values(3 * 16 * 12);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * 7);
  for (const char* name : {"images", "masks"}) {
    const hid_t space = H5Screate_simple(3, dims, nullptr), create = H5Pcreate(H5P_DATASET_CREATE);
    if (compressed) {
      H5Pset_chunk(create, 3, chunk);
      H5Pset_shuffle(create);
      H5Pset_deflate(create, 4);
    }
    const hid_t data = H5Dcreate2(file, name, H5T_NATIVE_UINT8, space, H5P_DEFAULT, create, H5P_DEFAULT);
    H5Dwrite(data, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Dclose(data);
    H5Pclose(create);
    H5Sclose(space);
  }
  H5Fclose(file);
  H5Pclose(access);
  return folder.read("whole.h5");
}

/// Random edits, half of them in the first kilobytes, where the metadata is.
std::string mutate(std::string bytes, const RandomStream& stream) {
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(stream.below(draw++, n)); };
  for (std::size_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) {
    const std::size_t at = below(below(2) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 2048));
    switch (below(10)) {
      case 0: bytes.resize(at); break;
      case 1: bytes.replace(at, 1, 1, '\xff'); break;
      case 2: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      default: bytes[at] = static_cast<char>(below(256));
    }
  }
  return bytes;
}

bool accepted(const std::string& path) {
  try {
    read_image_file(path, {.classes = 256});
    return true;
  } catch (const DataError&) {
    return false;
  }
}

TEST(HostileImageFile, ADamagedFileGivesDataOrADataError) {
  const ScratchFolder folder;
  int seed = 0;
  for (const H5F_libver_t version : {H5F_LIBVER_EARLIEST, H5F_LIBVER_V18})
    for (const bool compressed : {false, true}) {
      const std::string whole = image_file(folder, version, compressed);
      ASSERT_TRUE(accepted(folder.path("whole.h5"))) << "version " << version << " compressed " << compressed;
      int refused = 0;
      for (int i = 0; i < 150; ++i, ++seed) {
        const RandomStream stream{.seed = static_cast<std::uint64_t>(seed)};
        refused += !accepted(folder.write("damaged.h5", mutate(whole, stream)));
      }
      EXPECT_GT(refused, 10) << "the edits reach the structure";
    }
}

TEST(HostileImageFile, ASmallFileThatClaimsTerabytesIsRefused) {
  const ScratchFolder folder;
  const std::string path = folder.path("bomb.h5");
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t dims[] = {1, 1 << 17, 1 << 17}, chunk[] = {1, 64, 64};
  const hid_t space = H5Screate_simple(3, dims, nullptr), create = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(create, 3, chunk);
  for (const char* name : {"images", "masks"})
    H5Dclose(H5Dcreate2(file, name, H5T_NATIVE_UINT8, space, H5P_DEFAULT, create, H5P_DEFAULT));
  H5Pclose(create);
  H5Sclose(space);
  H5Fclose(file);
  const std::string why = error_of<DataError>([&] { read_image_file(path); });
  EXPECT_NE(why.find("it declares 17179869184 elements and holds 0 bytes"), why.npos) << why;
}

/// A file with "masks" in it, and "images" made by `add`.
std::string file_with(const ScratchFolder& folder, const std::function<void(hid_t)>& add) {
  const std::string path = folder.path("links.h5");
  const hid_t file = H5Fopen((image_file(folder, H5F_LIBVER_V18, false), folder.path("whole.h5").c_str()), H5F_ACC_RDWR,
                             H5P_DEFAULT);
  H5Lmove(file, "images", file, "kept", H5P_DEFAULT, H5P_DEFAULT);
  add(file);
  H5Fclose(file);
  std::filesystem::rename(folder.path("whole.h5"), path);
  return path;
}

/// "images" whose values are stored outside the file.
void add_dataset(hid_t file, const std::function<void(hid_t, hid_t)>& elsewhere) {
  const hsize_t dims[] = {3, 16, 12};
  const hid_t space = H5Screate_simple(3, dims, nullptr), create = H5Pcreate(H5P_DATASET_CREATE);
  elsewhere(create, space);
  H5Dclose(H5Dcreate2(file, "images", H5T_NATIVE_UINT8, space, H5P_DEFAULT, create, H5P_DEFAULT));
  H5Pclose(create);
  H5Sclose(space);
}

TEST(HostileImageFile, LinksToOtherFilesAreNotOpened) {
  const ScratchFolder folder;
  image_file(folder, H5F_LIBVER_V18, false);
  std::filesystem::rename(folder.path("whole.h5"), folder.path("target"));
  const std::string regular = folder.path("target"), fifo = folder.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& target : {regular, fifo}) {
    const char* other = target.c_str();
    const std::pair<const char*, std::function<void(hid_t)>> kinds[] = {
        {"an external link",
         [&](hid_t file) { H5Lcreate_external(other, "/images", file, "images", H5P_DEFAULT, H5P_DEFAULT); }},
        {"an external link",
         [&](hid_t file) {
           H5Lcreate_external(other, "/images", file, "out", H5P_DEFAULT, H5P_DEFAULT);
           H5Lcreate_soft("out", file, "images", H5P_DEFAULT, H5P_DEFAULT);
         }},
        {"an external link",
         [&](hid_t file) {
           const hid_t group = H5Gcreate2(file, "inner", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
           H5Lcreate_external(other, "/", group, "out", H5P_DEFAULT, H5P_DEFAULT);
           H5Gclose(group);
           H5Lcreate_soft("/inner/./out/images", file, "images", H5P_DEFAULT, H5P_DEFAULT);
         }},
        {"in other files",
         [&](hid_t file) {
           add_dataset(file, [&](hid_t create, hid_t) { H5Pset_external(create, other, 0, 3 * 16 * 12); });
         }},
        {"in other files",
         [&](hid_t file) {
           add_dataset(file, [&](hid_t create, hid_t space) { H5Pset_virtual(create, space, other, "images", space); });
         }},
    };
    for (const auto& [word, add] : kinds) {
      const std::string path = file_with(folder, add);
      const std::string why = error_of<DataError>([&] { read_image_file(path, {.classes = 256}); });
      EXPECT_NE(why.find(word), why.npos) << why;
      EXPECT_NE(why.find("links.h5"), why.npos) << why;
    }
  }
}

TEST(HostileImageFile, SoftLinksInsideTheFileAreFollowedALimitedNumberOfTimes) {
  const ScratchFolder folder;
  const std::string inside = file_with(folder, [](hid_t file) {
    const hid_t group = H5Gcreate2(file, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/kept", group, "b", H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
    H5Lcreate_soft("a/b", file, "images", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_EQ(read_image_file(inside, {.classes = 256}).samples.size(), 3u);
  const std::string loop = file_with(folder, [](hid_t file) {
    H5Lcreate_soft("images", file, "images", H5P_DEFAULT, H5P_DEFAULT);
  });
  const std::string why = error_of<DataError>([&] { read_image_file(loop); });
  EXPECT_NE(why.find("soft links"), why.npos) << why;
}

TEST(HostileImageFile, ADeviceIsRefusedWithoutWaiting) {
  const ScratchFolder folder;
  const std::string why = error_of<DataError>([&] { read_image_file("/dev/zero"); });
  EXPECT_NE(why.find("regular file"), why.npos) << why;
}

}  // namespace
}  // namespace binade::io
