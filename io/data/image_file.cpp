#include <algorithm>
#include <cmath>

#include "binade/core/error.h"
#include "binade/io/checkpoint/hdf5.h"
#include "binade/io/data/image_data.h"
#include "binade/io/files/containment.h"
#include "binade/io/files/read_file.h"

namespace binade::io {
namespace {

constexpr double kMostElements = 0x1p36;

struct Dataset {
  hdf5::Handle id;
  std::vector<std::int64_t> dims;
  H5T_class_t kind = H5T_NO_CLASS;
  std::size_t bytes = 0;  // size of one element in the file
};

/// Returns the path of the same object through hard links only. The library would follow a link into any file, even a
/// FIFO, so the type of each link is checked first; soft links are replaced by their targets.
std::string hard_path(hid_t file, const std::string& name, const std::string& what) {
  constexpr int kMostSoftLinks = 16;
  int soft_links = 0;
  std::string resolved;
  for (std::string rest = name; !rest.empty();) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string part = rest.substr(0, slash);
    rest.erase(0, slash + 1);
    if (part.empty() || part == ".") continue;
    const std::string at = resolved + "/" + part;
    H5L_info_t link{};
    check<DataError>(H5Lexists(file, at.c_str(), H5P_DEFAULT) > 0, "{} is missing; wanted \"images\" and \"masks\"",
                     what);
    hdf5::checked(H5Lget_info(file, at.c_str(), &link, H5P_DEFAULT), what);
    if (link.type == H5L_TYPE_HARD) {
      resolved = at;
      continue;
    }
    check<DataError>(
        link.type == H5L_TYPE_SOFT,
        "{} is reached by \"{}\", an external link; links to other files are not followed: copy the dataset", what, at);
    check<DataError>(++soft_links <= kMostSoftLinks, "{} is reached by more than {} soft links", what, kMostSoftLinks);
    std::string target(link.u.val_size, '\0');  // includes the final zero byte
    hdf5::checked(H5Lget_val(file, at.c_str(), target.data(), target.size(), H5P_DEFAULT), what);
    target.resize(std::min(target.find('\0'), target.size()));
    if (target.starts_with('/')) resolved.clear();
    rest = target + "/" + rest;
  }
  return resolved.empty() ? "/" : resolved;
}

Dataset open_dataset(const hdf5::Handle& file, const std::string& path, const char* name) {
  const std::string what = path + ": dataset \"" + name + "\"";
  const std::string at = hard_path(file.get(), name, what);
  Dataset data;
  data.id = hdf5::own(H5Dopen2(file.get(), at.c_str(), H5P_DEFAULT), H5Dclose, what);
  const auto plist = hdf5::own(H5Dget_create_plist(data.id.get()), H5Pclose, what);
  check<DataError>(H5Pget_external_count(plist.get()) == 0 && H5Pget_layout(plist.get()) != H5D_VIRTUAL,
                   "{} keeps its values in other files, which are not followed", what);
  const auto space = hdf5::own(H5Dget_space(data.id.get()), H5Sclose, what);
  const int rank = hdf5::checked(H5Sget_simple_extent_ndims(space.get()), what);
  check<DataError>(rank == 3 || rank == 4, "{}: wanted (N, H, W) or (N, H, W, C), got rank {}", what, rank);
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  hdf5::checked(H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr), what);
  double elements = 1;
  for (const hsize_t extent : dims) {
    elements *= static_cast<double>(extent);
    data.dims.push_back(static_cast<std::int64_t>(extent));
  }
  check<DataError>(elements >= 1, "{}: wanted at least one element, got an empty dataset", what);
  check<DataError>(elements <= kMostElements, "{}: wanted at most 2^36 elements, got {}", what, elements);
  // Deflate packs at most 1032 bytes into one. Without this check a file of a kilobyte could declare terabytes.
  const double possible = 1032.0 * static_cast<double>(H5Dget_storage_size(data.id.get()));
  check<DataError>(elements <= possible, "{}: it declares {} elements and holds {} bytes", what, elements,
                   H5Dget_storage_size(data.id.get()));
  const auto type = hdf5::own(H5Dget_type(data.id.get()), H5Tclose, what);
  data.kind = H5Tget_class(type.get());
  if (data.kind == H5T_ENUM) data.kind = H5T_INTEGER;  // h5py writes bool as an enumeration
  data.bytes = H5Tget_size(type.get());
  check<DataError>(data.kind == H5T_INTEGER || data.kind == H5T_FLOAT, "{}: wanted numbers, got another type", what);
  return data;
}

