#include "binade/amp/state_hash.h"

#include "binade/core/sha256.h"

namespace binade::amp {
namespace {

constexpr std::array<std::string_view, 7> kSections = {"callbacks", "data", "model", "norm", "optim", "rng", "sched"};

bool is_hashed(std::string_view name) {
  if (name == "data/quarantine") return false;  // an aborted step may change the quarantine
  return std::ranges::find(kSections, name.substr(0, name.find('/'))) != kSections.end();
}

class Writer {
 public:
  explicit Writer(Sha256& sha) : sha_(sha) {}

  void number(std::uint64_t x) {
    std::array<std::uint8_t, 8> bytes{};
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(x >> (8 * i));
    sha_.update(bytes.data(), bytes.size());
  }
  void text(std::string_view s) {
    number(s.size());
    sha_.update(s.data(), s.size());
  }

  void operator()(const Tensor& tensor) {
    text(name_of(tensor.dtype()));
    number(static_cast<std::uint64_t>(tensor.rank()));
    for (const std::int64_t dim : tensor.shape().dims()) number(static_cast<std::uint64_t>(dim));
    if (tensor.bytes() == 0) return;
    const Tensor host = tensor.on_host();
    sha_.update(host.raw(), host.bytes());
  }
  void operator()(std::int64_t x) {
    text("integer");
    number(static_cast<std::uint64_t>(x));
  }
  void operator()(double x) {
    text("number");
    number(std::bit_cast<std::uint64_t>(x));
  }
  void operator()(const std::string& s) {
    text("text");
    text(s);
  }
  void operator()(const StateDict::Integers& list) { numbers("integers", list); }
  void operator()(const StateDict::Numbers& list) { numbers("numbers", list); }

 private:
  template <class T>
  void numbers(std::string_view kind, const std::vector<T>& list) {
    text(kind);
    number(list.size());
    for (const T x : list) number(std::bit_cast<std::uint64_t>(x));
  }

  Sha256& sha_;
};

}  // namespace

std::string state_hash(const StateDict& state) {
  Sha256 sha;
  Writer writer(sha);
  for (const auto& [name, value] : state.values()) {
    if (!is_hashed(name)) continue;
    writer.text(name);
    std::visit(writer, value);
  }
  return to_hex(sha.digest());
}

}  // namespace binade::amp
