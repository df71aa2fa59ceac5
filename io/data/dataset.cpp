#include "binade/io/data/dataset.h"

#include <cxxabi.h>

#include <cstdlib>

#include "binade/core/sha256.h"
#include "binade/io/data/batch_order.h"

namespace binade::io {

// Hashes the index with k, so that each chain of part() calls gets another index (unless 32-bit hashes collide).
SampleContext SampleContext::part(std::uint32_t k) const {
  SampleContext other = *this;
  other.index = philox4x32({index, k, 0, 0}, {0, 0})[0];
  return other;
}

namespace detail {
namespace {

template <class E>
[[noreturn]] void rethrow_as(const std::string& text, const E&) {
  std::throw_with_nested(E(text));
}

void update(Sha256& hash, const std::string& text) { hash.update(text.data(), text.size()); }

}  // namespace

std::string class_name(const std::type_info& type) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : type.name();
  std::free(demangled);
  name = name.substr(0, name.find('<'));
  const std::size_t colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

void rethrow_at(const std::function<std::string()>& place) {
  const auto text = [&](const std::exception& error) { return place() + ": " + error.what(); };
  try {
    throw;
  } catch (const OutOfMemoryError& e) {
    rethrow_as(text(e), e);
  } catch (const DataError& e) {
    rethrow_as(text(e), e);
  } catch (const ShapeError& e) {
    rethrow_as(text(e), e);
  } catch (const DTypeError& e) {
    rethrow_as(text(e), e);
  } catch (const DeviceError& e) {
    rethrow_as(text(e), e);
  } catch (const ArgumentError& e) {
    rethrow_as(text(e), e);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc& e) {
    std::throw_with_nested(OutOfMemoryError(text(e)));
  } catch (const std::exception& e) {
    std::throw_with_nested(DataError(text(e)));
  }
}

void check_index(const std::string& name, std::int64_t index, std::int64_t size) {
  check<ArgumentError>(index >= 0 && index < size, "{}: wanted a sample from 0 to {}, got {}", name, size - 1, index);
}

std::string content_of_texts(const std::vector<std::string>& texts) {
  Sha256 hash;
  for (const std::string& text : texts) {
    update(hash, fmt::format("{}\n", text.size()));
    update(hash, text);
  }
  return to_hex(hash.digest());
}

std::string content_of_tensors(std::span<const Tensor> tensors) {
  Sha256 hash;
  for (const Tensor& one : tensors) {
    update(hash, fmt::format("{} {}\n", name_of(one.dtype()), one.shape()));
    if (one.bytes() > 0) hash.update(one.raw(), one.bytes());
  }
  return to_hex(hash.digest());
}

std::string content_with(const std::string& content, const std::string& change) {
  return content.empty() ? content : content_of_texts({content, change});
}

std::vector<std::vector<std::int64_t>> split_indices(std::int64_t size, const std::vector<std::int64_t>& sizes,
                                                     std::uint64_t seed) {
  std::int64_t sum = 0;
  bool fits = true;
  for (const std::int64_t part : sizes) {
    fits = fits && part >= 0 && part <= size - sum;
    if (fits) sum += part;
  }
  check<ArgumentError>(fits && sum == size, "random_split: wanted sizes that add up to {} samples, got {}", size,
                       fits ? std::to_string(sum) : "others");
  const std::vector<std::int64_t> order = random_permutation(size, seed, 0, 8);
  std::vector<std::vector<std::int64_t>> parts;
  auto from = order.begin();
  for (const std::int64_t part : sizes) {
    parts.emplace_back(from, from + part);
    from += part;
  }
  return parts;
}

std::vector<std::int64_t> held_out_sizes(std::int64_t size, double fraction) {
  const std::int64_t held_out = held_out_count(size, fraction);
  check<DataError>(held_out < size, "random_split: {} samples leave none after holding out {}", size, held_out);
  return {size - held_out, held_out};
}

}  // namespace detail
}  // namespace binade::io
