#include "binade/io/exchange/pytorch_file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "binade/core/error.h"
#include "binade/io/exchange/pickle.h"
#include "binade/io/files/extents.h"
#include "binade/io/files/read_file.h"
#include "binade/io/files/zip.h"

namespace binade::io {

namespace {

using Kind = Pickle::Value::Kind;
using View = Pickle::TensorView;

constexpr std::size_t kMagicBytes = 4;
constexpr std::uint64_t kLargestPickle = 32 << 20;
// Tensors may overlap in a storage, but a file must not become much larger in memory.
constexpr std::uint64_t kMostOverlap = 4, kSmallOverlap = 64 << 20;

struct StorageType {
  const char* name;
  DType dtype;
};
constexpr StorageType kStorages[] = {{"DoubleStorage", DType::f64}, {"FloatStorage", DType::f32},
                                     {"HalfStorage", DType::f16},   {"BFloat16Storage", DType::bf16},
                                     {"LongStorage", DType::i64},   {"IntStorage", DType::i32},
                                     {"ByteStorage", DType::u8},    {"BoolStorage", DType::boolean}};

/// Reads the tensors of one file.
class File {
 public:
  explicit File(const ZipReader& zip) : zip_(zip), pickle_(read_pickle(zip, folder_), zip.name()) {}

  TensorMap tensors(const std::string& entry) {
    const Pickle::Value& dict = find(entry);
    for (const auto& [key, item] : dict.pairs)
      if (pickle_[item].kind == Kind::kTensor) add(text_of(key), *pickle_[item].tensor);
    check<DataError>(!wanted_.empty(), "{}: wanted a dictionary of tensors, got one without tensors{}", zip_.name(),
                     alternatives(dict, entry));
    check_overlap();
    for (const auto& [key, views] : wanted_) read_storage(key, views);
    return std::move(result_);
  }

 private:
  struct Wanted {
    std::string name;
    View view;
    DType dtype;
    Shape shape;
  };

  static std::vector<std::byte> read_pickle(const ZipReader& zip, std::string& folder) {
    std::string member;
    for (const auto& [name, bytes] : zip.members()) {
      const std::size_t slash = name.find('/');
      if (slash == std::string::npos || slash != name.rfind('/')) continue;
      check<DataError>(name.substr(slash) != "/constants.pkl",
                       "{}: it is a program of TorchScript; wanted weights: torch.save(model.state_dict(), path)",
                       zip.name());
      if (name.substr(slash) != "/data.pkl") continue;
      check<DataError>(member.empty(), "{}: it holds both {} and {}", zip.name(), member, name);
      check<DataError>(bytes <= kLargestPickle, "{}: its {} has {} bytes; wanted at most {}", zip.name(), name, bytes,
                       kLargestPickle);
      member = name;
      folder = name.substr(0, slash + 1);
    }
    check<DataError>(!member.empty(), "{}: wanted a file of torch.save(), got a zip archive without data.pkl",
                     zip.name());
    if (zip.contains(folder + "byteorder")) {
      const std::vector<std::byte> order = zip.read(folder + "byteorder");
      check<DataError>(std::string_view(reinterpret_cast<const char*>(order.data()), order.size()) == "little",
                       "{}: wanted little-endian numbers, got another order of bytes", zip.name());
    }
    return zip.read(member);
  }

  std::string text_of(std::size_t index) const {
    const Pickle::Value& key = pickle_[index];
    if (key.kind == Kind::kText) return key.text;
    check<DataError>(key.kind == Kind::kInteger, "{}: a tensor's name is neither a text nor a number", zip_.name());
    return std::to_string(key.integer);
  }

  std::string describe(const Pickle::Value& value) const {
    constexpr const char* kNames[] = {"None",      "a bool",   "a whole number", "a number",     "a text",
                                      "bytes",     "a tuple",  "a list",         "a dictionary", "a class",
                                      "a storage", "a tensor", "a mark"};
    return kNames[static_cast<std::size_t>(value.kind)];
  }

  std::size_t count_tensors(const Pickle::Value& dict) const {
    return static_cast<std::size_t>(std::ranges::count_if(dict.pairs, [&](const auto& pair) {
      return pickle_[pair.second].kind == Kind::kTensor;
    }));
  }

