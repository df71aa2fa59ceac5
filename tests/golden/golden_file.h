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
  DType dtype = DType::f64;  ///< of any kind
  std::vector<std::int64_t> dims{};
  std::vector<double> values{};  ///< row-major; exact, of i64 if |value| < 2^53

  Shape shape() const { return Shape(dims); }
  /// The values as a tensor of the array's dtype, or of another (each value rounded once).
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

/// Tolerance of a result `got` against the exact `want`: |got - want| <= rtol |want| + share * max|want|. The second
/// term covers elements that result from cancellation, whose error scales with the cancelled terms; `absolute`, which
/// is allowed everywhere, those whose terms are much larger than all results. If all of `want` is below 1e-13, which is
/// rounding error of doubles, the tolerance is the larger of this number and `absolute`.
struct Tolerance {
  double rtol = 1e-5;
  double share = 1e-6;
  double absolute = 0;
};

/// Empty if the shapes are equal, NaNs are in the same places and every element is within the tolerance; otherwise a
/// line that names the worst element.
std::string difference(const Tensor& got, const Array& want, const Tolerance& tolerance);

}  // namespace binade::golden
