#pragma once

#include <string>
#include <vector>

#include "binade/core/scope.h"

namespace binade::nn {

class Buffer;
class Module;

/// During its lifetime, collects the modules in training mode whose forward depends on that mode (dropout, batch norm),
/// and the buffers that are written, on this thread. The Trainer compares them with those that visit() names.
class ModuleUse : NonCopyable {
 public:
  struct Mode {
    const Module* module = nullptr;  ///< may be destroyed
    std::string kind{}, path{};      ///< its path, or else the path of the module that called it
  };
  struct Write {
    const Buffer* buffer = nullptr;  ///< may be destroyed
    std::string path{};              ///< path of the module that wrote it
  };

  ModuleUse();
  ~ModuleUse();
  const std::vector<Mode>& modes() const { return modes_; }
  const std::vector<Write>& writes() const { return writes_; }
  /// The first module whose forward depends on the mode and found evaluation mode; `module` is null if there was none.
  const Mode& evaluating() const { return evaluating_; }

  /// Called by Module::training() and Buffer::writable().
  static void note_mode(const Module& module);
  static void note_evaluation(const Module& module);
  static void note_write(const Buffer& buffer);
  /// Called by Parameter::mutable_value().
  static void note_parameter(const std::string& name);
  /// Returns the name of the parameter that this thread asked for last, to write it; empty if it has no name.
  static const std::string& last_parameter();

 private:
  ModuleUse* outer_;
  std::vector<Mode> modes_;
  std::vector<Write> writes_;
  Mode evaluating_{};
};

}  // namespace binade::nn
