#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "binade/core/tensor.h"

namespace binade {

/// Everything a run must remember, by name: "model/blocks.0.norm1.weight", "amp/scale". Owners fill it; only `io/`
/// writes it. Sorted by name, so that the same state gives the same bytes.
class StateDict {
 public:
  using Integers = std::vector<std::int64_t>;
  using Numbers = std::vector<double>;
  using Value = std::variant<Tensor, std::int64_t, double, std::string, Integers, Numbers>;

  /// Throws ArgumentError when the name is taken.
  void put(const std::string& name, Value value);
  bool contains(const std::string& name) const { return values_.contains(name); }
  /// Throw CheckpointError naming the entry when it is missing or of another kind.
  const Tensor& tensor(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  const std::string& text(const std::string& name) const;
  const Integers& integers(const std::string& name) const;
  const Numbers& numbers(const std::string& name) const;

  /// Entries under "prefix/", with the prefix taken off; and all entries of `other` put under "prefix/".
  StateDict section(const std::string& prefix) const;
  void merge(const std::string& prefix, const StateDict& other);

  const std::map<std::string, Value>& values() const { return values_; }
  bool empty() const { return values_.empty(); }

 private:
  std::map<std::string, Value> values_;
};

}  // namespace binade
