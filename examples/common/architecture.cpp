#include "examples/common/architecture.h"

#include <nlohmann/json.hpp>

#include "binade/core/error.h"
#include "binade/io/text/json_reader.h"

namespace binade::examples {
namespace {

constexpr std::uint64_t kMostBytes = 4096;

nlohmann::json parsed(const std::string& text) {
  try {
    return io::parse_json<nlohmann::json>(text, "checkpoint: the description of its model", {.bytes = kMostBytes});
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace

Architecture::Architecture(const StateDict& checkpoint, const std::string& model) : checkpoint_(checkpoint) {
  const std::string& text = checkpoint.text("progress/architecture");
  const nlohmann::json object = parsed(text);
  shown_ = text.substr(0, 200);
  const bool described = object.is_object() && object.contains("model") && object["model"] == model;
  check<CheckpointError>(described, "checkpoint: wanted a model '{}', it describes '{}'", model, shown_);
  for (const auto& [name, value] : object.items()) {
    if (value.is_boolean()) fields_[name] = value.get<bool>();
    // A number beyond an int64 is skipped, because no field accepts it.
    if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX))
      fields_[name] = value.get<std::int64_t>();
  }
}

std::int64_t Architecture::integer(const std::string& field, std::int64_t low, std::int64_t high) const {
  const auto found = fields_.find(field);
  const auto* value = found == fields_.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  check<CheckpointError>(value != nullptr && *value >= low && *value <= high,
                         "checkpoint: wanted '{}', a whole number from {} to {}, in the description of its model '{}'",
                         field, low, high, shown_);
  return *value;
}

bool Architecture::flag(const std::string& field) const {
  const auto found = fields_.find(field);
  const auto* value = found == fields_.end() ? nullptr : std::get_if<bool>(&found->second);
  check<CheckpointError>(value != nullptr,
                         "checkpoint: wanted '{}', true or false, in the description of its model '{}'", field, shown_);
  return *value;
}

void Architecture::expect(const std::string& name, const Shape& shape) const {
  const bool is_there = checkpoint_.contains("model/" + name);
  check<CheckpointError>(is_there, "checkpoint: its description '{}' wants a weight '{}' of {}, which it does not hold",
                         shown_, name, shape);
  const Shape& found = checkpoint_.tensor("model/" + name).shape();
  check<CheckpointError>(found == shape, "checkpoint: its description '{}' wants the weight '{}' of {}, it holds {}",
                         shown_, name, shape, found);
}

void Architecture::expect_none(const std::string& name) const {
  check<CheckpointError>(!checkpoint_.contains("model/" + name),
                         "checkpoint: it holds a weight '{}', which its description '{}' excludes", name, shown_);
}

void Architecture::expect_fit(bool holds, const std::string& what) const {
  check<CheckpointError>(holds, "checkpoint: wanted {} in the description of its model '{}'", what, shown_);
}

}  // namespace binade::examples
