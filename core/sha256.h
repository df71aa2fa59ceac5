#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace binade {

/// SHA-256 (FIPS 180-4) of a byte stream, by libcrypto, which uses the processor's own instructions where it has them.
class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(const void* bytes, std::size_t count);
  void update(std::span<const std::byte> bytes) { update(bytes.data(), bytes.size()); }
  /// The digest of everything so far, which ends the stream: a later update() or digest() throws ArgumentError.
  Digest digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256::Digest& digest);

Sha256::Digest sha256(std::span<const std::byte> bytes);
/// The same of a text, as hexadecimal digits.
std::string sha256_hex(std::string_view text);

}  // namespace binade
