#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "binade/core/version.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/checkpoint/hdf5.h"
#include "binade/io/checkpoint/hdf5_profile.h"
#include "binade/io/checkpoint/layout.h"

namespace binade::io {

namespace {

using hdf5::checked;
using hdf5::Handle;
using hdf5::own;

/// Number of links or attributes of an object up to which the library stores them in the object's header. It is so
/// large that the library never uses its other form, dense storage, which the reader does not support.
constexpr unsigned kMostCompact = 65535;

/// The buffer in which the HDF5 library builds a file in memory (a file image). The library grows it through the
/// callbacks below and does not free it when it closes the file. The expected size is allocated first: the library
/// cannot close a file whose image it cannot grow.
struct ImageOwner {
  explicit ImageOwner(std::size_t expected) : bytes(std::malloc(expected)), capacity(expected) {
    check<OutOfMemoryError>(bytes != nullptr, "checkpoint: no memory to build its {} bytes", expected);
  }
  ~ImageOwner() { std::free(bytes); }
  ImageOwner(const ImageOwner&) = delete;
  ImageOwner& operator=(const ImageOwner&) = delete;

  void* bytes;
  std::size_t capacity;
  bool exhausted = false;  // true after a failed reallocation, which the library reports as a general failure
};
void* image_reallocate(void*, std::size_t bytes, H5FD_file_image_op_t, void* owner) {
  auto& o = *static_cast<ImageOwner*>(owner);
  if (bytes <= o.capacity) return o.bytes;
  void* grown = std::realloc(o.bytes, bytes);
  if (grown != nullptr) {
    o.bytes = grown;
    o.capacity = bytes;
  } else {
    o.exhausted = true;
  }
  return grown;
}
void* image_allocate(std::size_t bytes, H5FD_file_image_op_t operation, void* owner) {
  return image_reallocate(nullptr, bytes, operation, owner);
}
void* image_copy(void* to, const void* from, std::size_t bytes, H5FD_file_image_op_t, void*) {
  return std::memcpy(to, from, bytes);
}
herr_t image_keep(void*, H5FD_file_image_op_t, void*) { return 0; }
void* owner_same(void* owner) { return owner; }
herr_t owner_keep(void*) { return 0; }

/// Returns the creation properties of a group or dataset (`kind` is an HDF5 property list class): no time stamps, and
/// all attributes in the object header.
Handle creation(hid_t kind, const char* what) {
  Handle list = own<Error>(H5Pcreate(kind), H5Pclose, what);
  checked<Error>(H5Pset_obj_track_times(list.get(), false), what);
  checked<Error>(H5Pset_attr_phase_change(list.get(), kMostCompact, 0), what);
  return list;
}

Handle text_type(std::size_t bytes) {
  Handle type = own<Error>(H5Tcopy(H5T_C_S1), H5Tclose, "text type");
  checked<Error>(H5Tset_size(type.get(), bytes), "text type");
  checked<Error>(H5Tset_cset(type.get(), H5T_CSET_UTF8), "text type");
  return type;
}

Handle space_of(std::span<const std::int64_t> dims) {
  if (dims.empty()) return own<Error>(H5Screate(H5S_SCALAR), H5Sclose, "scalar space");
  hsize_t extents[Shape::kMaxRank];
  for (std::size_t i = 0; i < dims.size(); ++i) extents[i] = static_cast<hsize_t>(dims[i]);
  return own<Error>(H5Screate_simple(static_cast<int>(dims.size()), extents, nullptr), H5Sclose, "space");
}

/// Returns the number of bytes of a value in the file.
template <class T>
std::size_t stored_bytes(const T& value) {
  if constexpr (std::is_same_v<T, Tensor>)
    return value.bytes();
  else if constexpr (std::is_same_v<T, std::string>)
    return value.size() + 1;
  else if constexpr (std::is_arithmetic_v<T>)
    return sizeof value;
  else
    return value.size() * sizeof value[0];
}

/// True if a value is stored as a dataset, false if as an attribute of its group.
template <class T>
bool is_dataset(const T& value) {
  return std::is_same_v<T, Tensor> || stored_bytes(value) > layout::kAttributeBytes;
}

/// The contents of a group.
struct GroupContents {
  std::size_t attributes = 0;
  unsigned links = 0;       // number of links to tensors
  std::size_t longest = 0;  // length in bytes of the longest name of a link

