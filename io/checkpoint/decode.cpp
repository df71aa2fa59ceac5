#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "binade/core/crc32c.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/checkpoint/find.h"
#include "binade/io/checkpoint/hdf5_profile.h"
#include "binade/io/checkpoint/layout.h"
#include "binade/io/checkpoint/sections.h"
#include "binade/io/files/file_ops.h"

namespace binade::io {

namespace layout {

Sha256::Digest guarded_digest(std::span<const std::byte> image) {
  Sha256 sha;
  sha.update(image.first(kDigestAt));
  sha.update(image.subspan(kDigestAt + sizeof(Sha256::Digest)));
  return sha.digest();
}

std::string manifest_line(const std::string& name, DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  std::string dims;
  for (const std::int64_t d : shape.dims()) dims += (dims.empty() ? "" : ",") + std::to_string(d);
  return fmt::format("{:08x} {}[{}] {}\n", crc32c(bytes), name_of(dtype), dims, name);
}

}  // namespace layout

namespace {

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// Throws NoCheckpointError unless `begin`, the first bytes of a file, starts with the magic and contains `size`, the
/// file's length in bytes.
void check_begin(std::span<const std::byte> begin, std::uint64_t size) {
  check<NoCheckpointError>(
      begin.size() >= kUserBlockBytes && std::memcmp(begin.data(), layout::kMagic.data(), layout::kMagic.size()) == 0,
      "not a Binade checkpoint: wanted a file of at least {} bytes that begins with \"{}\", got {} bytes",
      kUserBlockBytes, layout::kMagic, size);
  const auto length = number_at<std::uint64_t>(begin, layout::kLengthAt);
  check<NoCheckpointError>(length == size, "it is {}: it was written with {} bytes and has {}",
                           size < length ? "cut short" : "longer than it was", length, size);
}

void check_user_block(std::span<const std::byte> image) {
  check_begin(image, image.size());
  const auto version = number_at<std::uint32_t>(image, layout::kVersionAt);
  const Sha256::Digest digest = layout::guarded_digest(image);
  check<NoCheckpointError>(std::memcmp(digest.data(), image.data() + layout::kDigestAt, digest.size()) == 0,
                           "it is damaged: its SHA-256 does not match its bytes");
  check<CheckpointError>(version == layout::kUserBlockVersion &&
                             number_at<std::uint32_t>(image, layout::kBlockSizeAt) == kUserBlockBytes,
                         "it has a user block of version {}; this Binade reads version {}: use a newer one", version,
                         layout::kUserBlockVersion);
}

[[noreturn]] void bad_entry(const std::string& name, const std::string& what) {
  throw NoCheckpointError(fmt::format("entry {}: {}", name, what));
}

std::int64_t integer_in(const StoredAttributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end() || found->second.type != StoredType::kI64 || found->second.list)
    bad_entry("format/" + name, "wanted an integer");
  return number_at<std::int64_t>(found->second.bytes, 0);
}

std::string text_of(const StoredAttributes& attributes, const std::string& group, const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end() || !found->second.is_text()) bad_entry(group + name, "wanted a text");
  return std::string(found->second.text());
}

const StoredAttributes& group_of(const StoredTree& tree, const std::string& path) {
  const auto found = tree.groups.find(path);
  if (found == tree.groups.end()) bad_entry(path, "the group is missing");
  return found->second;
}

void check_format(const StoredTree& tree, CheckpointInfo& info) {
  const StoredAttributes& format = group_of(tree, "format");
  const std::string name = text_of(format, "format/", "name");
  if (name != layout::kFormatName) bad_entry("format/name", "this HDF5 file is not a checkpoint");
  info.major = integer_in(format, "major");
  info.minor = integer_in(format, "minor");
  info.writer = text_of(format, "format/", "writer");
  check<CheckpointError>(info.major == kCheckpointMajor,
                         "it has format {}.{}, this Binade reads {}.x: use the version that wrote it ({})", info.major,
                         info.minor, kCheckpointMajor, info.writer);
  const std::int64_t required = integer_in(format, "required_features");
  integer_in(format, "optional_features");
  check<CheckpointError>(
      required == 0, "it requires features {:#x} that this Binade does not have: use the version that wrote it ({})",
      required, info.writer);
}

/// The HDF5 type in which the elements of each dtype are stored.
constexpr std::pair<DType, StoredType> kTensorTypes[] = {
    {DType::f32, StoredType::kF32}, {DType::f16, StoredType::kF16},   {DType::bf16, StoredType::kBf16},
    {DType::f64, StoredType::kF64}, {DType::i64, StoredType::kI64},   {DType::i32, StoredType::kI32},
    {DType::u8, StoredType::kU8},   {DType::boolean, StoredType::kU8}};

