"""Runs with several models and optimizers are killed at random instants (SIGKILL) and started again, until they end.

They must end with the bits of an undisturbed run. BINADE_KILLS (default 6) sets how often each program is killed,
and BINADE_CHAOS_SEED determines the instants.
"""
import os
import random
import signal
import subprocess
import time
import unittest

from programs import ProgramTest, built, run

KILLS = int(os.environ.get("BINADE_KILLS", "6"))
SEED = int(os.environ.get("BINADE_CHAOS_SEED", "1"))
PROGRAMS = {"08_gan": 600, "09_actor_critic": 300, "10_teacher": 600}  # program: steps


def state_of(output):
    return next(line for line in output.splitlines() if line.startswith("state "))


class KilledPhases(ProgramTest):
    def check(self, name, steps):
        program, source = built(f"examples/{name}"), random.Random(f"{SEED} {name}")
        begun = time.monotonic()
        whole = run(program, self.folder / "whole", steps)
        seconds = time.monotonic() - begun
        self.assertEqual(whole.returncode, 0, whole.stderr)
        killed = 0
        for _ in range(20 * KILLS):
            if killed == KILLS:
                break
            process = subprocess.Popen([program, self.folder / "killed", str(steps)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(source.uniform(0.05, 0.6) * seconds)
            killed += process.poll() is None
            process.send_signal(signal.SIGKILL)
            if process.wait() == 0:  # it ended before the kill, so it starts again
                run("rm", "-rf", self.folder / "killed")
        last = run(program, self.folder / "killed", steps)
        self.assertEqual(last.returncode, 0, last.stderr)
        print(f"seed {SEED}: {name} of {seconds:.1f} s killed {killed} times")
        self.assertEqual(killed, KILLS)
        self.assertEqual(state_of(last.stdout), state_of(whole.stdout))


for one, count in PROGRAMS.items():
    setattr(KilledPhases, f"test_{one}", lambda self, one=one, count=count: self.check(one, count))

if __name__ == "__main__":
    unittest.main()
