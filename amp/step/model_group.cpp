#include "binade/amp/step/model_group.h"

#include <algorithm>
#include <map>
#include <set>

#include "binade/core/error.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {
namespace {

class ModelGroup final : public nn::Module {
 public:
  explicit ModelGroup(const std::vector<NamedModel>& models) : models_(models) {}
  void visit(nn::Visitor& visitor) override {
    for (const NamedModel& one : models_) visitor(one.name, one.model);
  }
  std::string kind() const override { return "ModelGroup"; }

 private:
  std::vector<NamedModel> models_;
};

/// Throws ArgumentError unless the names of `participants` are unique and can be parts of a path. A single one needs no
/// name.
template <class Named>
void check_names(std::string_view what, const std::vector<Named>& participants) {
  check<ArgumentError>(!participants.empty(), "trainer: wanted at least one {}, got none", what);
  std::set<std::string> names;
  for (const Named& one : participants) {
    check<ArgumentError>((!one.name.empty() || participants.size() == 1) &&
                             one.name.find_first_of("/ ") == one.name.npos,
                         "trainer: wanted a name without spaces and slashes for each {}, got '{}'", what, one.name);
    check<ArgumentError>(names.insert(one.name).second, "trainer: two {}s are called '{}'; give each its own name",
                         what, one.name);
  }
}

/// Returns the parameters of a model with their paths.
std::map<const void*, std::string> paths_of(nn::Module& model) {
  std::map<const void*, std::string> paths;
  for (const auto& [path, parameter] : nn::named_parameters(model)) paths[parameter->state().get()] = path;
  return paths;
}

}  // namespace

std::unique_ptr<nn::Module> group_of(const Participants& participants) {
  check_names("model", participants.models);
  check_names("optimizer", participants.optimizers);
  if (participants.models.size() == 1 && participants.models.front().name.empty()) return nullptr;
  return std::make_unique<ModelGroup>(participants.models);
}

std::vector<std::unique_ptr<optim::Ema>> follow(const Participants& participants) {
  std::vector<std::unique_ptr<optim::Ema>> followers(participants.optimizers.size());
  for (const NamedModel& teacher : participants.models) {
    if (teacher.average_of == nullptr) continue;
    const std::map<const void*, std::string> students = paths_of(*teacher.average_of);
    std::map<std::string, Tensor> averages;  // by path within the student
    for (std::size_t i = 0; i < followers.size(); ++i) {
      const NamedOptimizer& one = participants.optimizers[i];
      optim::FlatParameters& parameters = one.optimizer.parameters();
      const auto is_student = [&](const optim::FlatParameters::Slice& slice) {
        return students.contains(slice.variable.state().get());
      };
      if (std::ranges::none_of(parameters.slices(), is_student)) continue;
      check<ArgumentError>(std::ranges::all_of(parameters.slices(), is_student) && !followers[i],
                           "trainer: {} follows another model, whose optimizer {} must hold the parameters of no other "
                           "model and be followed once; give the student its own optimizer",
                           teacher.name, one.name);
      followers[i] = std::make_unique<optim::Ema>(parameters, teacher.average);
      for (std::size_t p = 0; p < parameters.size(); ++p)
        averages.emplace(students.at(parameters.slices()[p].variable.state().get()), followers[i]->average(p));
    }
    for (const auto& [path, parameter] : nn::named_parameters(teacher.model)) {
      const auto average = averages.find(path);
      check<ArgumentError>(average != averages.end() && average->second.shape() == parameter->shape(),
                           "trainer: {} follows another model, which has no trained parameter {} {}", teacher.name,
                           path, parameter->shape());
      parameter->state()->value = average->second;
      parameter->state()->forget_copies();
      parameter->state()->requires_grad = false;
    }
  }
  return followers;
}

}  // namespace binade::amp