std::string kind_of(const std::string& name, const StoredDataset& dataset) {
  if (dataset.attributes.size() != 1) bad_entry(name, "wanted one attribute, dtype");
  return text_of(dataset.attributes, name + "/", layout::kDTypeAttribute);
}

template <class T>
std::vector<T> list_of(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

StateDict::Value list_value(const std::string& name, StoredType type, std::span<const std::byte> bytes) {
  if (type == StoredType::kI64) return list_of<std::int64_t>(bytes);
  if (type == StoredType::kF64) return list_of<double>(bytes);
  bad_entry(name, "wanted a list of i64 or f64");
}

StateDict::Value value_of(const std::string& name, const StoredAttribute& a) {
  if (a.list) return list_value(name, a.type, a.bytes);
  if (a.type == StoredType::kI64) return number_at<std::int64_t>(a.bytes, 0);
  if (a.type == StoredType::kF64) return number_at<double>(a.bytes, 0);
  if (a.type == StoredType::kText) return std::string(a.text());
  bad_entry(name, "wanted an i64, an f64 or a text");
}

Tensor tensor_of(DType dtype, const StoredDataset& dataset) {
  Tensor t = Tensor::empty(dataset.shape, dtype);
  if (!dataset.bytes.empty()) std::memcpy(t.mutable_raw(), dataset.bytes.data(), dataset.bytes.size());
  return t;
}

/// True if `path` is in /format or /manifest, which describe the file and are not part of the state.
bool describes_the_file(std::string_view path) {
  const std::string_view top = path.substr(0, path.find('/'));
  return top == "format" || top == "manifest";
}

/// True if the load omits this group: the file has a newer minor version, and the group is no registered section.
bool is_left_out(const std::string& group, const CheckpointInfo& info) {
  return info.minor > kCheckpointMinor && !is_known_section(group);
}

/// Checks the bytes of a checkpoint file and, if `state` is not null, copies the file's entries to it, in one pass over
/// the groups and datasets.
CheckpointInfo read_image(std::span<const std::byte> image, StateDict* state) {
  check_user_block(image);
  const StoredTree tree = read_profile(image, kUserBlockBytes);
  CheckpointInfo info;
  info.bytes = image.size();
  check_format(tree, info);
  info.state_hash = text_of(group_of(tree, "manifest"), "manifest/", "state_hash");
  const auto put = [&](const std::string& name, StateDict::Value value) {
    if (const std::string group = name.substr(0, name.find('/')); is_left_out(group, info)) {
      info.left_out.insert(group);
    } else if (state != nullptr) {
      if (state->contains(name)) bad_entry(name, "the name occurs twice");
      state->put(name, std::move(value));
    }
  };
  for (const auto& [group, attributes] : tree.groups) {
    if (describes_the_file(group)) continue;
    if (group.empty() && !attributes.empty()) bad_entry("/", "the root has attributes");
    for (const auto& [leaf, attribute] : attributes) put(group + "/" + leaf, value_of(group + "/" + leaf, attribute));
  }
  for (const auto& [name, dataset] : tree.datasets) {
    const std::string kind = kind_of(name, dataset);
    if (name.find('/') == std::string::npos) bad_entry(name, "is not in a group");
    if (describes_the_file(name)) continue;
    const auto* tensor = std::ranges::find_if(kTensorTypes, [&](const auto& t) { return name_of(t.first) == kind; });
    if (tensor != std::end(kTensorTypes)) {
      const DType dtype = tensor->first;
      if (tensor->second != dataset.type) bad_entry(name, "is marked " + kind + " and stored as another type");
      if (dtype == DType::boolean)
        for (const std::byte b : dataset.bytes)
          if (b > std::byte{1}) bad_entry(name, "holds a bool that is neither 0 nor 1");
      info.manifest += layout::manifest_line(name, dtype, dataset.shape, dataset.bytes);
      if (state != nullptr) put(name, tensor_of(dtype, dataset));
    } else if (kind == layout::kTextKind && dataset.type == StoredType::kText) {
      put(name, std::string(dataset.text()));
    } else if (kind == layout::kIntegersKind || kind == layout::kNumbersKind) {
      const bool integers = kind == layout::kIntegersKind;
      if (dataset.shape.rank() != 1 || dataset.type != (integers ? StoredType::kI64 : StoredType::kF64))
        bad_entry(name, "is marked " + kind + " and stored as something else");
      put(name, list_value(name, dataset.type, dataset.bytes));
    } else {
      bad_entry(name, "has an unknown dtype");
    }
  }
  if (const auto progress = tree.groups.find("progress"); progress != tree.groups.end())
    if (const auto step = progress->second.find("step");
        step != progress->second.end() && step->second.type == StoredType::kI64 && !step->second.list)
      info.step = number_at<std::int64_t>(step->second.bytes, 0);
  const auto manifest = tree.datasets.find("manifest/tensors");
  if (manifest == tree.datasets.end() || manifest->second.type != StoredType::kText)
    bad_entry("manifest/tensors", "the list of tensors is missing");
  check<NoCheckpointError>(
      manifest->second.text() == info.manifest,
      "it is damaged: its tensors and the list in /manifest/tensors (name, dtype, shape, CRC) differ");
  return info;
}

/// Runs `read`; an error text that it throws is prefixed with `name`.
template <class F>
auto with_name(const std::string& name, F&& read) {
  try {
    return read();
  } catch (const NoCheckpointError& e) {
    throw NoCheckpointError(fmt::format("{}: {}", name, e.what()));
  } catch (const CheckpointError& e) {
    throw CheckpointError(fmt::format("{}: {}", name, e.what()));
  }
}

/// Returns the names of all sections that were registered. The set is constructed on first use, because the order of
/// construction across files is undefined.
std::set<std::string>& known_sections() {
  static std::set<std::string> names;
  return names;
}

}  // namespace

