#!/usr/bin/env python3
"""Measures the time from the start of `train --resume` to its first committed step. Standard library only.

    bench/restart.py [--rounds 9] [--threads 2] [--base 32]

Trains a U-Net (base 32, depth 4, Adam: 7.8 million parameters, a checkpoint of 93 MB) for two steps, and then resumes it for
one step at a time. A round takes from the start of the process until metrics.jsonl contains the next step. Prints the first round,
which may read from a cold disk, separately, and the median and range of the others.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "build", "examples", "unet", "binade-unet")


def lines_of(path):
    with open(path, encoding="ascii") as lines:
        return [json.loads(line) for line in lines]


def resume(run, steps, threads):
    """Returns the seconds until the next step is in the log, and the milliseconds of that step alone."""
    metrics = os.path.join(run, "metrics.jsonl")
    before = os.path.getsize(metrics)
    begin = time.monotonic()
    with subprocess.Popen([PROGRAM, "train", "--run", run, "--resume", "--steps", str(steps), "--threads", str(threads)],
                          stderr=subprocess.PIPE) as process:
        while os.path.getsize(metrics) <= before and process.poll() is None:
            time.sleep(0.0005)
        seconds = time.monotonic() - begin
        text = process.communicate()[1].decode()
    if process.returncode != 0:
        raise SystemExit(text)
    return seconds, lines_of(os.path.join(run, "timing.jsonl"))[-1]["ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--base", type=int, default=32)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        subprocess.run([PROGRAM, "train", "--run", run, "--steps", "2", "--base", str(a.base), "--depth", "4", "--size", "64",
                        "--batch", "1", "--optimizer", "adam", "--threads", str(a.threads)], check=True, stderr=subprocess.PIPE)
        checkpoints = os.path.join(run, "checkpoints")
        size = os.path.getsize(os.path.join(checkpoints, "ckpt-000000000002.h5")) / 1e6
        rounds = [resume(run, 3 + i, a.threads) for i in range(a.rounds + 1)]
    first, rest = rounds[0][0], sorted(seconds for seconds, _ in rounds[1:])
    steps = sorted(ms for _, ms in rounds[1:])
    print(f"checkpoint {size:.1f} MB, {a.threads} threads: first committed step after {rest[len(rest) // 2]:.2f} s "
          f"[{rest[0]:.2f}, {rest[-1]:.2f}] of {len(rest)} restarts (the first {first:.2f} s); the step itself {steps[len(steps) // 2]:.0f} ms")


if __name__ == "__main__":
    main()
