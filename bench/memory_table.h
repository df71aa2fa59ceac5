#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/bandwidth.h"
#include "bench/ceiling.h"
#include "bench/op_call.h"
#include "binade/core/backend.h"

/// The measurements of memory_bench: each row of its table is an op's share of the machine's bandwidth.
namespace binade::bench {

/// A function that is timed alternately with another one.
class Contender {
 public:
  Contender(std::function<void()> run, double bytes) : run_(std::move(run)), bytes_(bytes) {
    run_();
    calls_ = std::clamp(static_cast<int>(kSampleSeconds / time(1)), 1, 10000);
  }
  void sample() {
    run_();  // untimed, to fill the caches
    samples_.push_back(time(calls_) / calls_);
  }
  double median_seconds() const {
    std::vector<double> sorted = samples_;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
  double bytes_per_second() const { return bytes_ / median_seconds(); }

 private:
  static constexpr double kSampleSeconds = 0.01;

  double time(int calls) const {
    const double start = seconds();
    for (int i = 0; i < calls; ++i) run_();
    return seconds() - start;
  }

  std::function<void()> run_;
  double bytes_;
  int calls_ = 1;  // calls per sample, which takes about kSampleSeconds
  std::vector<double> samples_;
};

/// The work that a row measures, with the minimum of bytes that it must read and write.
struct Work {
  double reads{}, writes{};  ///< bytes per call
  std::function<void()> run{};
  bool optimizer = false;

  double bytes() const { return reads + writes; }
  /// Returns the share of the bandwidth that the row should reach.
  double goal() const { return optimizer ? 0.8 : 0.7; }
};

/// The measured bandwidth that a row is compared with.
struct Ceiling {
  const char* name{};
  std::vector<Pass> passes{};  ///< passes to measure; the fastest one counts
};

/// Selects the pass with the most similar mix of reads and writes: a read if almost nothing is written (reductions); a
/// triad for at least 1.5 reads per write, and for optimizers, whose goal refers to it; otherwise a copy.
inline Ceiling ceiling_of(const Work& work) {
  if (work.writes < 0.05 * work.reads) return {"read", {Pass::kRead}};
  if (work.optimizer || work.reads >= 1.5 * work.writes) return {"triad", {Pass::kTriad, Pass::kStreamingTriad}};
  return {"copy", {Pass::kCopy}};
}

/// The number of bytes that a call reads and writes, and the name of the cache (or main memory) that they fit into.
struct WorkingSet {
  std::string level{};
  std::int64_t bytes = 0;
};

/// Options of all rows of the table.
struct TableOptions {
  int repeats = 7;     ///< number of measurements per median
  std::string only{};  ///< measures only rows with this text in their names; empty: all
};

/// Measures and prints the rows of one working set and dtype, and makes their tensors.
class Table {
 public:
  Table(const TableOptions& options, const WorkingSet& set, DType dtype, Bandwidth& bandwidth)
      : options_(options), set_(set), dtype_(dtype), bandwidth_(bandwidth) {}

  DType dtype() const { return dtype_; }
  /// Returns the bytes per element of the table's dtype.
  double size() const { return static_cast<double>(size_of(dtype_)); }
  /// Returns the number of rows of `columns` elements that fill the working set at `bytes` per element.
  std::int64_t rows(double bytes, std::int64_t columns) const {
    const double count = static_cast<double>(set_.bytes) / (bytes * static_cast<double>(columns));
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(count));
  }
  /// Returns a tensor with `columns` columns; `as_many` tensors of its size fill the working set.
  Tensor tensor(double as_many, std::int64_t columns) const {
    return values(rows(as_many * size(), columns), columns, dtype_, 1);
  }
  /// Returns images (N, edge, edge, channels); `as_many` tensors of their size fill the working set.
  Tensor images(double as_many, std::int64_t edge, std::int64_t channels) const {
    const std::int64_t count = rows(as_many * size(), edge * edge * channels);
    return values(count * edge * edge, channels, dtype_, 1).reshape({count, edge, edge, channels});
  }

  /// Measures the work that `make` returns, unless TableOptions::only excludes the row.
  void row(const std::string& name, const std::function<Work()>& make) {
    if (name.find(options_.only) == std::string::npos) return;
    measure(name, make());
    backend_of(Device::cpu()).trim();
  }

  int measured() const { return measured_; }
  int met() const { return met_; }  ///< number of measured rows that reached their goal

 private:
  void measure(const std::string& name, const Work& work) {
    const Ceiling ceiling = ceiling_of(work);
    Contender op(work.run, work.bytes());
    std::vector<Contender> passes;
    for (const Pass pass : ceiling.passes)
      passes.emplace_back([this, pass] { bandwidth_.run(pass); }, bandwidth_.bytes());
    for (int i = 0; i < options_.repeats; ++i) {
      op.sample();
      for (Contender& pass : passes) pass.sample();
    }
    double best = 0;
    for (const Contender& pass : passes) best = std::max(best, pass.bytes_per_second());
    const double share = op.bytes_per_second() / best;
    const bool met = share >= work.goal();
    ++measured_;
    met_ += met ? 1 : 0;
    fmt::print("{:6} {:4} {:28} {:9.3f} ms {:6.1f} GB/s {:4.0f} % of {:5} {:6.1f} GB/s {}\n", set_.level,
               name_of(dtype_), name, op.median_seconds() * 1e3, op.bytes_per_second() * 1e-9, 100 * share,
               ceiling.name, best * 1e-9, met ? "met" : "below");
    std::fflush(stdout);
  }

  const TableOptions& options_;
  const WorkingSet& set_;
  DType dtype_;
  Bandwidth& bandwidth_;
  int measured_ = 0, met_ = 0;  // number of rows measured, and of those that reached their goal
};

}  // namespace binade::bench
