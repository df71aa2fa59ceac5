#include "tests/golden/golden_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace binade::golden {
namespace {

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error(text); }

double to_number(const std::string& word, const std::string& where) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != '\0') fail(fmt::format("{}: '{}' is not a number", where, word));
  return value;
}

std::int64_t to_integer(const std::string& word, const std::string& where) {
  char* end = nullptr;
  const long long value = std::strtoll(word.c_str(), &end, 10);
  if (word.empty() || *end != '\0') fail(fmt::format("{}: '{}' is not an integer", where, word));
  return value;
}

std::vector<std::int64_t> to_integers(const std::string& word, const std::string& where) {
  std::vector<std::int64_t> values;
  if (word == "-") return values;
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = word.find(',', begin);
    values.push_back(to_integer(word.substr(begin, comma - begin), where));
    if (comma == std::string::npos) return values;
    begin = comma + 1;
  }
}

DType to_dtype(const std::string& word, const std::string& where) {
  for (const DType d :
       {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u8, DType::boolean})
    if (word == name_of(d)) return d;
  fail(fmt::format("{}: '{}' is not f32, f16, bf16, f64, i64, i32, u8 or bool", where, word));
}

double to_value(const std::string& word, DType dtype, const std::string& where) {
  if (is_floating(dtype)) {
    if (dtype == DType::f64) return to_number(word, where);
    to_number(word, where);
    return static_cast<double>(std::strtof(word.c_str(), nullptr));
  }
  const std::int64_t value = to_integer(word, where);
  if (dtype == DType::boolean && value != 0 && value != 1) fail(fmt::format("{}: '{}' is not 0 or 1", where, word));
  if (dtype == DType::u8 && (value < 0 || value > 255)) fail(fmt::format("{}: '{}' is not in 0 … 255", where, word));
  return static_cast<double>(value);
}

Array read_array(std::istringstream& words, const std::string& where) {
  std::string dtype, dims, colon, word;
  words >> dtype >> dims >> colon;
  if (colon != ":") fail(where + ": wanted 'tensor ROLE DTYPE DIMS : values'");
  Array array;
  array.dtype = to_dtype(dtype, where);
  array.dims = to_integers(dims, where);
  while (words >> word) array.values.push_back(to_value(word, array.dtype, where));
  if (static_cast<std::int64_t>(array.values.size()) != array.shape().numel())
    fail(fmt::format("{}: shape {} wants {} values, got {}", where, array.shape().to_string(), array.shape().numel(),
                     array.values.size()));
  return array;
}

void read_line(Case& open, const std::string& keyword, std::istringstream& words, const std::string& where) {
  std::string name, value, extra;
  words >> name;
  if (name.empty()) fail(where + ": nothing after '" + keyword + "'");
  bool fresh = true;
  if (keyword == "tensor") {
    fresh = open.arrays.emplace(name, read_array(words, where)).second;
  } else if (keyword == "param") {
    if (!(words >> value)) fail(where + ": param " + name + " has no value");
    fresh = open.params.emplace(name, value).second;
  } else if (keyword == "op") {
    fresh = open.op.empty();
    open.op = name;
  } else {
    fail(fmt::format("{}: unknown word '{}'", where, keyword));
  }
  if (!fresh) fail(fmt::format("{}: a second '{} {}' in case {}", where, keyword, name, open.name));
  if (words >> extra) fail(fmt::format("{}: '{}' is left over", where, extra));
}

template <class T>
Tensor convert(const std::vector<double>& values, const Shape& shape) {
  Tensor t = Tensor::empty(shape, kDTypeOf<T>);
  for (std::size_t i = 0; i < values.size(); ++i) t.mutable_data<T>()[i] = static_cast<T>(values[i]);
  return t;
}

}  // namespace

