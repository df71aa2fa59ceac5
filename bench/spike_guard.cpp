// Reads the loss and the gradient norm of one step per line from stdin. For each step that amp::SpikeGuard would
// refuse, prints the number of the step (from 1), the loss and the guard's bound. Called by bench/signs.py.
#include "binade/amp/warnings/spike_guard.h"

#include <cstdio>

int main() {
  binade::amp::SpikeGuard guard;
  double loss = 0, norm = 0;
  for (int step = 1; std::scanf("%lf %lf", &loss, &norm) == 2; ++step) {
    if (guard.is_spike(loss, norm))
      std::printf("%d %g %g\n", step, loss, guard.bound());
    else
      guard.add(loss, norm);
  }
}
