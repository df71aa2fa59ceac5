#include "binade/amp/step/memory_forecast.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "binade/amp/step/attempt.h"
#include "binade/amp/step/transaction.h"
#include "binade/amp/suggestions.h"
#include "binade/core/backend.h"
#include "binade/core/gpus.h"
#include "binade/core/launcher.h"
#include "binade/core/rank_tree.h"

namespace binade::amp {
namespace {

using Block = MemoryTrace::Block;

/// Returns the peak memory of the allocations in `trace` if block i had `bytes_of(i)` bytes.
template <class BytesOf>
double peak_of(const MemoryTrace& trace, const BytesOf& bytes_of) {
  std::vector<double> changes(2 * trace.blocks.size(), 0);
  for (std::size_t i = 0; i < trace.blocks.size(); ++i) {
    const Block& block = trace.blocks[i];
    changes[static_cast<std::size_t>(block.allocated)] += bytes_of(i);
    if (block.released != MemoryTrace::kKept) changes[static_cast<std::size_t>(block.released)] -= bytes_of(i);
  }
  double in_use = 0, peak = 0;
  for (const double change : changes) peak = std::max(peak, in_use += change);
  return peak;
}

double size_of_block(const MemoryTrace& trace, std::size_t i) { return static_cast<double>(trace.blocks[i].bytes); }

double peak_of(const MemoryTrace& trace) {
  return peak_of(trace, [&](std::size_t i) { return size_of_block(trace, i); });
}

bool same_order(const MemoryTrace& a, const MemoryTrace& b) {
  return std::ranges::equal(a.blocks, b.blocks, [](const Block& x, const Block& y) {
    return x.allocated == y.allocated && x.released == y.released;
  });
}

/// Returns an upper bound of the allocations for `times` as many rows: each block is `times` as large.
MemoryTrace scaled(MemoryTrace trace, std::size_t times) {
  for (Block& block : trace.blocks) block.bytes *= times;
  return trace;
}

std::string text_of(double bytes) {
  return bytes >= 0.95e9 ? fmt::format("{:.3g} GB", bytes * 1e-9) : fmt::format("{:.3g} MB", bytes * 1e-6);
}

}  // namespace

double peak_with(std::int64_t rows, const TracedRows& few, const TracedRows& more) {
  const double further = static_cast<double>(rows - more.rows) / static_cast<double>(more.rows - few.rows);
  const auto extrapolated = [&](double low, double high) { return std::max(high + (high - low) * further, 0.0); };
  if (!same_order(few.trace, more.trace)) return extrapolated(peak_of(few.trace), peak_of(more.trace));
  return peak_of(more.trace, [&](std::size_t i) {
    return extrapolated(size_of_block(few.trace, i), size_of_block(more.trace, i));
  });
}

std::int64_t MemoryForecast::rows_that_fit(double available) const {
  if (bytes <= available) return rows;
  if (bytes_per_row <= 0) return 0;
  return std::max<std::int64_t>(0, rows - static_cast<std::int64_t>((bytes - available) / bytes_per_row) - 1);
}

double memory_of(Device device) {
  if (device != Device::cpu()) return static_cast<double>(gpus::memory_bytes());
  double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  std::ifstream group("/sys/fs/cgroup/memory.max");
  if (double limit = 0; group >> limit) bytes = std::min(bytes, limit);  // "max" (no limit) does not parse
  return bytes;
}

double share_of_memory(Device device) {
  const int ranks = local_rank().ranks;
  const int places = device == Device::cpu() ? 1 : std::max(1, gpus::count());
  return memory_of(device) / std::max(1, (ranks + places - 1) / places);
}

double tree_bytes(const TreeMemory& tree) {
  if (tree.leaves <= 1) return 0;
  const LeafRange own = share_of(tree.leaves, tree.rank, tree.ranks);
  std::size_t added = 0;  // largest number of nodes at one time while this rank adds its leaves
  for (int end = own.begin + 1; end <= own.end; ++end)
    added = std::max(added, nodes_of(tree.leaves, {own.begin, end - 1}).size() + 1);
  double exchanged = static_cast<double>(nodes_of(tree.leaves, own).size());
  if (tree.ranks > 1) {
    // Adds the nodes of all ranks for this rank's slice of the parameters, and the whole sum.
    std::size_t received = 0;
    for (int rank = 0; rank < tree.ranks; ++rank)
      received += nodes_of(tree.leaves, share_of(tree.leaves, rank, tree.ranks)).size();
    exchanged += static_cast<double>(received) / tree.ranks + 1;
  }
  return std::max(static_cast<double>(added), exchanged) * sizeof(float) * static_cast<double>(tree.parameters);
}

std::string to_string(const MemoryForecast& forecast, double available) {
  return fmt::format("this step needs about {} of {}", text_of(forecast.bytes), text_of(available));
}

void check_fits(const MemoryForecast& forecast, double available, Device device) {
  if (forecast.bytes <= available) return;
  const std::int64_t fitting = forecast.rows_that_fit(available);
  const std::string change = fitting > 0
                                 ? fmt::format("{} of its {} rows fit: use {}", fitting, forecast.rows,
                                               suggest_micro_batches(fitting, (forecast.rows + fitting - 1) / fitting))
                                 : std::string("not one row fits: use a smaller model, image or context");
  throw OutOfMemoryError(fmt::format(
      "memory: {} needs about {}, {} for each of {} rows, and {} has {}; {}, or recompute activations ({})",
      forecast.accumulates ? "a micro-batch" : "a step", text_of(forecast.bytes), text_of(forecast.bytes_per_row),
      forecast.rows, device.to_string(), text_of(available), change, suggest_recompute()));
}

std::optional<MemoryForecast> forecast_memory(AttemptRunner& runner, const OngoingStep& step,
                                              const Transaction& transaction, std::int64_t accumulate) {
  const std::int64_t rows = step.plan.samples_per_micro_batch;
  if (!step.feed.can_leave_out_samples || rows == 0) return std::nullopt;
  const Device device = transaction.device();
  Backend& backend = backend_of(device);
  const Communicator& ranks = transaction.ranks();
  TreeMemory tree{transaction.leaves_of(static_cast<int>(accumulate)), ranks.rank(), ranks.size()};
  for (const optim::FlatParameters::Slice* slice : transaction.parameters()) tree.parameters += slice->count;
  MemoryForecast forecast{.rows = rows, .accumulates = accumulate > 1 || step.feed.origins.size() > 1};

  bool whole_step = true;
  const auto trial = [&](std::int64_t count) {
    AttemptPlan plan = step.plan;
    // If gradients are accumulated, a second micro-batch needs memory for its own and for the accumulated gradients.
    plan.micro_batches.assign(forecast.accumulates ? 2 : 1, step.feed.first);
    for (std::int64_t row = count; row < rows; ++row) plan.left_out.push_back(step.feed.first * rows + row);
    plan.by_itself = true;
    return TracedRows{.rows = count, .trace = backend.trace([&] {
                        whole_step = runner.rehearse(plan, step.feed).commits() && whole_step;
                      })};
  };
  try {
    TracedRows few = trial(1);
    const bool keeps = std::ranges::count(few.trace.blocks, MemoryTrace::kKept, &Block::released) > 0;
    if (keeps) few = trial(1);  // repeated, because the first run also allocated the 16-bit copies of the weights
    // Makes runs with more rows only if they need at most half of the memory, because the system kills processes when
    // memory runs out.
    const double limit = share_of_memory(device) / 2 - static_cast<double>(backend.bytes_in_use());
    const auto tried = [&](std::int64_t count) {
      return count <= rows && peak_of(few.trace) * static_cast<double>(count) / static_cast<double>(few.rows) <= limit;
    };
    TracedRows more = tried(2) ? trial(2) : TracedRows{.rows = 2, .trace = scaled(few.trace, 2)};
    // If runs with one row and with two rows allocate different blocks, uses two and three rows instead, because a run
    // with one row may need no concatenation or sum.
    if (tried(3) && !same_order(few.trace, more.trace)) {
      few = std::move(more);
      more = trial(3);
    }
    if (!whole_step) return std::nullopt;  // the step itself reports the failure
    const auto in_use = static_cast<double>(backend.bytes_in_use());
    const auto peak = [&](std::int64_t count) { return in_use + tree_bytes(tree) + peak_with(count, few, more); };
    forecast.bytes = peak(rows);
    forecast.bytes_per_row = peak(rows + 1) - forecast.bytes;
    return forecast;
  } catch (const OutOfMemoryError&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;  // the step itself reports the failure
  }
}

}  // namespace binade::amp
