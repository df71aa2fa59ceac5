#include "binade/core/kernels/ctc_states.h"
#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/value.cuh"

/// Connectionist temporal classification: one block per sample, whose threads divide the states of a step. The sums
/// over the states of a class are added in an order that depends on the targets alone.
namespace binade::cuda {
namespace {

constexpr int kThreads = 128;

/// Calls f(i) for this thread's share of the indices below `count`.
template <class F>
__device__ __forceinline__ void each_of_block(std::int64_t count, F&& f) {
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) f(i);
}

/// Returns, in all threads, true if the lengths and labels of a sample are valid; otherwise records which are not.
__device__ bool is_valid(const CtcArgs& a, std::int64_t n, const FaultNote& fault) {
  const std::int64_t steps = a.input_lengths[n], labels = a.target_lengths[n];
  const bool bad_steps = steps < 0 || steps > a.steps, bad_count = labels < 0 || labels > a.width;
  if (threadIdx.x == 0) {
    if (bad_steps) note_fault(fault, a.input_length_call, n, steps);
    if (bad_count) note_fault(fault, a.target_length_call, n, labels);
  }
  if (bad_steps || bad_count) return false;
  int bad = 0;
  each_of_block(labels, [&](std::int64_t i) {
    const std::int64_t label = a.targets[n * a.width + i];
    if (label >= 0 && label < a.classes && label != a.blank) return;
    note_fault(fault, a.target_call, n * a.width + i, label);
    bad = 1;
  });
  return fold_block<Adding, kThreads>(bad) == 0;
}

__device__ double emission(const CtcArgs& a, std::int64_t n, std::int64_t t, std::int64_t label) {
  return load_at<double>(a.x, (t * a.samples + n) * a.classes + label);
}

/// Computes row t of the forward log-probabilities from row t - 1. All threads see it after the barrier at its end.
__device__ void forward_row(const CtcArgs& a, const CtcSample& q, std::int64_t n, std::int64_t t, const double* before,
                            double* now) {
  each_of_block(q.states(), [&](std::int64_t s) {
    const double x = emission(a, n, t, q.label(s));
    now[s] = t == 0 ? ctc_start(s, x) : ctc_forward(q, before, s, x);
  });
  __syncthreads();
}

/// rows: (samples, 2, 2 width + 1).
__global__ void __launch_bounds__(kThreads) losses(CtcArgs a, double* rows, FaultNote fault) {
  const std::int64_t states = 2 * a.width + 1;
  for (std::int64_t n = blockIdx.x; n < a.samples; n += gridDim.x) {
    double loss = std::numeric_limits<double>::quiet_NaN();
    if (is_valid(a, n, fault)) {
      const CtcSample q(a, n);
      const std::int64_t steps = a.input_lengths[n];
      double *before = rows + 2 * n * states, *now = before + states;
      for (std::int64_t t = 0; t < steps; ++t) {
        double* const older = before;
        before = now;
        now = older;
        forward_row(a, q, n, t, before, now);
      }
      loss = ctc_loss(a, steps > 0 ? ctc_total(q, now) : q.count == 0 ? 0 : kNoPath);
    }
    if (threadIdx.x == 0) store_at(a.out.data, a.out.dtype, n, loss);
  }
}

/// Work memory of backward.
struct Workspace {
  double* forward;             ///< (samples, steps, 2 width + 1)
  double* rows;                ///< (samples, 2, 2 width + 1)
  std::int64_t *next, *first;  ///< (samples, width): the next label of the same class or -1; 1 if there is none before
};

/// Links the labels of each class.
__device__ void link_labels(const CtcSample& q, std::int64_t* next, std::int64_t* first) {
  each_of_block(q.count, [&](std::int64_t i) {
    next[i] = -1;
    for (std::int64_t j = i + 1; j < q.count && next[i] < 0; ++j)
      if (q.labels[j] == q.labels[i]) next[i] = j;
    first[i] = 1;
    for (std::int64_t j = 0; j < i; ++j)
      if (q.labels[j] == q.labels[i]) first[i] = 0;
  });
}

/// Sets the rows of steps [begin, end) of a sample's gradient.
__device__ void fill_rows(const CtcArgs& a, std::int64_t n, std::int64_t begin, std::int64_t end, double value) {
  for (std::int64_t t = begin; t < end; ++t)
    each_of_block(a.classes, [&](std::int64_t c) {
      store_at(a.out.data, a.out.dtype, (t * a.samples + n) * a.classes + c, value);
    });
}

/// The gradients of one sample. `forward` holds the forward log-probabilities, which are replaced by the probabilities
/// of the states.
__device__ void sample_gradients(const CtcArgs& a, std::int64_t n, const CtcSample& q, double total, double* forward,
                                 double* after, double* now, const std::int64_t* next, const std::int64_t* first) {
  const std::int64_t steps = a.input_lengths[n];
  const double scale = -load_at<double>(a.gy, n);
  for (std::int64_t t = steps - 1; t >= 0; --t) {
    double* const states = forward + t * (2 * a.width + 1);
    double of_blank = 0;
    each_of_block(q.states(), [&](std::int64_t s) {
      const double beyond = t == steps - 1 ? ctc_end(q, s) : ctc_backward(q, after, s);
      states[s] = std::exp(states[s] + beyond - total);
      now[s] = beyond + emission(a, n, t, q.label(s));
      if (s % 2 == 0) of_blank += states[s];
    });
    fill_rows(a, n, t, t + 1, 0);
    of_blank = fold_block<Adding, kThreads>(of_blank);  // its barriers separate the writes above and below
    const std::int64_t to = (t * a.samples + n) * a.classes;
    if (threadIdx.x == 0) store_at(a.out.data, a.out.dtype, to + q.blank, scale * of_blank);
    each_of_block(q.count, [&](std::int64_t i) {
      if (first[i] == 0) return;
      double sum = 0;
      for (std::int64_t j = i; j >= 0; j = next[j]) sum += states[2 * j + 1];
      store_at(a.out.data, a.out.dtype, to + q.labels[i], scale * sum);
    });
    double* const older = after;
    after = now;
    now = older;
  }
}

__global__ void __launch_bounds__(kThreads) gradients(CtcArgs a, Workspace work, FaultNote fault) {
  const std::int64_t states = 2 * a.width + 1;
  for (std::int64_t n = blockIdx.x; n < a.samples; n += gridDim.x) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    if (!is_valid(a, n, fault)) {
      fill_rows(a, n, 0, a.steps, kNan);
      continue;
    }
    const CtcSample q(a, n);
    const std::int64_t steps = a.input_lengths[n];
    fill_rows(a, n, steps, a.steps, 0);
    if (steps == 0) continue;
    double *forward = work.forward + n * a.steps * states, *rows = work.rows + 2 * n * states;
    std::int64_t *next = work.next + n * a.width, *first = work.first + n * a.width;
    link_labels(q, next, first);
    for (std::int64_t t = 0; t < steps; ++t)
      forward_row(a, q, n, t, forward + (t > 0 ? t - 1 : 0) * states, forward + t * states);
    const double total = ctc_total(q, forward + (steps - 1) * states);
    __syncthreads();  // before the last row is overwritten
    if (total == kNoPath)
      fill_rows(a, n, 0, steps, a.zero_infinity ? 0 : kNan);
    else
      sample_gradients(a, n, q, total, forward, rows, rows + states, next, first);
  }
}

}  // namespace

void run_ctc(const CtcArgs& call) {
  if (call.samples == 0) return;
  const std::int64_t states = 2 * call.width + 1;
  const Buffer<double> rows(2 * call.samples * states);
  if (!call.backward) return launch(losses, grid_for(call.samples), kThreads, 0, call, rows.data(), context().fault);
  const Buffer<double> forward(call.samples * call.steps * states);
  const Buffer<std::int64_t> next(call.samples * call.width), first(call.samples * call.width);
  launch(gradients, grid_for(call.samples), kThreads, 0, call,
         Workspace{forward.data(), rows.data(), next.data(), first.data()}, context().fault);
}

}  // namespace binade::cuda
