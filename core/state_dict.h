#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "binade/core/tensor.h"

namespace binade {

/// Named values that a run must save: "model/blocks.0.norm1.weight", "amp/scale". Sorted by name, so that the same
/// state gives the same bytes. Only io/ writes it to files.
class StateDict {
 public:
  using Integers = std::vector<std::int64_t>;
  using Numbers = std::vector<double>;
  using Value = std::variant<Tensor, std::int64_t, double, std::string, Integers, Numbers>;

  /// Adds an entry. Throws ArgumentError if an entry with this name exists.
  void put(const std::string& name, Value value);
  bool contains(const std::string& name) const { return values_.contains(name); }
  /// Return the entry. Throw CheckpointError with its name if it is missing or of another type.
  const Tensor& tensor(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  const std::string& text(const std::string& name) const;
  const Integers& integers(const std::string& name) const;
  const Numbers& numbers(const std::string& name) const;

  /// Returns the entries whose names begin with "prefix/", under the rest of their names.
  StateDict section(const std::string& prefix) const;
  /// Adds all entries of `other` with "prefix/" before their names.
  void merge(const std::string& prefix, const StateDict& other);

  const std::map<std::string, Value>& values() const { return values_; }
  bool empty() const { return values_.empty(); }

 private:
  std::map<std::string, Value> values_;
};

}  // namespace binade
