#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "binade/core/communicator.h"

namespace binade::amp {

/// Encodes values, one after the other, for another rank. All ranks run the same program on the same kind of machine.
class ByteWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T> ByteWriter& put(const T& value) { return put_raw(&value, sizeof(T)); }
  ByteWriter& put(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    return put_raw(text.data(), text.size());
  }
  ByteWriter& put(const std::string& text) { return put(std::string_view(text)); }
  template <class T>
  ByteWriter& put(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    if constexpr (std::is_trivially_copyable_v<T>)
      return put_raw(values.data(), values.size() * sizeof(T));
    else
      for (const T& value : values) put(value);
    return *this;
  }
  ByteWriter& put_raw(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// Reads what a ByteWriter wrote. Throws RankError if the bytes end too early.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    if constexpr (std::is_same_v<T, std::string>) {
      const auto text = take(get<std::uint64_t>());
      return {reinterpret_cast<const char*>(text.data()), text.size()};
    } else if constexpr (requires { typename T::value_type; }) {
      using Item = typename T::value_type;
      const auto count = get<std::uint64_t>();
      T values;
      if constexpr (std::is_trivially_copyable_v<Item>) {
        check<RankError>(count <= bytes_.size(), "ranks: a message is damaged");
        values.resize(count);
        const auto data = take(count * sizeof(Item));
        if (count > 0) std::memcpy(values.data(), data.data(), data.size());
      } else {
        for (std::uint64_t i = 0; i < count; ++i) values.push_back(get<Item>());
      }
      return values;
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      T value;
      std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
      return value;
    }
  }
  std::span<const std::byte> take(std::uint64_t size) {
    check<RankError>(size <= bytes_.size(), "ranks: a message is {} bytes too short", size - bytes_.size());
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace binade::amp
