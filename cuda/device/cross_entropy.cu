#include <limits>

#include "binade/core/math.h"
#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/rows.cuh"

/// Softmax and negative log-likelihood, one thread group per row. Both directions read each logit once and compute one
/// exponential of it. Backward reads an element before the same thread writes its gradient, so `out` may alias the
/// logits. The host does not know the number of rows that are not ignored: it is counted on the device.
namespace binade::cuda {
namespace {

/// The target of a row.
struct Label {
  std::int64_t value;
  bool ignored, bad;
};
__device__ __forceinline__ Label label_of(const CrossEntropyArgs& a, std::int64_t row) {
  const auto value = load_at<std::int64_t>(a.targets, row);
  const bool ignored = value == a.ignore_index;
  return {value, ignored, !ignored && (value < 0 || value >= a.classes)};
}

constexpr int kWideThreads =
    512;  // threads per row, if the row does not fit into registers; two such blocks fit on a multiprocessor
constexpr int kAhead = 2;  // number of packs that a thread loads before it computes with the first

/// Calls f(columns, their values) for this thread's columns of a row; kAhead packs are loaded before the first is
/// processed.
template <int V, class C, class F>
__device__ __forceinline__ void each_ahead(const ThreadGroup<C>& group, const In& x, std::int64_t row,
                                           std::int64_t cols, F&& f) {
  const std::int64_t stride = static_cast<std::int64_t>(group.width()) * V;
  for (std::int64_t c = static_cast<std::int64_t>(group.rank()) * V; c < cols;
       c += (V == kPack ? kAhead : 1) * stride) {
    if constexpr (V == kPack) {
      RawPack raw[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (c + k * stride < cols) raw[k] = fetch_pack(x.data, x.dtype, row + c + k * stride);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (c + k * stride >= cols) break;
        C values[V];
        unpack(raw[k], x.dtype, values);
        f(c + k * stride, values);
      }
    } else {
      C values[V] = {load_at<C>(x, row + c)};
      f(c, values);
    }
  }
}

/// Running statistics of the logits x that a thread has read: the largest logit; and, relative to `reference` (the
/// largest logit, unless that is infinite), the sum of exp(x - reference) and, if wanted, the sum of x - reference.
template <class C>
struct Running {
  C largest = Largest::kStart<C>, reference = 0, exponentials = 0, below = 0;
  C count = 0;

  /// Sets the reference to `to`, and converts the sums.
  __device__ void refer_to(C to) {
    if (to == Largest::kStart<C> || to == reference) return;
    if (exponentials > C(0)) exponentials *= math::exp(reference - to);  // 0 if all logits were -infinity
    if (count > C(0)) below += count * (reference - to);
    reference = to;
  }
  template <int V>
  __device__ void add(const C (&x)[V], bool smoothing) {
    C most = largest;
#pragma unroll
    for (int e = 0; e < V; ++e) most = Largest::combine(most, x[e]);
    if (most != largest) {  // true for NaN too
      largest = most;
      refer_to(most);
    }
#pragma unroll
    for (int e = 0; e < V; ++e) exponentials += math::exp(x[e] - reference);
    if (smoothing) {
#pragma unroll
      for (int e = 0; e < V; ++e) below += x[e] - reference;
    }
    count += C(V);
  }
};

/// Computes losses (rows): the loss of each row; 0 if the row is ignored, NaN if its target is not a class.
template <class C, int V, int H>
__global__ void __launch_bounds__(H == 0 && V == 1 ? 1024 : 512, H == 0 && V > 1 ? 2 : 1)
    forward_rows(CrossEntropyArgs a, int width, C* losses, FaultNote fault) {
  __shared__ C scratch[ThreadGroup<C>::kScratch];
  ThreadGroup<C> group(width, scratch);
  C* statistics = static_cast<C*>(a.statistics.data);
  const C smoothing = static_cast<C>(a.label_smoothing);
  unsigned counted = 0;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * group.count(); first < a.rows;
       first += static_cast<std::int64_t>(gridDim.x) * group.count()) {
    const std::int64_t row = first + group.index();
    const bool in_range = row < a.rows;
    const Label label = in_range ? label_of(a, row) : Label{0, true, false};
    const std::int64_t classes = label.ignored || label.bad ? 0 : a.classes;
    C max[1] = {Largest::kStart<C>}, sums[2] = {};  // sums of exp(x - max) and of x - max
    if constexpr (H > 0) {
      C x[H][V];
      each_vector<V, H>(group, classes, [&](std::int64_t c, int k) {
        load_vector(a.logits, row * a.pitch + c, x[k]);
#pragma unroll
        for (int e = 0; e < V; ++e) max[0] = Largest::combine(max[0], x[k][e]);
      });
      group.template fold<Largest>(max);
      each_vector<V, H>(group, classes, [&](std::int64_t, int k) {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          const C below = x[k][e] - max[0];
          sums[0] += math::exp(below);
          sums[1] += below;
        }
      });
    } else {
      Running<C> mine;
      each_ahead<V>(group, a.logits, row * a.pitch, classes,
                    [&](std::int64_t, const C(&x)[V]) { mine.add(x, smoothing > 0); });
      max[0] = mine.largest;
      group.template fold<Largest>(max);
      mine.refer_to(max[0]);
      sums[0] = mine.exponentials;
      sums[1] = mine.below;
    }
    group.sum(sums);
    if (group.rank() != 0 || !in_range) continue;
    C loss = 0;
    if (label.bad) {
      loss = std::numeric_limits<C>::quiet_NaN();
      note_fault(fault, a.call, row, label.value);
    } else if (!label.ignored) {
      const C target = load_at<C>(a.logits, row * a.pitch + label.value);
      loss = math::log(sums[0]) - (1 - smoothing) * (target - max[0]);
      if (smoothing > 0) loss -= smoothing * (sums[1] / static_cast<C>(a.classes));
    }
    losses[row] = loss;
    statistics[2 * row] = label.ignored ? C(0) : max[0];
    statistics[2 * row + 1] = label.ignored ? C(1) : sums[0];
    counted += label.ignored ? 0 : 1;
  }
  counted = fold_warp<Adding>(counted);
  if (threadIdx.x % kWarp == 0 && counted > 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(a.count), static_cast<unsigned long long>(counted));
}

