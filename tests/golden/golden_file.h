#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::golden {

/// One tensor of a golden case, with its dtype in the file. golden_text.py describes the format.
struct Array {
  DType dtype = DType::f64;  ///< floating, integer or bool
  std::vector<std::int64_t> dims{};
  std::vector<double> values{};  ///< row-major; i64 is exact if |value| < 2^53

  Shape shape() const { return Shape(dims); }
  /// The values as a tensor, in the array's dtype or in `as` (each value is rounded once).
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
  /// These throw std::runtime_error, which names the case and the missing entry or the invalid number.
  const Array& array(const std::string& role) const;
  const std::string& text(const std::string& key) const;
  std::int64_t integer(const std::string& key) const;
  std::vector<std::int64_t> integers(const std::string& key) const;  ///< "1,2,3"; "-" is the empty list
  double number(const std::string& key) const;
  bool flag(const std::string& key) const;  ///< "true" or "false"
};

/// Reads a whole file. Throws std::runtime_error with file, line and reason for an unknown word, a wrong number of
/// values, a second case or tensor of the same name, a case without op or end, or a value out of its dtype's range.
std::vector<Case> read(const std::string& path);
std::vector<Case> parse(std::string_view text, const std::string& name);

/// The folder of the golden files: $BINADE_GOLDEN_DIR (set by `meson test`), else tests/golden/data.
std::string folder();

/// Tolerance for the difference of a result `got` from the exact `want`: rtol |want| + share * max|want|, and at least
/// `absolute`. The term with `share` is for elements whose terms cancel; `absolute` is for terms that are much larger
/// than all results. If max|want| is at most 1e-13, `want` consists of rounding errors of doubles, and the tolerance is
/// the larger of 1e-13 and `absolute`.
struct Tolerance {
  double rtol = 1e-5;
  double share = 1e-6;
  double absolute = 0;
};

/// Empty if the shapes are equal, NaNs are in the same places and every element is within the tolerance; otherwise a
/// line that names the worst element.
std::string difference(const Tensor& got, const Array& want, const Tolerance& tolerance);

}  // namespace binade::golden