  /// With these hints the library allocates the group's header at once; growing it link by link takes time quadratic in
  /// the number of links.
  void add_hints(hid_t creation_list) const {
    if (links == 0) return;
    checked<Error>(H5Pset_est_link_info(creation_list, std::min(links, kMostCompact), static_cast<unsigned>(longest)),
                   "group");
  }
};

/// Returns the contents of every group of a checkpoint. Throws ArgumentError if the state has more entries than the
/// reader accepts, before the library spends minutes on it.
std::map<std::string, GroupContents> contents_of(const StateDict& state) {
  constexpr ProfileLimits kLimits;
  std::map<std::string, GroupContents> groups{{"", {}}, {"format", {}}, {"manifest", {}}};
  std::size_t datasets = 1;  // number of datasets; the first one is manifest/tensors
  for (const auto& [name, value] : state.values()) {
    std::size_t slash = name.rfind('/');
    if (slash == name.npos) continue;  // write() rejects a name without a group
    GroupContents& group = groups[name.substr(0, slash)];
    std::visit([](const auto& v) { return is_dataset(v); }, value) ? ++datasets : ++group.attributes;
    if (std::holds_alternative<Tensor>(value)) {
      ++group.links;
      group.longest = std::max(group.longest, std::min<std::size_t>(name.size() - slash - 1, 255));
    }
    while ((slash = name.rfind('/', slash - 1)) != name.npos && slash > 0) groups.try_emplace(name.substr(0, slash));
  }
  check<ArgumentError>(datasets + groups.size() <= kLimits.objects,
                       "checkpoint: wanted tensors and groups at most {}, got {}", kLimits.objects,
                       datasets + groups.size());
  for (const auto& [name, group] : groups)
    check<ArgumentError>(group.attributes <= kLimits.attributes,
                         "checkpoint group \"{}\": wanted values that are no tensors at most {}, got {}", name,
                         kLimits.attributes, group.attributes);
  return groups;
}

/// Builds the bytes of one checkpoint file in memory.
class ImageWriter {
 public:
  ImageWriter(std::size_t expected_bytes, std::map<std::string, GroupContents> contents)
      : owner_(expected_bytes), contents_(std::move(contents)) {
    hdf5::disable_plugins();
    Handle access = own<Error>(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "checkpoint");
    checked<Error>(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "checkpoint format 1.10");
    checked<Error>(H5Pset_fapl_core(access.get(), expected_bytes, false), "checkpoint in memory");
    checked<Error>(H5Pset_alignment(access.get(), 256, 64), "checkpoint alignment");
    H5FD_file_image_callbacks_t callbacks{image_allocate, image_copy, image_reallocate, image_keep,
                                          owner_same,     owner_keep, &owner_};
    checked<Error>(H5Pset_file_image_callbacks(access.get(), &callbacks), "checkpoint in memory");
    Handle file_creation = creation(H5P_FILE_CREATE, "checkpoint");
    checked<Error>(H5Pset_userblock(file_creation.get(), kUserBlockBytes), "user block");
    checked<Error>(H5Pset_link_phase_change(file_creation.get(), kMostCompact, 0), "root group");
    file_ = own<Error>(H5Fcreate("checkpoint", H5F_ACC_TRUNC, file_creation.get(), access.get()), H5Fclose,
                       "checkpoint");
    groups_.emplace("", own<Error>(H5Gopen2(file_.get(), "/", H5P_DEFAULT), H5Gclose, "root group"));
  }

  void put(const std::string& name, const Tensor& t) {
    const Tensor host = t.on_host();
    const std::span<const std::byte> bytes(host.bytes() == 0 ? nullptr : static_cast<const std::byte*>(host.raw()),
                                           host.bytes());
    dataset(name, hdf5::file_type(host.dtype()).get(), host.shape().dims(), host.raw(), bytes.size(),
            name_of(host.dtype()));
    manifest_ += layout::manifest_line(name, host.dtype(), host.shape(), bytes);
  }
  void put(const std::string& name, std::int64_t value) { attribute(name, H5T_STD_I64LE, {}, &value); }
  void put(const std::string& name, double value) { attribute(name, H5T_IEEE_F64LE, {}, &value); }
  void put(const std::string& name, const std::string& value) { text(name, value, is_dataset(value)); }
  template <class T>
  void put(const std::string& name, const std::vector<T>& values) {
    constexpr bool integers = std::is_same_v<T, std::int64_t>;
    const hid_t type = integers ? H5T_STD_I64LE : H5T_IEEE_F64LE;
    const std::int64_t count = static_cast<std::int64_t>(values.size());
    if (is_dataset(values))
      dataset(name, type, {&count, 1}, values.data(), stored_bytes(values),
              integers ? layout::kIntegersKind : layout::kNumbersKind);
    else
      attribute(name, type, {&count, 1}, values.data());
  }

  bool exhausted() const { return owner_.exhausted; }

