#include "binade/core/sha256.h"

#include <openssl/evp.h>

#include "binade/core/error.h"

namespace binade {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  check<Error>(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1,
               "sha256: libcrypto refused to start a digest; check that OpenSSL's default provider is enabled");
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(const void* bytes, std::size_t count) {
  check<ArgumentError>(state_ != nullptr, "sha256: the stream was ended by digest(); start another");
  if (count == 0) return;
  check<Error>(EVP_DigestUpdate(state_->context, bytes, count) == 1, "sha256: libcrypto failed on {} bytes", count);
}

Sha256::Digest Sha256::digest() {
  check<ArgumentError>(state_ != nullptr, "sha256: the stream was ended by digest(); start another");
  Digest digest{};
  unsigned size = 0;
  check<Error>(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1 && size == digest.size(),
               "sha256: libcrypto failed to end the digest");
  state_.reset();
  return digest;
}

std::string to_hex(const Sha256::Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const std::uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Sha256::Digest sha256(std::span<const std::byte> bytes) {
  Sha256 stream;
  stream.update(bytes);
  return stream.digest();
}

std::string sha256_hex(std::string_view text) { return to_hex(sha256(std::as_bytes(std::span(text)))); }

}  // namespace binade
