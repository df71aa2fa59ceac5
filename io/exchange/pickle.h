#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace binade::io {

/// The values in a Python pickle. A pickle is a program that can call any function; this reader executes nothing. It
/// knows dictionaries (also collections.OrderedDict), lists, tuples, numbers, texts, bytes, and the objects to which
/// torch.save() converts tensors: storages, torch._utils._rebuild_tensor_v2, _rebuild_parameter, torch.Size. Any other
/// class or function to which the pickle refers is refused, with its name in the error text.
class Pickle {
 public:
  /// A tensor: a view of a storage, as the pickle describes it. It is not checked against the size of the storage.
  struct TensorView {
    std::string type{};                             ///< class of the storage: "FloatStorage"
    std::string key{};                              ///< name of the storage
    std::uint64_t storage_elements = 0;             ///< number of elements of the storage
    std::uint64_t offset = 0;                       ///< in elements, as the strides
    std::vector<std::uint64_t> shape{}, strides{};  ///< of equal length, at most 8
  };
  /// A value. Containers hold indices into the list of all values, because a pickle may use a value many times.
  struct Value {
    /// The kind of a value.
    enum class Kind : std::uint8_t {
      kNone,
      kBool,
      kInteger,
      kNumber,
      kText,
      kBytes,
      kTuple,
      kList,
      kDict,
      kGlobal,
      kStorage,
      kTensor,
      kMark
    };
    Kind kind = Kind::kNone;
    std::int64_t integer = 0;                                  ///< kInteger; kBool: 0 or 1
    double number = 0;                                         ///< kNumber
    std::string text{};                                        ///< kText, kBytes; kGlobal: "module.name"
    std::vector<std::size_t> items{};                          ///< kTuple, kList
    std::vector<std::pair<std::size_t, std::size_t>> pairs{};  ///< kDict, in order
    std::shared_ptr<const TensorView> tensor{};                ///< kTensor; kStorage: only the first three members
  };

  /// Parses a pickle of protocols 2 to 5. Throws DataError that begins with `name`. It needs at most about 150 bytes of
  /// memory for each byte of the pickle.
  Pickle(std::span<const std::byte> pickle, const std::string& name);

  /// Return the value of the whole pickle, and the value at an index of items or pairs.
  const Value& root() const { return values_[root_]; }
  const Value& operator[](std::size_t index) const { return values_[index]; }

 private:
  friend class Unpickler;
  std::deque<Value> values_;
  std::size_t root_ = 0;
};

}  // namespace binade::io
