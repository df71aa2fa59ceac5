// Reads losses and norms of gradients from stdin, both of a step in a line, in the order of a run's steps, and prints
// the number of each (from 1) that amp::SpikeGuard would not have let pass. Called by bench/signs.py.
#include "binade/amp/warnings/spike_guard.h"

#include <cstdio>

int main() {
  binade::amp::SpikeGuard guard;
  double loss = 0, norm = 0;
  for (int step = 1; std::scanf("%lf %lf", &loss, &norm) == 2; ++step) {
    if (guard.absurd(loss, norm))
      std::printf("%d %g %g\n", step, loss, guard.bound());
    else
      guard.accepted(loss, norm);
  }
}