  /// Lists the dictionaries of tensors among the entries of a dictionary, for an error.
  std::string alternatives(const Pickle::Value& dict, const std::string& entry) const {
    std::string text;
    for (const auto& [key, item] : dict.pairs) {
      const std::size_t count = pickle_[item].kind == Kind::kDict ? count_tensors(pickle_[item]) : 0;
      if (count == 0 || pickle_[key].kind != Kind::kText) continue;
      text += fmt::format("{}\"{}{}{}\" ({} tensors)", text.empty() ? "; choose an entry: " : ", ", entry,
                          entry.empty() ? "" : ".", pickle_[key].text, count);
    }
    return text;
  }

  const Pickle::Value& find(const std::string& entry) const {
    const Pickle::Value* dict = &pickle_.root();
    std::string path, rest = entry;
    while (!rest.empty()) {
      // Names of entries may have dots: the longest name that matches is taken.
      const Pickle::Value* next = nullptr;
      std::size_t taken = 0;
      for (const auto& [key, item] : dict->pairs) {
        const std::string& name = pickle_[key].text;
        const bool begins = !name.empty() && rest.starts_with(name) &&
                            (rest.size() == name.size() || rest[name.size()] == '.');
        if (!begins || name.size() <= taken) continue;
        next = &pickle_[item];
        taken = name.size();
      }
      check<DataError>(next != nullptr, "{}: it has no entry \"{}\"{}", zip_.name(), entry, alternatives(*dict, path));
      path += (path.empty() ? "" : ".") + rest.substr(0, taken);
      rest = rest.substr(std::min(taken + 1, rest.size()));
      dict = next;
    }
    check<DataError>(dict->kind == Kind::kDict, "{}: wanted a dictionary of tensors{}, got {}", zip_.name(),
                     entry.empty() ? "" : fmt::format(" as the entry \"{}\"", entry), describe(*dict));
    return *dict;
  }

  void add(const std::string& name, const View& view) {
    const auto refuse = [&](const std::string& what) {
      throw DataError(fmt::format("{}: tensor \"{}\": {}", zip_.name(), name.substr(0, 80), what));
    };
    const auto* type = std::ranges::find(kStorages, view.type, &StorageType::name);
    if (type == std::end(kStorages))
      refuse(fmt::format("its storage is a {}; wanted one of f64 f32 f16 bf16 i64 i32 u8 bool", view.type));
    const std::optional<Shape> shape = shape_from_extents(view.shape);
    if (!shape) refuse("its extents multiply to more than any file holds");
    if (view.shape.size() != view.strides.size()) refuse("its shape and its strides differ in length");
    const std::string member = folder_ + "data/" + view.key;
    if (!zip_.contains(member)) refuse("its storage is not in the file");
    const std::uint64_t elements = zip_.members().at(member) / size_of(type->dtype);
    if (zip_.members().at(member) % size_of(type->dtype) != 0 || elements != view.storage_elements)
      refuse(fmt::format("its storage has {} bytes, its description says {} elements", zip_.members().at(member),
                         view.storage_elements));
    const auto numel = static_cast<std::uint64_t>(shape->numel());
    if (numel > elements)
      refuse(fmt::format("it has {} elements in a storage of {}; save a contiguous() copy of it", numel, elements));
    if (!within(view, elements, numel)) refuse("its strides lead out of its storage");
    check<DataError>(names_.insert({name, true}).second, "{}: it has two tensors called {}", zip_.name(), name);
    wanted_[view.key].push_back({name, view, type->dtype, *shape});
  }

  static bool within(const View& view, std::uint64_t elements, std::uint64_t numel) {
    if (numel == 0) return view.offset <= elements;
    if (view.offset >= elements) return false;
    std::uint64_t last = view.offset;
    for (std::size_t i = 0; i < view.shape.size(); ++i) {
      if (view.shape[i] <= 1) continue;
      if (view.strides[i] > (elements - 1 - last) / (view.shape[i] - 1)) return false;
      last += (view.shape[i] - 1) * view.strides[i];
    }
    return true;
  }

  using Layout = std::tuple<std::uint64_t, std::vector<std::uint64_t>, std::vector<std::uint64_t>, DType>;
  static Layout layout_of(const Wanted& w) { return {w.view.offset, w.view.shape, w.view.strides, w.dtype}; }

