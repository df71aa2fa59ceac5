#include "binade/nn/statistics_log.h"

#include <utility>

#include "binade/core/step_context.h"
#include "binade/nn/batch_norm.h"

namespace binade::nn {
namespace {

thread_local StatisticsLog* t_log = nullptr;

}  // namespace

StatisticsLog::StatisticsLog() : outer_(std::exchange(t_log, this)) {}
StatisticsLog::~StatisticsLog() { t_log = outer_; }

void StatisticsLog::note(BatchNorm& module, const Tensor& mean, const Tensor& var, std::int64_t count) {
  if (t_log != nullptr) t_log->entries_.push_back({&module, step_context().micro_batch, count, mean, var});
}

void StatisticsLog::replay(const Entry& entry) { entry.module->move_statistics(entry.mean, entry.var, entry.count); }

}  // namespace binade::nn
