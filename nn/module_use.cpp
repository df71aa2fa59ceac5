#include "binade/nn/module_use.h"

#include <algorithm>
#include <utility>

#include "binade/core/per_thread.h"
#include "binade/core/step_context.h"
#include "binade/nn/module.h"

namespace binade::nn {
namespace {
thread_local ModuleUse* module_use = nullptr;
constinit thread_local PerThread<std::string> last_parameter_name;
}  // namespace

ModuleUse::ModuleUse() : outer_(std::exchange(module_use, this)) {}
ModuleUse::~ModuleUse() { module_use = outer_; }

void ModuleUse::note_mode(const Module& module) {
  if (module_use == nullptr || std::ranges::count(module_use->modes_, &module, &Mode::module) > 0) return;
  module_use->modes_.push_back({&module, module.kind(), step_context().module_path});
}

void ModuleUse::note_evaluation(const Module& module) {
  if (module_use == nullptr || module_use->evaluating_.module != nullptr) return;
  module_use->evaluating_ = {&module, module.kind(), step_context().module_path};
}

void ModuleUse::note_parameter(const std::string& name) { last_parameter_name.get() = name; }

const std::string& ModuleUse::last_parameter() { return last_parameter_name.get(); }

void ModuleUse::note_write(const Buffer& buffer) {
  if (module_use == nullptr || std::ranges::count(module_use->writes_, &buffer, &Write::buffer) > 0) return;
  module_use->writes_.push_back({&buffer, step_context().module_path});
}

}  // namespace binade::nn
