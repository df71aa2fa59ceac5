#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "binade/doctor/commands.h"
#include "binade/doctor/selected_checkpoint.h"
#include "binade/io/terminal/console.h"

namespace binade::doctor {

namespace {

constexpr int kScreenLines = 40;

/// Describes how two tensors of one type differ; returns an empty text if all bits are equal.
std::string tensor_difference(const Tensor& a, const Tensor& b) {
  if (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0) return "";
  std::int64_t count = 0;
  double largest = 0;
  const std::size_t size = size_of(a.dtype());
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(static_cast<const std::byte*>(a.raw()) + at, static_cast<const std::byte*>(b.raw()) + at, size) ==
        0)
      continue;
    ++count;
    const double gap = std::abs(a.at(i) - b.at(i));
    if (!(gap <= largest)) largest = gap;  // also true if `gap` is NaN, which is then reported
  }
  return fmt::format("{}: {} of {} elements differ, by {:.3g} at most", type_text(a), count, a.numel(), largest);
}

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

/// True if all bits of two values of the same type, other than tensors, are equal: 0 and -0 differ, and a NaN equals
/// itself.
bool same_value(const StateDict::Value& a, const StateDict::Value& b) {
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, Tensor>)
          return false;
        else if constexpr (std::is_same_v<T, double>)
          return bits_of(x) == bits_of(y);
        else if constexpr (std::is_same_v<T, StateDict::Numbers>)
          return std::ranges::equal(x, y, {}, bits_of, bits_of);
        else
          return x == y;
      },
      a);
}

/// Describes how two entries of one name differ; returns an empty text if all bits are equal.
std::string difference(const StateDict::Value& a, const StateDict::Value& b) {
  if (a.index() != b.index() || type_text(a) != type_text(b))
    return fmt::format("{} -> {}", type_text(a), type_text(b));
  if (const auto* tensor = std::get_if<Tensor>(&a)) return tensor_difference(*tensor, std::get<Tensor>(b));
  if (same_value(a, b)) return "";
  const std::string was = value_text(a), is = value_text(b);
  return was == is ? "differ beyond the displayed text" : was + " -> " + is;
}

}  // namespace

int diff(const std::string& a, const std::string& b, bool all) {
  const StateDict before = load(a).checkpoint.state, after = load(b).checkpoint.state;
  int differing = 0;
  const auto report = [&](const std::string& name, const std::string& what) {
    if (++differing <= kScreenLines || all) io::print(fmt::format("{:<48} {}\n", one_line(name), what));
  };
  for (const auto& [name, value] : before.values()) {
    const auto found = after.values().find(name);
    if (found == after.values().end())
      report(name, "only in the first: " + type_text(value));
    else if (const std::string what = difference(value, found->second); !what.empty())
      report(name, what);
  }
  for (const auto& [name, value] : after.values())
    if (!before.contains(name)) report(name, "only in the second: " + type_text(value));
  if (differing > kScreenLines && !all) io::print(fmt::format("… and {} more: --all\n", differing - kScreenLines));
  if (differing == 0)
    io::print(fmt::format("the same state to the bit, {} entries\n", before.values().size()));
  else
    io::print(fmt::format("{} entries differ\n", differing));
  return differing == 0 ? 0 : 1;
}

}  // namespace binade::doctor
