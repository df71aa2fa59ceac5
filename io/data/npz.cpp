#include "binade/io/data/npz.h"

#include <string_view>
#include <utility>

#include "binade/core/error.h"
#include "binade/io/data/npy.h"
#include "binade/io/files/output_file.h"
#include "binade/io/files/read_file.h"
#include "binade/io/files/zip.h"

namespace binade::io {

namespace {

constexpr std::string_view kSuffix = ".npy";

void check_is_zip(std::string_view begin, const std::string& name) {
  check<DataError>(is_zip(begin), "{}: wanted a .npz file, got {}", name,
                   is_npy(begin) ? "a .npy file; read it with read_npy()"
                                 : (begin.empty() ? "an empty file" : "something else"));
}

NpzArrays arrays_of(const ZipReader& zip) {
  NpzArrays arrays;
  for (const auto& [member, bytes] : zip.members()) {
    check<DataError>(member.ends_with(kSuffix), "{}: wanted .npy files in it, got {}", zip.name(), member);
    arrays.emplace(member.substr(0, member.size() - kSuffix.size()),
                   decode_npy(zip.read(member), zip.name() + ": " + member).values);
  }
  return arrays;
}

}  // namespace

NpzArrays decode_npz(std::span<const std::byte> file, const std::string& name) {
  check_is_zip({reinterpret_cast<const char*>(file.data()), file.size()}, name);
  return arrays_of(ZipReader(file, name));
}

NpzArrays read_npz(const std::string& path) {
  check_is_zip(read_begin(path, 6), path);
  return arrays_of(ZipReader(path));
}

std::vector<std::byte> encode_npz(const NpzArrays& arrays, const NpzOptions& options) {
  std::vector<std::pair<std::string, std::vector<std::byte>>> members;
  for (const auto& [name, tensor] : arrays) members.emplace_back(name + std::string(kSuffix), encode_npy(tensor));
  return encode_zip(members, options.compress);
}

void write_npz(const std::string& path, const NpzArrays& arrays, const NpzOptions& options) {
  write_output_file(path, encode_npz(arrays, options));
}

}  // namespace binade::io
