#include "binade/nn/containers.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "binade/core/error.h"

namespace binade::nn {
namespace {

template <class Items>
std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.first);
  return names;
}

template <class Items>
bool has(const Items& items, const std::string& name) {
  return std::ranges::any_of(items, [&](const auto& item) { return item.first == name; });
}

template <class Items>
auto& found(Items& items, const std::string& name, const std::string& kind) {
  const auto at = std::ranges::find_if(items, [&](const auto& item) { return item.first == name; });
  if (at == items.end())
    throw ArgumentError(
        fmt::format("{}: wanted one of the names {}, got '{}'", kind, fmt::join(names_of(items), ", "), name));
  return at->second;
}

}  // namespace

void detail::check_member_name(const std::string& kind, const std::string& name, bool in_use) {
  check<ArgumentError>(!name.empty() && name.find('.') == std::string::npos && !in_use,
                       "{}: wanted a new name without dots, got '{}'{}", kind, name, in_use ? ", which is in use" : "");
}

Module& ModuleDict::operator[](const std::string& name) { return *found(items_, name, kind()); }
bool ModuleDict::contains(const std::string& name) const { return has(items_, name); }
std::vector<std::string> ModuleDict::names() const { return names_of(items_); }

Parameter& ParameterDict::add(const std::string& name, const Tensor& value) {
  detail::check_member_name(kind(), name, contains(name));
  return items_.emplace_back(name, Parameter(value)).second;
}
Parameter& ParameterDict::operator[](const std::string& name) { return found(items_, name, kind()); }
bool ParameterDict::contains(const std::string& name) const { return has(items_, name); }
std::vector<std::string> ParameterDict::names() const { return names_of(items_); }

}  // namespace binade::nn
