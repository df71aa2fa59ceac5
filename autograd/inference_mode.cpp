#include "binade/autograd/inference_mode.h"

#include "binade/core/error.h"

namespace binade {
namespace {
thread_local bool t_inference = false;
}

InferenceMode::InferenceMode() : ScopedValue(t_inference, true), counting_(false) {}

bool InferenceMode::active() { return t_inference; }

void InferenceMode::refuse(std::string_view what, std::string_view advice) {
  check<AutogradError>(!active(), "{}: not possible inside an InferenceMode; {}", what, advice);
}

}  // namespace binade
