#!/usr/bin/env python3
"""Measures how much a checkpoint slows down training, from timing.jsonl of a real training. Standard library only.

    bench/checkpoints.py [--workload gpt-tiny|unet|gpt2] [--precision fp32] [--threads 2] [--every 50] [--saves 20]

One process trains and saves every 2 x EVERY steps. The EVERY steps after a save are compared with the next EVERY steps, which no
save disturbs; EVERY steps must therefore take longer than a save. Prints medians over the saves, each with a 95 % confidence
interval (two order statistics):

  step      time of an undisturbed step in milliseconds
  stall     delay of the steps while the state is copied for the writer thread, in milliseconds and as a share of 50 steps
  slowed    time of a step while the writer thread works, divided by that of an undisturbed step
  cost      total delay by a save (stall and slower steps), as a share of 50 steps
  save      size of a checkpoint, and the time to write it, read it back and sync it
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PER_SAVE = 50  # `stall` and `cost` are shares of the time of this many steps
WORKLOADS = {
    "gpt-tiny": ("binade-gpt", ["--preset", "tiny", "--batch", "16"]),
    # The tokens are bytes, so the token table is small. Five more layers than in GPT-2 make up for it: the state has 1.45 GB.
    "gpt2": ("binade-gpt", ["--preset", "gpt2", "--layers", "17", "--batch", "4", "--context", "64"]),
    "unet": ("binade-unet", ["--base", "32", "--depth", "4", "--size", "128", "--batch", "4", "--optimizer", "adam"]),
}


def program(name):
    folder = {"binade-gpt": "transformer", "binade-unet": "unet"}[name]
    return os.path.join(ROOT, "build", "examples", folder, name)


def train(workload, precision, threads, steps, every, folder):
    """Trains in `folder`/run and returns the lines of its timing.jsonl by step."""
    name, flags = WORKLOADS[workload]
    command = [program(name), "train", "--run", os.path.join(folder, "run"), "--steps", str(steps), "--checkpoint-every",
               str(every), "--checkpoint-minutes", "0", "--keep", "1", "--log-every", "1000000", "--precision", precision, "--threads", str(threads), *flags]
    if name == "binade-gpt":
        text = os.path.join(folder, "text.txt")
        with open(text, "w", encoding="ascii") as file:
            file.write("the quick brown fox jumps over the lazy dog. " * 400)
        command += ["--data", text]
    subprocess.run(command, check=True, stderr=subprocess.PIPE)
    with open(os.path.join(folder, "run", "timing.jsonl"), encoding="ascii") as lines:
        return {line["step"]: line for line in map(json.loads, lines)}


def summary(values):
    """Returns the median and the bounds of its 95 % confidence interval."""
    values = sorted(values)
    half, spread = len(values) // 2, int(0.98 * math.sqrt(len(values)))
    return values[half], values[max(0, half - spread)], values[min(len(values) - 1, half + spread)]


def with_interval(values, form):
    return "{} [{}, {}]".format(*(form.format(v) for v in summary(values)))


def shares(lines, every, saves):
    """Returns the time of an undisturbed step, and for each save: the stall (ms), the total delay (ms), the slowdown of steps."""
    undisturbed = statistics.median(lines[s]["ms"] for s in lines if s > 2 * every and (s - 1) % (2 * every) >= every)
    stalls, costs, slowed = [], [], []
    for save in range(1, saves + 1):
        first = 2 * every * save + 1
        during = [lines[s] for s in range(first, first + every)]
        after = [lines[s] for s in range(first + every, first + 2 * every)]
        if "stall_ms" not in during[0] or any("saving" in line for line in after):
            sys.exit(f"the save after step {first - 1} was not ended {every} steps later; take a larger --every")
        stalls.append(during[0]["stall_ms"])
        costs.append(stalls[-1] + sum(line["ms"] for line in during) - sum(line["ms"] for line in after))
        beside = [line["ms"] for line in during if "saving" in line]
        slowed.append(statistics.median(beside) / statistics.median(line["ms"] for line in after))
    return undisturbed, stalls, costs, slowed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=WORKLOADS, default="gpt-tiny")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--saves", type=int, default=20)
    parser.add_argument("--folder", help="where the run is written (a temporary folder)")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=a.folder) as folder:
        lines = train(a.workload, a.precision, a.threads, 2 * a.every * (a.saves + 1) + 1, 2 * a.every, folder)
    step, stalls, costs, slowed = shares(lines, a.every, a.saves)
    saved = [line for line in lines.values() if "saved_s" in line]
    size = saved[-1]["saved_mb"]
    print(f"{a.workload} {a.precision}, {a.threads} threads, {len(stalls)} saves, {a.every} steps after each")
    print(f"step    {step:.1f} ms")
    print(f"stall   {with_interval(stalls, '{:.2f}')} ms, {with_interval([100 * s / step / PER_SAVE for s in stalls], '{:.3f}')} % of {PER_SAVE} steps")
    print(f"slowed  {with_interval(slowed, '{:.3f}')} while the writer works")
    print(f"cost    {with_interval([100 * c / step / PER_SAVE for c in costs], '{:.2f}')} % of {PER_SAVE} steps")
    print(f"save    {size:.1f} MB in {with_interval([line['saved_s'] for line in saved], '{:.3f}')} s, "
          f"{with_interval([size / line['saved_s'] for line in saved], '{:.0f}')} MB/s")


if __name__ == "__main__":
    main()
