"""Chaos: while a run trains under --supervise something goes wrong every few seconds, drawn from a seed. Nobody helps.

It must come to its end, and to the bits of the run that nobody disturbed. BINADE_CHAOS_SECONDS (default 8) says for how long,
BINADE_CHAOS_SEED which faults; both are printed with what was done.
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
    """What can be done to a run from outside. The supervisor waits a second before it starts a run again: time enough to
    damage what lies there."""

    def __init__(self, supervisor, folder, source):
        self.supervisor, self.folder, self.source = supervisor, folder, source

    def child(self):
        found = subprocess.run(["pgrep", "-P", str(self.supervisor.pid)], capture_output=True, text=True, check=False).stdout.split()
        return int(found[0]) if found else None

    def send(self, what):
        child = self.child()
        try:
            return child is not None and os.kill(child, what) is None
        except ProcessLookupError:  # it died by itself in this moment
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
        """Only between two lives: a file that a live run reads is its own business."""
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
    """What each step came to: the last committed line of each."""
    return {line["step"]: (line["loss"], line["lr"]) for line in metrics(folder) if line.get("committed")}


class Chaos(ProgramTest):
    def test_a_run_under_constant_attack_ends_at_the_bits_of_a_quiet_one(self):
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
            # A slow machine needs its time to start again and to commit: else three deaths at one step are the end, rightly.
            if time.monotonic() < next_fault or saboteur.newest() == seen:
                continue
            order = order or source.sample(FAULTS, len(FAULTS))
            fault = order.pop()
            done[fault] = done.get(fault, 0) + int(getattr(saboteur, fault)())
            next_fault, seen = time.monotonic() + PAUSE, saboteur.newest()
        supervisor.terminate()  # where it has not come to an end
        supervisor.wait(60)
        print(f"seed {SEED}: {steps} steps, {sum(done.values())} faults from outside, {len(inside)} from inside: {done}")
        self.assertEqual(supervisor.returncode, 0, log.read_text()[-3000:])
        self.assertGreater(sum(done.values()), 1)  # more where the machine is as fast as the probe found it

        hashes = [run(DOCTOR, "hash", each / "checkpoints" / f"ckpt-{steps:012}.h5").stdout.split()[0] for each in (control, folder)]
        self.assertEqual(hashes[0], hashes[1])
        self.assertEqual(committed(folder), committed(control))


if __name__ == "__main__":
    unittest.main(verbosity=2)