/// Reads item n of a dataset (index n of the first dimension); the library converts its values to `memory_type`.
template <class T>
std::vector<T> read_item(const Dataset& data, std::int64_t n, hid_t memory_type, const std::string& what) {
  std::vector<hsize_t> start(data.dims.size(), 0);
  std::vector<hsize_t> count(data.dims.begin(), data.dims.end());
  start[0] = static_cast<hsize_t>(n);
  count[0] = 1;
  std::size_t elements = 1;
  for (const hsize_t extent : count) elements *= extent;
  const auto space = hdf5::own(H5Dget_space(data.id.get()), H5Sclose, what);
  hdf5::checked(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), what);
  const hsize_t flat = elements;
  const auto memory = hdf5::own(H5Screate_simple(1, &flat, nullptr), H5Sclose, what);
  std::vector<T> values(elements);
  hdf5::checked(H5Dread(data.id.get(), memory_type, memory.get(), space.get(), H5P_DEFAULT, values.data()), what);
  return values;
}

/// Header that the child process sends before the values of the two datasets.
struct Contents {
  std::int64_t count = 0, height = 0, width = 0, channels = 0;
  std::int64_t image_bytes = 0, mask_bytes = 0;  // sizes of one element in the file
  bool images_are_floats = false;

  std::size_t pixels() const { return static_cast<std::size_t>(height * width); }
  /// Divisor of the values: 255 for u8, 65535 for u16, 1 for floats.
  float scale() const { return images_are_floats ? 1.0f : image_bytes == 1 ? 255.0f : 65535.0f; }
};

void check_pair(const Dataset& images, const Dataset& masks, const std::string& path, int wanted_channels) {
  const std::int64_t channels = images.dims.size() == 4 ? images.dims[3] : 1;
  check<DataError>(channels == 1 || channels == 3, "{}: \"images\": wanted 1 or 3 channels in the last place, got {}",
                   path, channels);
  check<DataError>(masks.dims.size() == 3 || masks.dims[3] == 1, "{}: \"masks\": wanted one channel, got {}", path,
                   masks.dims.back());
  check<DataError>(wanted_channels == 0 || wanted_channels == channels, "{}: \"images\": wanted {} channels, got {}",
                   path, wanted_channels, channels);
  for (std::size_t i = 0; i < 3; ++i)
    check<DataError>(images.dims[i] == masks.dims[i],
                     "{}: \"masks\" must have the images' extents: axis {} is {}, wanted {}", path, i, masks.dims[i],
                     images.dims[i]);
  check<DataError>(masks.kind == H5T_INTEGER, "{}: \"masks\": wanted integers, got floating point numbers", path);
  check<DataError>(images.kind == H5T_FLOAT || images.bytes <= 2,
                   "{}: \"images\": wanted u8, u16 or float, got integers of {} bytes", path, images.bytes);
}