template <class C, int V>
__global__ void __launch_bounds__(V == 1 ? 1024 : 512, V == 1 ? 1 : 2)
    backward_rows(CrossEntropyArgs a, int width, std::uint32_t* words) {
  ThreadGroup<C> group(width, nullptr);
  AmaxObserver amax(words, a.out.dtype);
  const C* statistics = static_cast<const C*>(a.statistics.data);
  const double divisor = a.divisor != 0 ? a.divisor : static_cast<double>(*a.count);
  const auto scale_of_all = static_cast<C>(a.each ? 0 : load_at<double>(a.gy, 0) / divisor);
  const auto share = static_cast<C>(a.label_smoothing / static_cast<double>(a.classes));
  const auto at_target = static_cast<C>(1 - a.label_smoothing);
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * group.count() + group.index(); row < a.rows;
       row += static_cast<std::int64_t>(gridDim.x) * group.count()) {
    const Label label = label_of(a, row);
    const std::int64_t to = row * a.classes;
    if (label.ignored || label.bad) {
      const C nothing = label.ignored ? C(0) : std::numeric_limits<C>::quiet_NaN();
      C x[V];
#pragma unroll
      for (int e = 0; e < V; ++e) x[e] = nothing;
      amax.add(nothing);
      each_vector<V, 0>(group, a.classes, [&](std::int64_t c, int) { store_vector(a.out, to + c, x); });
      continue;
    }
    const C scale = a.each ? static_cast<C>(load_at<double>(a.gy, row)) : scale_of_all;
    const C max = statistics[2 * row], per_sum = 1 / statistics[2 * row + 1];
    each_ahead<V>(group, a.logits, row * a.pitch, a.classes, [&](std::int64_t c, C(&x)[V]) {
      const std::int64_t distance = label.value - c;
      const int here = distance >= 0 && distance < V ? static_cast<int>(distance) : -1;
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const C hit = e == here ? at_target : C(0);
        x[e] = scale * (math::exp(x[e] - max) * per_sum - share - hit);
        amax.add(x[e]);
      }
      store_vector(a.out, to + c, x);
    });
  }
  amax.publish();
}

template <class C, int V, int H>
void start_forward(const CrossEntropyArgs& call, const RowGroups& groups, C* losses) {
  launch(forward_rows<C, V, H>, grid_for(ceil_div(call.rows, groups.count())), static_cast<unsigned>(groups.threads), 0,
         call, groups.width, losses, context().fault);
}

template <class C>
void forward(const CrossEntropyArgs& call) {
  Buffer<C> losses(call.rows);
  check(cudaMemsetAsync(call.count, 0, sizeof *call.count, context().stream), "cross_entropy");
  if (call.rows > 0) {
    const bool may_pack = sizeof(C) == 4 && packs_rows(call.logits.data, call.logits.dtype, call.pitch);
    const RowLaunch rows(call.classes, may_pack);
    if constexpr (sizeof(C) == 4) {
      if (rows.held)
        start_forward<C, kPack, RowLaunch::kHeld>(call, rows.groups, losses.data());
      else if (rows.packed)
        start_forward<C, kPack, 0>(call, {kWideThreads, kWideThreads}, losses.data());
    }
    if (!rows.packed) start_forward<C, 1, 0>(call, rows.groups, losses.data());
  }
  if (call.each) {
    run_convert({.to = {call.out.data, call.out.dtype, call.rows},
                 .from = {losses.data(), kDTypeOf<C>, call.rows},
                 .rows = 1,
                 .cols = call.rows});
    if (call.out.dtype == DType::f32) run_observe({call.out.data, DType::f32, call.rows});  // run_convert() does not
    return;
  }
  run_reduce({.divisor = call.divisor,
              .count = call.divisor != 0 ? nullptr : call.count,
              .x = {losses.data(), kDTypeOf<C>},
              .y = call.out,
              .groups = 1,
              .extents = {call.rows},
              .reduced = {true}});
}

template <class C>
void backward(const CrossEntropyArgs& call) {
  const bool may_pack = sizeof(C) == 4 && packs_rows(call.logits.data, call.logits.dtype, call.pitch) &&
                        packs_rows(call.out.data, call.out.dtype, call.classes);
  const RowLaunch rows(call.classes, may_pack);
  const RowGroups groups = rows.packed && !rows.held ? RowGroups{kWideThreads, kWideThreads} : rows.groups;
  const unsigned grid = grid_for(ceil_div(call.rows, groups.count()));
  const auto threads = static_cast<unsigned>(groups.threads);
  if constexpr (sizeof(C) == 4)
    if (rows.packed) return launch(backward_rows<C, kPack>, grid, threads, 0, call, groups.width, context().amax_words);
  launch(backward_rows<C, 1>, grid, threads, 0, call, groups.width, context().amax_words);
}

}  // namespace

void run_cross_entropy(const CrossEntropyArgs& call) {
  const bool wide = call.statistics.dtype == DType::f64;
  if (!call.backward)
    wide ? forward<double>(call) : forward<float>(call);
  else if (call.rows * call.classes > 0)
    wide ? backward<double>(call) : backward<float>(call);
}

}  // namespace binade::cuda