  /// Adds the group /manifest, closes the file and returns its bytes, with the user block filled in.
  CheckpointImage finish(const std::string& state_hash) {
    text("manifest/tensors", manifest_, true);
    put("manifest/state_hash", state_hash);
    groups_.clear();
    checked<Error>(H5Fclose(file_.release()), "close checkpoint");
    // The superblock holds the file's size; the buffer may be larger.
    std::uint64_t size = 0;
    std::memcpy(&size, static_cast<const std::byte*>(owner_.bytes) + kUserBlockBytes + 28, sizeof(size));
    check<Error>(size >= kUserBlockBytes + 48 && size <= owner_.capacity,
                 "checkpoint: HDF5 left {} bytes and says the file has {}; this is a bug in Binade", owner_.capacity,
                 size);
    void* whole = std::realloc(owner_.bytes, size);
    if (whole == nullptr) whole = owner_.bytes;
    owner_.bytes = nullptr;
    CheckpointImage image(static_cast<std::byte*>(whole), size);
    fill_user_block(image.mutable_bytes());
    return image;
  }

 private:
  void text(const std::string& name, const std::string& value, bool as_dataset) {
    const Handle type = text_type(value.size() + 1);
    if (as_dataset)
      dataset(name, type.get(), {}, value.c_str(), value.size() + 1, layout::kTextKind);
    else
      attribute(name, type.get(), {}, value.c_str());
  }

  static void fill_user_block(std::span<std::byte> image) {
    std::byte* block = image.data();
    std::memset(block, 0, kUserBlockBytes);
    const std::uint32_t version = layout::kUserBlockVersion, block_bytes = kUserBlockBytes;
    const std::uint64_t length = image.size();
    std::memcpy(block, layout::kMagic.data(), layout::kMagic.size());
    std::memcpy(block + layout::kVersionAt, &version, sizeof(version));
    std::memcpy(block + layout::kBlockSizeAt, &block_bytes, sizeof(block_bytes));
    std::memcpy(block + layout::kLengthAt, &length, sizeof(length));
    std::memcpy(block + layout::kNoteAt, layout::kNote.data(), layout::kNote.size());
    const Sha256::Digest digest = layout::guarded_digest(image);
    std::memcpy(block + layout::kDigestAt, digest.data(), digest.size());
  }

  /// Returns the group that holds `name`, which is created with its parents, and the last component of `name`.
  std::pair<hid_t, std::string> parent_of(const std::string& name) {
    check<ArgumentError>(names_.insert(name).second, "checkpoint entry \"{}\": the name is taken", name);
    const std::size_t slash = name.rfind('/');
    const std::string leaf = slash == std::string::npos ? name : name.substr(slash + 1);
    check<ArgumentError>(is_valid_name(leaf),
                         "checkpoint entry \"{}\": wanted names of 1 to 255 bytes of UTF-8 without control characters",
                         name);
    return {group(slash == std::string::npos ? "" : name.substr(0, slash)), leaf};
  }

  hid_t group(const std::string& path) {
    if (const auto found = groups_.find(path); found != groups_.end()) return found->second.get();
    check<ArgumentError>(std::count(path.begin(), path.end(), '/') < ProfileLimits{}.depth - 1,
                         "checkpoint group \"{}\": nested deeper than {}", path, ProfileLimits{}.depth - 1);
    const auto [parent, leaf] = parent_of(path);
    Handle list = creation(H5P_GROUP_CREATE, "group");
    checked<Error>(H5Pset_link_phase_change(list.get(), kMostCompact, 0), "group");
    if (const auto found = contents_.find(path); found != contents_.end()) found->second.add_hints(list.get());
    Handle made = own<Error>(H5Gcreate2(parent, leaf.c_str(), H5P_DEFAULT, list.get(), H5P_DEFAULT), H5Gclose,
                             "checkpoint group " + path);
    return groups_.emplace(path, std::move(made)).first->second.get();
  }

  void attribute_at(hid_t object, const std::string& leaf, const std::string& name, hid_t type,
                    std::span<const std::int64_t> dims, const void* value) {
    const Handle space = space_of(dims);
    Handle made = own<Error>(H5Acreate2(object, leaf.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                             "checkpoint entry " + name);
    if (dims.empty() || dims[0] > 0) checked<Error>(H5Awrite(made.get(), type, value), "checkpoint entry " + name);
  }
  void attribute(const std::string& name, hid_t type, std::span<const std::int64_t> dims, const void* value) {
    const auto [parent, leaf] = parent_of(name);
    attribute_at(parent, leaf, name, type, dims, value);
  }

  void dataset(const std::string& name, hid_t type, std::span<const std::int64_t> dims, const void* bytes,
               std::size_t count, std::string_view kind) {
    const auto [parent, leaf] = parent_of(name);
    Handle list = creation(H5P_DATASET_CREATE, "dataset");
    checked<Error>(H5Pset_layout(list.get(), H5D_CONTIGUOUS), "dataset");
    checked<Error>(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), "dataset");
    checked<Error>(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), "dataset");
    const Handle space = space_of(dims);
    Handle made = own<Error>(H5Dcreate2(parent, leaf.c_str(), type, space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT),
                             H5Dclose, "checkpoint entry " + name);
    if (count > 0)
      checked<Error>(H5Dwrite(made.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes), "checkpoint entry " + name);
    const std::string dtype(kind);
    attribute_at(made.get(), layout::kDTypeAttribute, name, text_type(dtype.size() + 1).get(), {}, dtype.c_str());
  }

