#include "binade/cuda/device/plan_gate.h"

#include <algorithm>
#include <sstream>

namespace binade::cuda {

void PlanGate::refuse(const std::string& keys) {
  refused_.clear();
  std::istringstream lines(keys);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) refused_.insert(line);
}

bool PlanGate::refuses_key(const std::string& key, void (*report)(const std::string& line)) {
  if (all_) {
    if (std::ranges::find(recorded_, key) == recorded_.end()) recorded_.push_back(key);
    return true;
  }
  if (!refused_.contains(key)) return false;
  if (reported_.insert(key).second)
    report(key + ": computed by Binade's own kernel: the library's plan is quarantined");
  return true;
}

std::string PlanGate::take_recorded() {
  std::string text;
  for (const std::string& key : recorded_) text += key + "\n";
  recorded_.clear();
  return text;
}

PlanGate& plan_gate() {
  static auto* const only = new PlanGate;  // never destroyed: kernels may run until the process ends
  return *only;
}

}  // namespace binade::cuda