DecodedCheckpoint decode_checkpoint(std::span<const std::byte> image, const std::string& name) {
  DecodedCheckpoint decoded;
  decoded.info = with_name(name, [&] { return read_image(image, &decoded.state); });
  return decoded;
}

CheckpointInfo verify_checkpoint(std::span<const std::byte> image, const std::string& name) {
  return with_name(name, [&] { return read_image(image, nullptr); });
}

std::string image_sha256(std::span<const std::byte> image) { return to_hex(sha256(image)); }

CheckpointImage read_checkpoint_image(FileOps& ops, int folder, const std::string& name, std::uint64_t limit,
                                      const std::string& shown) {
  const auto must = [&](int error) {
    check<UnreadableCheckpointError>(error == 0, "checkpoint {}: {}", shown, error_text(error));
  };
  const auto [error, file] = try_open(ops, &FileOps::open_read, folder, name);
  check<NoCheckpointError>(error != ELOOP, "checkpoint {}: a symbolic link, wanted a regular file", shown);
  must(error);
  FileStatus before, after;
  must(ops.status(file.get(), before));
  check<NoCheckpointError>(before.regular, "checkpoint {}: wanted a regular file", shown);
  check<NoCheckpointError>(before.bytes >= kUserBlockBytes, "checkpoint {}: {} bytes are too few for a checkpoint",
                           shown, before.bytes);
  check<NoCheckpointError>(before.bytes <= limit, "checkpoint {}: {} bytes are more than the limit of {}", shown,
                           before.bytes, limit);
  std::array<std::byte, kUserBlockBytes> begin{};
  must(read_exactly(ops, file.get(), 0, begin));
  with_name("checkpoint " + shown, [&] { check_begin(begin, before.bytes); });
  auto* memory = static_cast<std::byte*>(std::malloc(before.bytes));
  check<OutOfMemoryError>(memory != nullptr, "checkpoint {}: no memory for its {} bytes", shown, before.bytes);
  CheckpointImage image(memory, before.bytes);
  std::ranges::copy(begin, image.mutable_bytes().begin());
  must(read_exactly(ops, file.get(), begin.size(), image.mutable_bytes().subspan(begin.size())));
  must(ops.status(file.get(), after));
  check<NoCheckpointError>(after.bytes == before.bytes, "checkpoint {}: it changed size while it was read", shown);
  return image;
}

CheckpointImage read_checkpoint_file(const std::string& path, std::uint64_t limit) {
  FileOps& ops = FileOps::real();
  const auto [folder_path, name] = split_path(path);
  const auto [error, folder] = try_open(ops, &FileOps::open_folder, folder_path);
  check<UnreadableCheckpointError>(error == 0, "checkpoint {}: {}", path, error_text(error));
  return read_checkpoint_image(ops, folder.get(), name, limit, path);
}

DecodedCheckpoint load_checkpoint(const std::string& path) {
  const CheckpointImage image = read_checkpoint_file(path);
  DecodedCheckpoint decoded = decode_checkpoint(image.bytes(), "checkpoint " + path);
  warn_about_left_out(decoded.info, path, warn_on_stderr);
  return decoded;
}

CheckpointSection::CheckpointSection(const char* name) { known_sections().emplace(name); }

bool is_known_section(const std::string& name) { return known_sections().contains(name); }

}  // namespace binade::io
