#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace binade {

/// SHA-256 (FIPS 180-4) of a byte stream, computed by libcrypto, which uses the processor's SHA instructions if it has
/// them.
class Sha256 {
 public:
  /// The 32 bytes of a hash.
  using Digest = std::array<std::uint8_t, 32>;

  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(const void* bytes, std::size_t count);
  void update(std::span<const std::byte> bytes) { update(bytes.data(), bytes.size()); }
  /// Returns the digest of all bytes so far and ends the stream: a later update() or digest() throws ArgumentError.
  Digest digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256::Digest& digest);

Sha256::Digest sha256(std::span<const std::byte> bytes);
/// Returns the digest of a text in hexadecimal digits.
std::string sha256_hex(std::string_view text);

}  // namespace binade