/// Runs in the child process on an open file: sends Contents, every mask as int32, then every image as float.
void send_datasets(const std::string& path, int descriptor, int wanted_channels, const Containment::Send& send) {
  hdf5::disable_plugins();
  // The path of the descriptor leads to the same file even if the name was replaced.
  const std::string same_file = fmt::format("/proc/self/fd/{}", descriptor);
  const auto file = hdf5::own(H5Fopen(same_file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose,
                              path + ": wanted a folder with images/ and masks/ or an HDF5 file");
  const Dataset images = open_dataset(file, path, "images");
  const Dataset masks = open_dataset(file, path, "masks");
  check_pair(images, masks, path, wanted_channels);
  const Contents contents{.count = images.dims[0],
                          .height = images.dims[1],
                          .width = images.dims[2],
                          .channels = images.dims.size() == 4 ? images.dims[3] : 1,
                          .image_bytes = static_cast<std::int64_t>(images.bytes),
                          .mask_bytes = static_cast<std::int64_t>(masks.bytes),
                          .images_are_floats = images.kind == H5T_FLOAT};
  send(&contents, sizeof contents);
  for (std::int64_t n = 0; n < contents.count; ++n) {
    const auto ids = read_item<std::int32_t>(masks, n, H5T_NATIVE_INT32, path + ": \"masks\"");
    send(ids.data(), ids.size() * sizeof ids[0]);
  }
  for (std::int64_t n = 0; n < contents.count; ++n) {
    const auto values = read_item<float>(images, n, H5T_NATIVE_FLOAT, path + ": \"images\"");
    send(values.data(), values.size() * sizeof values[0]);
  }
}

/// Converts mask values to class ids in place; in a binary mask a value above `threshold` is 1. Throws DataError.
void to_class_ids(std::vector<std::int32_t>& ids, int classes, std::int32_t threshold, const std::string& name) {
  for (std::int32_t& id : ids) {
    if (classes == 1)
      id = id > threshold;
    else
      check<DataError>(id >= 0 && id < classes, "{}: wanted class ids 0 to {}, got {}", name, classes - 1, id);
  }
}

ContainmentLimits limits_for(std::uint64_t file_bytes) {
  constexpr std::uint64_t kBytesPerSecond = 4u << 20;  // slowest decompression of file bytes (with a sanitizer)
  constexpr std::uint64_t kSlowestDisk = 1u << 20;     // bytes per second from a busy network disk
  return {.seconds = 2 + file_bytes / kBytesPerSecond,
          .wall_seconds = 120 + file_bytes / kSlowestDisk,
          .memory = (std::uint64_t{1} << 30) + 8 * file_bytes};
}

}  // namespace

ImageSet read_image_file(const std::string& path, const ImageReadOptions& options) {
  const RegularFile file(path);
  const hdf5::QuietErrors quiet;  // keeps other threads out of the library during the fork
  Containment child(path, limits_for(file.bytes()), [&](const Containment::Send& send) {
    send_datasets(path, file.descriptor(), options.channels, send);
  });
  Contents contents;
  child.take(&contents, sizeof contents);
  const bool plausible = contents.count >= 1 && contents.height >= 1 && contents.width >= 1 &&
                         (contents.channels == 1 || contents.channels == 3) &&
                         static_cast<double>(contents.count) * static_cast<double>(contents.height) *
                                 static_cast<double>(contents.width) <=
                             kMostElements;
  check<DataError>(plausible, "{}: the library that reads it returned impossible extents; it is damaged", path);

  std::vector<std::vector<std::int32_t>> ids(static_cast<std::size_t>(contents.count));
  std::int32_t largest = 0;
  for (std::vector<std::int32_t>& mask : ids) {
    mask.resize(contents.pixels());
    child.take(mask.data(), mask.size() * sizeof mask[0]);
    largest = std::max(largest, *std::ranges::max_element(mask));
  }
  const std::int32_t threshold = largest <= 1 ? 0 : contents.mask_bytes == 1 ? 127 : 127 * 257;

  ImageSet set;
  set.classes = options.classes;
  set.channels = static_cast<int>(contents.channels);
  std::vector<float> values(contents.pixels() * static_cast<std::size_t>(contents.channels));
  for (std::size_t n = 0; n < ids.size(); ++n) {
    to_class_ids(ids[n], options.classes, threshold, fmt::format("{}: \"masks\", mask {}", path, n));
    child.take(values.data(), values.size() * sizeof values[0]);
    for (float& value : values) {
      check<DataError>(std::isfinite(value), "{}: \"images\": image {} holds a number that is not finite", path, n);
      value /= contents.scale();
    }
    ImageSample sample;
    sample.name = std::to_string(n);
    sample.pair = {Tensor::from(values, {contents.height, contents.width, contents.channels}),
                   Tensor::from(ids[n], {contents.height, contents.width}).to(DType::u8)};
    ids[n] = {};
    if (options.normalize) normalize(sample.pair.image);
    sample.content = content_of(sample.pair);
    set.samples.push_back(std::move(sample));
  }
  return set;
}

}  // namespace binade::io
