"""Chaos: while a run trains under --supervise, a random fault strikes every few seconds.

The run must finish without help, with the bits of an undisturbed run. BINADE_CHAOS_SECONDS (default 8) sets the duration and
BINADE_CHAOS_SEED the faults; the test prints both with the faults.
"""
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

from programs import DOCTOR, GPT, GPT_TINY, ProgramTest, checkpoints, metrics, run

SECONDS = float(os.environ.get("BINADE_CHAOS_SECONDS", "8"))
SEED = int(os.environ.get("BINADE_CHAOS_SEED", "1"))
PAUSE = 5.0 if SECONDS >= 60 else 1.5  # between faults


def flip_a_bit(path, source):
    data = bytearray(path.read_bytes())
    data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    path.write_bytes(data)


class Saboteur:
    """Faults from outside of the run. The supervisor waits a second before it restarts the run, in which files can be
    damaged."""

    def __init__(self, supervisor, folder, source):
        self.supervisor, self.folder, self.source = supervisor, folder, source

    def child(self):
        found = subprocess.run(["pgrep", "-P", str(self.supervisor.pid)], capture_output=True, text=True, check=False).stdout.split()
        return int(found[0]) if found else None

    def send(self, what):
        child = self.child()
        try:
            return child is not None and os.kill(child, what) is None
        except ProcessLookupError:  # the child has just ended by itself
            return False

    def newest(self):
        return checkpoints(self.folder)[-1:]

    def kill(self):
        return self.send(signal.SIGKILL)

    def crash(self):
        return self.send(signal.SIGSEGV)

    def stop_the_child(self):
        return self.send(signal.SIGTERM)

    def freeze(self):
        done = self.send(signal.SIGSTOP)
        time.sleep(0.3)
        return self.send(signal.SIGCONT) and done

    def kill_and(self, harm):
        """Kills the child, then calls `harm` with the newest checkpoint. No file is changed while a process uses it."""
        if len(checkpoints(self.folder)) < 3 or not self.kill():
            return False
        time.sleep(0.1)
        harm(self.newest()[0])
        return True

    def flip_a_bit_of_the_newest(self):
        return self.kill_and(lambda path: flip_a_bit(path, self.source))

    def truncate_the_newest(self):
        return self.kill_and(lambda path: os.truncate(path, self.source.randrange(path.stat().st_size)))

    def delete_the_newest(self):
        return self.kill_and(pathlib.Path.unlink)

    def delete_the_manifest(self):
        return self.kill_and(lambda path: (path.parent / "MANIFEST").unlink(missing_ok=True))

    def damage_the_manifest(self):
        return self.kill_and(lambda path: flip_a_bit(path.parent / "MANIFEST", self.source))

    def leave_a_foreign_file(self):
        return self.kill_and(lambda path: (path.parent / "ckpt-000009999999.h5").write_bytes(self.source.randbytes(5000)))

    def leave_half_a_save(self):
        return self.kill_and(lambda path: (path.parent / ".ckpt-000009999999.h5.saving").write_bytes(path.read_bytes()[:1000]))

    def tear_the_log(self):
        def harm(_):
            with (self.folder / "metrics.jsonl").open("a") as log:
                log.write('{"step":99999,"att')
        return self.kill_and(harm)


FAULTS = ("kill", "crash", "stop_the_child", "freeze", "flip_a_bit_of_the_newest", "truncate_the_newest", "delete_the_newest",
          "delete_the_manifest", "damage_the_manifest", "leave_a_foreign_file", "leave_half_a_save", "tear_the_log")


def committed(folder):
    """Loss and learning rate of each step, from its last committed line."""
    return {line["step"]: (line["loss"], line["lr"]) for line in metrics(folder) if line.get("committed")}


class Chaos(ProgramTest):
    def test_a_run_with_many_faults_has_the_bits_of_an_undisturbed_run(self):
        source = random.Random(SEED)
        train = ["train", "--data", self.text, *GPT_TINY, "--precision", "fp16", "--checkpoint-every", 20, "--threads", 1, "--warmup", 10]
        probe = self.folder / "probe"
        begun = time.monotonic()
        self.assertEqual(run(GPT, *train, "--run", probe, "--steps", 500).returncode, 0)
        steps = max(2000, int(500 * SECONDS / (time.monotonic() - begun)))
        control, folder = self.folder / "control", self.folder / "chaos"
        self.assertEqual(run(GPT, *train, "--run", control, "--steps", steps, timeout=4 * SECONDS + 240).returncode, 0)

        inside = [f"enospc@step={steps // 7}", f"nan-weight@step={steps // 3},path=blocks.0.mlp.up,once=1", f"enospc@step={steps // 2}",
                  f"kill@step={2 * steps // 3}"]
        log = self.folder / "terminal"
        command = [GPT, *train, "--run", folder, "--steps", steps, "--supervise", *[x for fault in inside for x in ("--inject", fault)]]
        with log.open("w") as terminal:
            supervisor = subprocess.Popen([str(word) for word in command], stdout=terminal, stderr=terminal)
        saboteur = Saboteur(supervisor, folder, source)
        done, order = {}, []
        end = time.monotonic() + 20 * SECONDS + 240
        next_fault, seen = time.monotonic() + PAUSE, []
        while supervisor.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
            # Wait for a further checkpoint before the next fault: after three deaths at one step the supervisor gives up, as designed.
            if time.monotonic() < next_fault or saboteur.newest() == seen:
                continue
            order = order or source.sample(FAULTS, len(FAULTS))
            fault = order.pop()
            done[fault] = done.get(fault, 0) + int(getattr(saboteur, fault)())
            next_fault, seen = time.monotonic() + PAUSE, saboteur.newest()
        supervisor.terminate()  # if it has not finished
        supervisor.wait(60)
        print(f"seed {SEED}: {steps} steps, {sum(done.values())} faults from outside, {len(inside)} from inside: {done}")
        self.assertEqual(supervisor.returncode, 0, log.read_text()[-3000:])
        self.assertGreater(sum(done.values()), 1)  # a minimum, because the machine may be slower than during the probe

        hashes = [run(DOCTOR, "hash", each / "checkpoints" / f"ckpt-{steps:012}.h5").stdout.split()[0] for each in (control, folder)]
        self.assertEqual(hashes[0], hashes[1])
        self.assertEqual(committed(folder), committed(control))


if __name__ == "__main__":
    unittest.main(verbosity=2)
