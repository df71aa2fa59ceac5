#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "binade/core/shape.h"
#include "binade/core/state_dict.h"

namespace binade::examples {

/// What a checkpoint says about the shape of its model, held against the weights in it before a model is built: anybody
/// may have written it. Every member throws CheckpointError that names the field and what was wanted.
class Architecture {
 public:
  /// `model`: "gpt" or "unet". Throws when the checkpoint describes none, or another.
  Architecture(const StateDict& checkpoint, const std::string& model);

  std::int64_t whole(const std::string& field, std::int64_t low, std::int64_t high) const;
  bool flag(const std::string& field) const;

  /// The weight `name` is there and has this shape.
  void expect(const std::string& name, const Shape& shape) const;
  /// The checkpoint has no weight `name`.
  void expect_none(const std::string& name) const;
  /// `holds`, or the fields do not fit each other; `what` says which should.
  void expect_fit(bool holds, const std::string& what) const;

 private:
  const StateDict& checkpoint_;
  std::map<std::string, std::variant<std::int64_t, bool>> fields_;
  std::string shown_;  // the whole description, cut
};

}  // namespace binade::examples
