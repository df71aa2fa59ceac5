#include <algorithm>
#include <utility>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/faults.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/ctc_states.h"
#include "binade/core/one_rounding.h"
#include "binade/core/parallel.h"

/// Each sample is computed by one thread.
namespace binade::cpu {
namespace {

void check_lengths(const std::int64_t* lengths, std::int64_t count, std::int64_t most, std::uint64_t call) {
  for (std::int64_t n = 0; n < count; ++n)
    if (lengths[n] < 0 || lengths[n] > most) [[unlikely]]
      throw DataError(describe({.call = call, .position = n, .value = lengths[n]}));
}

/// Called in forward and in backward: the tensors may be memory of the user, who can write to it after forward.
void check_data(const CtcArgs& a) {
  check_lengths(a.input_lengths, a.samples, a.steps, a.input_length_call);
  check_lengths(a.target_lengths, a.samples, a.width, a.target_length_call);
  for (std::int64_t n = 0; n < a.samples; ++n)
    for (std::int64_t i = n * a.width; i < n * a.width + a.target_lengths[n]; ++i) {
      const std::int64_t label = a.targets[i];
      if (label < 0 || label >= a.classes || label == a.blank) [[unlikely]]
        throw DataError(describe({.call = a.target_call, .position = i, .value = label}));
    }
}

/// The log-probabilities of one sample.
template <class T>
struct Emissions {
  const T* x;
  std::int64_t step;  // elements between steps
  Emissions(const CtcArgs& a, std::int64_t sample)
      : x(static_cast<const T*>(a.x.data) + sample * a.classes), step(a.samples * a.classes) {}
  double operator()(std::int64_t t, std::int64_t label) const { return static_cast<double>(load(x[t * step + label])); }
};

/// Computes row t of the forward log-probabilities from row t - 1.
template <class T>
void forward_row(const CtcSample& q, const Emissions<T>& x, std::int64_t t, const double* before, double* now) {
  for (std::int64_t s = 0; s < q.states(); ++s)
    now[s] = t == 0 ? ctc_start(s, x(0, q.label(s))) : ctc_forward(q, before, s, x(t, q.label(s)));
}

template <class T>
double total_of(const CtcArgs& a, std::int64_t sample) {
  const CtcSample q(a, sample);
  const Emissions<T> x(a, sample);
  const std::int64_t steps = a.input_lengths[sample];
  if (steps == 0) return q.count == 0 ? 0 : kNoPath;
  std::vector<double> before(static_cast<std::size_t>(q.states())), now(before.size());
  for (std::int64_t t = 0; t < steps; ++t) {
    std::swap(before, now);
    forward_row(q, x, t, before.data(), now.data());
  }
  return ctc_total(q, now.data());
}

/// Stores row t of the gradient of one sample.
template <class G>
void store_row(const CtcArgs& a, std::int64_t sample, std::int64_t t, const std::vector<double>& row, double scale) {
  G* const to = static_cast<G*>(a.out.data) + (t * a.samples + sample) * a.classes;
  for (std::int64_t c = 0; c < a.classes; ++c) to[c] = store_once<G>(row[static_cast<std::size_t>(c)] * scale);
}

template <class T, class G>
void gradient_of(const CtcArgs& a, std::int64_t sample, double gy) {
  const CtcSample q(a, sample);
  const Emissions<T> x(a, sample);
  const std::int64_t steps = a.input_lengths[sample], states = q.states();
  std::vector<double> row(static_cast<std::size_t>(a.classes));
  for (std::int64_t t = steps; t < a.steps; ++t) store_row<G>(a, sample, t, row, 0);
  if (steps == 0) return;

  std::vector<double> forward(static_cast<std::size_t>(steps * states));
  for (std::int64_t t = 0; t < steps; ++t)
    forward_row(q, x, t, forward.data() + std::max<std::int64_t>(t - 1, 0) * states, forward.data() + t * states);
  const double total = ctc_total(q, forward.data() + (steps - 1) * states);
  if (total == kNoPath) {
    std::ranges::fill(row, a.zero_infinity ? 0.0 : std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t t = 0; t < steps; ++t) store_row<G>(a, sample, t, row, 1);
    return;
  }
  std::vector<double> after(static_cast<std::size_t>(states)), now(after.size());
  for (std::int64_t t = steps - 1; t >= 0; --t) {
    std::ranges::fill(row, 0.0);
    for (std::int64_t s = 0; s < states; ++s) {
      const std::int64_t label = q.label(s);
      const double beyond = t == steps - 1 ? ctc_end(q, s) : ctc_backward(q, after.data(), s);
      row[static_cast<std::size_t>(label)] += std::exp(forward[static_cast<std::size_t>(t * states + s)] + beyond -
                                                       total);
      now[static_cast<std::size_t>(s)] = beyond + x(t, label);
    }
    store_row<G>(a, sample, t, row, -gy);
    std::swap(after, now);
  }
}

}  // namespace

void run_ctc(const CtcArgs& a) {
  check_data(a);
  dispatch_float(a.x.dtype, "ctc", [&]<class T>(TypeTag<T>) {
    dispatch_float(a.out.dtype, "ctc", [&]<class G>(TypeTag<G>) {
      parallel_for(a.samples, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          if (!a.backward) {
            static_cast<G*>(a.out.data)[n] = store_once<G>(ctc_loss(a, total_of<T>(a, n)));
            continue;
          }
          const double gy = dispatch_float(a.gy.dtype, "ctc", [&]<class Y>(TypeTag<Y>) {
            return static_cast<double>(load(static_cast<const Y*>(a.gy.data)[n]));
          });
          gradient_of<T, G>(a, n, gy);
        }
      });
    });
  });
}

}  // namespace binade::cpu
