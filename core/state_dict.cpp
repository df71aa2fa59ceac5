#include "binade/core/state_dict.h"

namespace binade {
namespace {

template <class T>
const T& get(const std::map<std::string, StateDict::Value>& values, const std::string& name, const char* kind) {
  const auto it = values.find(name);
  check<CheckpointError>(it != values.end(), "state: wanted {} '{}', which is missing", kind, name);
  const T* value = std::get_if<T>(&it->second);
  check<CheckpointError>(value != nullptr, "state: '{}' is not {} but something else", name, kind);
  return *value;
}

}  // namespace

void StateDict::put(const std::string& name, Value value) {
  const bool fresh = values_.emplace(name, std::move(value)).second;
  check<ArgumentError>(fresh, "state: '{}' is there already; names must be unique", name);
}

const Tensor& StateDict::tensor(const std::string& name) const { return get<Tensor>(values_, name, "a tensor"); }
std::int64_t StateDict::integer(const std::string& name) const {
  return get<std::int64_t>(values_, name, "an integer");
}
double StateDict::number(const std::string& name) const { return get<double>(values_, name, "a number"); }
const std::string& StateDict::text(const std::string& name) const { return get<std::string>(values_, name, "a text"); }
const StateDict::Integers& StateDict::integers(const std::string& name) const {
  return get<Integers>(values_, name, "a list of integers");
}
const StateDict::Numbers& StateDict::numbers(const std::string& name) const {
  return get<Numbers>(values_, name, "a list of numbers");
}

StateDict StateDict::section(const std::string& prefix) const {
  StateDict result;
  const std::string start = prefix + "/";
  for (auto it = values_.lower_bound(start); it != values_.end() && it->first.starts_with(start); ++it)
    result.values_.emplace(it->first.substr(start.size()), it->second);
  return result;
}

void StateDict::merge(const std::string& prefix, const StateDict& other) {
  for (const auto& [name, value] : other.values_) put(prefix + "/" + name, value);
}

}  // namespace binade
