#include <cublasLt.h>
#include <cudnn.h>

#include <cstdio>
#include <mutex>

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/libraries.cuh"

namespace binade::cuda {
namespace {

struct Notes {
  std::mutex mutex;
  std::string text;
};
Notes& notes() {
  static Notes* const only = new Notes;
  return *only;
}

}  // namespace

void open_libraries(DeviceFacts& facts) {
  const std::size_t lt = cublasLtGetVersion();  // 10000 major + 100 minor + patch, like cuDNN's version
  std::snprintf(facts.cublaslt, sizeof facts.cublaslt, "%zu.%zu.%zu", lt / 10000, lt / 100 % 100, lt % 100);
  const std::size_t dnn = cudnnGetVersion();
  std::snprintf(facts.cudnn, sizeof facts.cudnn, "%zu.%zu.%zu", dnn / 10000, dnn / 100 % 100, dnn % 100);
  std::snprintf(facts.cudnn_built, sizeof facts.cudnn_built, "%d.%d.%d", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL);
}

std::string plans_text(const std::string& title, const std::set<std::string>& lines) {
  if (lines.empty()) return {};
  std::string text = title + "\n";
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string device_title() {
  return " sm_" + std::to_string(context().capability) + " multiprocessors " +
         std::to_string(context().multiprocessors);
}

std::string library_plans() { return gemm_plans() + conv_plans() + attention_plans(); }
int use_library_plans(const std::string& text) {
  return use_gemm_plans(text) + use_conv_plans(text) + use_attention_plans(text);
}

PlanChooser& plan_chooser() {
  static auto* const only = new PlanChooser(&add_note);
  return *only;
}
void choose_library_plans(const PlanOptions& options) {
  const bool other = (options.any_order != 0) != plan_chooser().settings().any_order;
  plan_chooser().configure({.timed = options.timed != 0,
                            .any_order = options.any_order != 0,
                            .file = options.file != nullptr ? options.file : "",
                            .seconds = options.seconds});
  if (!other) return;
  forget_conv_plans();
  forget_attention_plans();
}

std::string library_notes() {
  const std::lock_guard lock(notes().mutex);
  return notes().text;
}
void add_note(const std::string& line) {
  const std::lock_guard lock(notes().mutex);
  notes().text += line + "\n";
}
void add_note_once(const std::string& line) {
  static auto* const added = new std::set<std::string>;
  if (added->insert(line).second) add_note(line);
}

}  // namespace binade::cuda