  hdf5::QuietErrors quiet_;
  ImageOwner owner_;
  Handle file_;
  std::map<std::string, GroupContents> contents_;
  std::map<std::string, Handle> groups_;
  std::set<std::string> names_;
  std::string manifest_;  // one line for each tensor
};

std::size_t expected_size(const StateDict& state) {
  std::size_t bytes = std::size_t{1} << 16;
  for (const auto& [name, value] : state.values())
    bytes += 1024 + 2 * name.size() + std::visit([](const auto& v) { return stored_bytes(v); }, value);
  return bytes;
}

CheckpointImage write(ImageWriter& writer, const StateDict& state, const std::string& state_hash) {
  writer.put("format/name", std::string(layout::kFormatName));
  writer.put("format/major", kCheckpointMajor);
  writer.put("format/minor", kCheckpointMinor);
  writer.put("format/required_features", std::int64_t{0});
  writer.put("format/optional_features", std::int64_t{0});
  writer.put("format/writer", "binade " + std::string(version()));
  for (const auto& [name, value] : state.values()) {
    const std::string top = name.substr(0, name.find('/'));
    check<ArgumentError>(
        !top.empty() && top != name && top != "format" && top != "manifest",
        "checkpoint entry \"{}\": wanted \"group/name\", where the groups format and manifest are Binade's own", name);
    std::visit([&writer, &entry = name](const auto& v) { writer.put(entry, v); }, value);
  }
  return writer.finish(state_hash);
}

/// Returns the index of the first NaN or infinity, or -1. These have all bits of the mask `exponent` set. The inner
/// loop has no branch, so that the compiler vectorizes it.
template <class Bits>
std::int64_t first_bad(const void* data, std::int64_t count, Bits exponent) {
  const auto* x = static_cast<const Bits*>(data);
  constexpr std::int64_t kBlock = 4096;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    bool bad = false;
    for (std::int64_t i = begin; i < end; ++i) bad |= (x[i] & exponent) == exponent;
    if (!bad) continue;
    for (std::int64_t i = begin; i < end; ++i)
      if ((x[i] & exponent) == exponent) return i;
  }
  return -1;
}

std::int64_t first_bad(const Tensor& t) {
  if (t.numel() == 0) return -1;
  switch (t.dtype()) {
    case DType::f16: return first_bad<std::uint16_t>(t.raw(), t.numel(), 0x7c00);
    case DType::bf16: return first_bad<std::uint16_t>(t.raw(), t.numel(), 0x7f80);
    case DType::f32: return first_bad<std::uint32_t>(t.raw(), t.numel(), 0x7f800000u);
    case DType::f64: return first_bad<std::uint64_t>(t.raw(), t.numel(), 0x7ff0000000000000u);
    default: return -1;
  }
}

}  // namespace

CheckpointImage encode_checkpoint(const StateDict& state, const std::string& state_hash) {
  ImageWriter writer(expected_size(state), contents_of(state));
  try {
    return write(writer, state, state_hash);
  } catch (const Error&) {
    check<OutOfMemoryError>(!writer.exhausted(), "checkpoint: no memory to build its {} bytes", expected_size(state));
    throw;
  }
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  hbool_t threadsafe = false;
  H5get_libversion(&major, &minor, &release);
  H5is_library_threadsafe(&threadsafe);
  return fmt::format("{}.{}.{} (built against {}.{}.{}{})", major, minor, release, H5_VERS_MAJOR, H5_VERS_MINOR,
                     H5_VERS_RELEASE, threadsafe ? ", thread-safe" : "");
}

std::optional<std::string> first_non_finite(const StateDict& state) {
  for (const auto& [name, value] : state.values()) {
    if (const auto* tensor = std::get_if<Tensor>(&value)) {
      const Tensor host = tensor->on_host();
      if (const std::int64_t i = first_bad(host); i >= 0)
        return fmt::format("{} holds {} at element {}", name, host.at(i), i);
    } else if (const auto* number = std::get_if<double>(&value)) {
      if (!std::isfinite(*number)) return fmt::format("{} is {}", name, *number);
    } else if (const auto* numbers = std::get_if<StateDict::Numbers>(&value)) {
      for (std::size_t i = 0; i < numbers->size(); ++i)
        if (!std::isfinite((*numbers)[i])) return fmt::format("{} holds {} at element {}", name, (*numbers)[i], i);
    }
  }
  return std::nullopt;
}

}  // namespace binade::io
