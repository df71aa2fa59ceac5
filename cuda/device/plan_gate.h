#pragma once

#include <set>
#include <string>
#include <vector>

/// Decides which calls libraries may compute. This file includes no header of a library.
namespace binade::cuda {

/// Refuses the keys of quarantined plans, or all keys while Binade's own kernels must compute everything (decision
/// 0063). Callers must hold Context::mutex.
class PlanGate {
 public:
  /// Sets the refused keys, one per line.
  void refuse(const std::string& keys);
  /// If `all` is true, all keys are refused and recorded from now on. Called before each kernel.
  void refuse_all(bool all) { all_ = all; }
  /// Returns true if some key is refused.
  bool is_active() const { return all_ || !refused_.empty(); }
  /// Returns true if libraries must not compute the key whose text `key_text()` returns, and reports a quarantined key
  /// once. Calls key_text() only if some key is refused.
  template <class KeyText>
  bool refuses(KeyText&& key_text, void (*report)(const std::string& line)) {
    return is_active() && refuses_key(key_text(), report);
  }
  /// Returns the keys that were recorded since the last call, one per line, in order of their first use.
  std::string take_recorded();

 private:
  bool refuses_key(const std::string& key, void (*report)(const std::string& line));

  bool all_ = false;
  std::set<std::string> refused_, reported_;
  std::vector<std::string> recorded_;
};

/// Returns the gate of the module's libraries.
PlanGate& plan_gate();

}  // namespace binade::cuda