  void check_overlap() const {
    std::uint64_t needed = 0, held = 0;
    for (const auto& [key, views] : wanted_) {
      std::map<Layout, bool> distinct;
      for (const Wanted& w : views)
        if (distinct.insert({layout_of(w), true}).second)
          needed += static_cast<std::uint64_t>(w.shape.numel()) * size_of(w.dtype);
      held += zip_.members().at(folder_ + "data/" + key);
    }
    check<DataError>(needed <= kMostOverlap * held + kSmallOverlap,
                     "{}: its tensors overlap: they have {} bytes, and their storages {}", zip_.name(), needed, held);
  }

  /// Makes the tensors of one storage.
  void read_storage(const std::string& key, const std::vector<Wanted>& views) {
    const std::vector<std::byte> storage = zip_.read(folder_ + "data/" + key);
    std::map<Layout, Tensor> made;
    for (const Wanted& w : views) {
      Tensor& tensor = made[layout_of(w)];
      if (!tensor.defined()) tensor = copied(storage, w);
      result_.emplace(w.name, tensor);
    }
  }

  Tensor copied(std::span<const std::byte> storage, const Wanted& w) const {
    Tensor tensor = Tensor::empty(w.shape, w.dtype);
    const std::size_t size = size_of(w.dtype), rank = w.view.shape.size();
    if (w.dtype == DType::boolean)
      check<DataError>(std::ranges::all_of(storage, [](std::byte b) { return b <= std::byte{1}; }),
                       "{}: tensor \"{}\" holds a bool that is neither 0 nor 1", zip_.name(), w.name);
    auto* to = static_cast<std::byte*>(tensor.mutable_raw());
    std::uint64_t at = w.view.offset;
    // The last axes, if contiguous, are copied in one piece.
    std::uint64_t run = 1;
    std::size_t outer = rank;
    while (outer > 0 && (w.view.shape[outer - 1] == 1 || w.view.strides[outer - 1] == run))
      run *= w.view.shape[--outer];
    std::vector<std::uint64_t> position(outer, 0);
    for (auto left = static_cast<std::uint64_t>(tensor.numel()); left > 0; left -= run, to += run * size) {
      std::memcpy(to, storage.data() + at * size, run * size);
      for (std::size_t i = outer; i-- > 0;) {
        at += w.view.strides[i];
        if (++position[i] < w.view.shape[i]) break;
        at -= w.view.strides[i] * w.view.shape[i];
        position[i] = 0;
      }
    }
    return tensor;
  }

  const ZipReader& zip_;
  std::string folder_;  // folder in the archive, named like the file; ends with "/"
  Pickle pickle_;
  std::map<std::string, std::vector<Wanted>> wanted_;  // by storage
  std::map<std::string, bool> names_;
  TensorMap result_;
};

/// Throws DataError if the file is not a zip archive, with a hint for the old format of torch.save().
void check_is_zip(std::string_view begin, const std::string& name) {
  check<DataError>(
      !begin.starts_with("\x80"),
      "{}: wanted the zip format of torch.save(), got a bare pickle, which PyTorch before 1.6 wrote; load it "
      "in PyTorch and save it again",
      name);
  check<DataError>(is_zip(begin), "{}: wanted a file of torch.save(), got {}", name,
                   begin.empty() ? "an empty file" : "something else");
}

}  // namespace

TensorMap decode_pytorch(std::span<const std::byte> file, const std::string& name, const std::string& entry) {
  check_is_zip({reinterpret_cast<const char*>(file.data()), file.size()}, name);
  const ZipReader zip(file, name);
  return File(zip).tensors(entry);
}

TensorMap read_pytorch(const std::string& path, const std::string& entry) {
  check_is_zip(read_begin(path, kMagicBytes), path);
  const ZipReader zip(path);
  return File(zip).tensors(entry);
}

TensorMap read_weights_file(const std::string& path, const std::string& entry) {
  const std::string begin = read_begin(path, kMagicBytes);
  if (is_zip(begin) || begin.starts_with("\x80")) return read_pytorch(path, entry);
  check<DataError>(entry.empty(), "{}: wanted a file of torch.save() to choose the entry \"{}\" of, got another file",
                   path, entry);
  return read_safetensors(path).tensors;
}

}  // namespace binade::io
