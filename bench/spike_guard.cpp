// Reads losses from stdin, one a line, in the order of a run's steps, and prints the number of each (from 1) that
// amp::SpikeGuard would not have let pass. Called by bench/signs.py.
#include "amp/signs/spike_guard.h"

#include <cstdio>

int main() {
  binade::amp::SpikeGuard guard;
  double loss = 0;
  for (int step = 1; std::scanf("%lf", &loss) == 1; ++step) {
    if (guard.absurd(loss))
      std::printf("%d %g %g\n", step, loss, guard.bound());
    else
      guard.accepted(loss);
  }
}