Tensor Array::tensor(DType as) const {
  switch (as) {
    case DType::f64: return convert<double>(values, shape());
    case DType::f32: return convert<float>(values, shape());
    case DType::i64: return convert<std::int64_t>(values, shape());
    case DType::i32: return convert<std::int32_t>(values, shape());
    case DType::u8: return convert<std::uint8_t>(values, shape());
    case DType::boolean: return convert<bool>(values, shape());
    default: return convert<float>(values, shape()).to(as);
  }
}

const Array& Case::array(const std::string& role) const {
  const auto found = arrays.find(role);
  if (found == arrays.end()) fail(fmt::format("golden case {}: no tensor {}", name, role));
  return found->second;
}

const std::string& Case::text(const std::string& key) const {
  const auto found = params.find(key);
  if (found == params.end()) fail(fmt::format("golden case {}: no param {}", name, key));
  return found->second;
}

std::int64_t Case::integer(const std::string& key) const { return to_integer(text(key), "golden case " + name); }

std::vector<std::int64_t> Case::integers(const std::string& key) const {
  return to_integers(text(key), "golden case " + name);
}

double Case::number(const std::string& key) const { return to_number(text(key), "golden case " + name); }

bool Case::flag(const std::string& key) const {
  const std::string& value = text(key);
  if (value != "true" && value != "false")
    fail(fmt::format("golden case {}: {} is '{}', not true or false", name, key, value));
  return value == "true";
}

std::vector<Case> parse(std::string_view text, const std::string& name) {
  std::vector<Case> cases;
  std::set<std::string> names;
  std::istringstream lines{std::string(text)};
  std::string line, keyword;
  bool inside = false;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string where = fmt::format("{}:{}", name, number);
    std::istringstream words(line);
    if (!(words >> keyword) || keyword.front() == '#') continue;
    if (keyword == "case") {
      if (inside) fail(where + ": case " + cases.back().name + " has no end");
      Case& opened = cases.emplace_back();
      std::string extra;
      if (!(words >> opened.name) || words >> extra) fail(where + ": wanted 'case NAME'");
      if (!names.insert(opened.name).second) fail(where + ": a second case " + opened.name);
      inside = true;
    } else if (!inside) {
      fail(fmt::format("{}: '{}' outside a case", where, keyword));
    } else if (keyword == "end") {
      if (cases.back().op.empty()) fail(where + ": case " + cases.back().name + " has no op");
      inside = false;
    } else {
      read_line(cases.back(), keyword, words, where);
    }
  }
  if (inside) fail(name + ": case " + cases.back().name + " has no end");
  if (cases.empty()) fail(name + ": no case in it");
  return cases;
}

std::vector<Case> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path + ": cannot be opened");
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str(), path);
}

std::string folder() {
  if (const char* given = std::getenv("BINADE_GOLDEN_DIR")) return given;
  return "tests/golden/data";
}

std::string difference(const Tensor& got, const Array& want, const Tolerance& tolerance) {
  if (!(got.shape() == want.shape()))
    return fmt::format("wanted shape {}, got {}", want.shape().to_string(), got.shape().to_string());
  double scale = 0;
  for (const double w : want.values)
    if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
  // A gradient may be 0 except for rounding errors, such as that of a key's bias. It has no digits to compare.
  constexpr double kRounding = 1e-13;
  double worst = 0;
  std::string text;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const double w = want.values[i], g = got.at(static_cast<std::int64_t>(i));
    if (w == g || (std::isnan(w) && std::isnan(g))) continue;
    const double relative = scale > kRounding ? tolerance.rtol * std::abs(w) + tolerance.share * scale
                            : scale > 0       ? kRounding
                                              : 0;
    const double allowed = std::max(tolerance.absolute, relative);
    const double excess = std::abs(g - w) / allowed;
    if (excess <= 1 || excess <= worst) continue;
    worst = std::isnan(excess) ? HUGE_VAL : excess;
    text = fmt::format("element {}: wanted {:.9g}, got {:.9g}, off by {:.3g}, allowed {:.3g}", i, w, g, std::abs(g - w),
                       allowed);
  }
  return text;
}

}  // namespace binade::golden
