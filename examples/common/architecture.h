#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "binade/core/shape.h"
#include "binade/core/state_dict.h"

namespace binade::examples {

/// A checkpoint's description of its model. It is untrusted, and is compared with the weights in the checkpoint before
/// a model is built. Every member throws CheckpointError that names the field and the expected value.
class Architecture {
 public:
  /// Reads the description. Throws if the checkpoint does not describe a `model` ("gpt" or "unet").
  Architecture(const StateDict& checkpoint, const std::string& model);

  /// Returns an integer field, which must be in [low, high].
  std::int64_t integer(const std::string& field, std::int64_t low, std::int64_t high) const;
  /// Returns a field that is true or false.
  bool flag(const std::string& field) const;

  /// Requires that the checkpoint has a weight `name` of this shape.
  void expect(const std::string& name, const Shape& shape) const;
  /// Requires that the checkpoint has no weight `name`.
  void expect_none(const std::string& name) const;
  /// Requires that `holds` is true. Otherwise fields contradict each other, and the error text asks for `what`.
  void expect_fit(bool holds, const std::string& what) const;

 private:
  const StateDict& checkpoint_;
  std::map<std::string, std::variant<std::int64_t, bool>> fields_;
  std::string shown_;  // the description, truncated, for error texts
};

}  // namespace binade::examples
