#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::golden {

/// One tensor of a golden case, at the precision it was written in. The format is described in golden_text.py.
struct Array {
  DType dtype = DType::f64;  ///< f32, f64, i32, i64 or bool
  std::vector<std::int64_t> dims{};
  std::vector<double> values{};  ///< row-major; exact for f32, i32 and bool, and for |i64| < 2^53

  Shape shape() const { return Shape(dims); }
  /// As a tensor of its own dtype, or of another one (each value rounded once).
  Tensor tensor() const { return tensor(dtype); }
  Tensor tensor(DType as) const;
};

/// One block `case … end`.
class Case {
 public:
  std::string name;
  std::string op;
  std::map<std::string, std::string> params;
  std::map<std::string, Array> arrays;  ///< by role: "in.x", "out.y", "gout.y", "gin.x"

  bool has(const std::string& role) const { return arrays.contains(role); }
  bool has_param(const std::string& key) const { return params.contains(key); }
  /// Throw std::runtime_error naming the case and what it lacks, or the word that is not a number.
  const Array& array(const std::string& role) const;
  const std::string& text(const std::string& key) const;
  std::int64_t integer(const std::string& key) const;
  std::vector<std::int64_t> integers(const std::string& key) const;  ///< "1,2,3"; "-" is the empty list
  double number(const std::string& key) const;
  bool flag(const std::string& key) const;  ///< "true" or "false"
};

/// Reads a whole file. Strict: an unknown word, a wrong number of values, a second case or tensor of one name, a case
/// without op or end, a value that does not fit its dtype throw std::runtime_error with file, line and reason.
std::vector<Case> read(const std::string& path);
std::vector<Case> parse(std::string_view text, const std::string& name);

/// The folder of the golden files: $BINADE_GOLDEN_DIR (set by `meson test`), else tests/golden/data.
std::string folder();

/// How far `got` may lie from the exact `want`: |got - want| <= rtol |want| + share * max|want|. The second term covers
/// elements that come out of cancellation: their error scales with the terms that cancelled.
/// Where nothing but zeros is wanted, no such scale is known: `zero` is allowed.
struct Tolerance {
  double rtol = 1e-5;
  double share = 1e-6;
  double zero = 0;
};

/// Empty when every element fits (same shape, NaN only where NaN is wanted), else a line that names the worst element.
std::string difference(const Tensor& got, const Array& want, const Tolerance& tolerance);

}  // namespace binade::golden
