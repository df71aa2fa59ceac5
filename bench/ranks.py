#!/usr/bin/env python3
"""Times training steps over ranks in Binade and in PyTorch (DistributedDataParallel over gloo), on the CPUs of one machine.

    bench/ranks.py [--build build] [--torch PYTHON] [--rounds 20] [--steps 20] [--ranks 2] [--threads 1] [--baseline BUILD]

Each round runs, one after the other and in an order that rotates: Binade with 1 rank and with N ranks, PyTorch with 1
rank and with N ranks. All train the same small transformer (gpt-tiny: 4 layers, 128 wide, context 64) in fp32 with AdamW
on the same number of sequences per rank, with T threads per rank. `ms` is the median of the steps of a round, without the
first ones. The table has the median over the rounds, the ratio to PyTorch in the same round, and the speed-up: the time
of 1 rank divided by that of N ranks, for steps of as many sequences. One rank of Binade computes them as N micro-batches,
one rank of PyTorch as one batch.

With --baseline, each round also times one process without ranks of this build and of a build of another commit, and
prints their ratio: the cost of Binade's support of ranks in a program that does not use it. The goal is at most 1.002.

Other processes disturb the figures: each row has the load average of the last minute at its start and end. It includes the
processes of this program.
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
WARM_UP = 5


def load():
    return os.getloadavg()[0]


def binade(a, build, ranks, micro_batches):
    """Returns the median milliseconds of a step of `micro_batches` micro-batches over `ranks` processes."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        command = [str(build / "examples/transformer/binade-gpt"), "train", "--run", str(run), "--layers", "4", "--dim", "128",
                   "--heads", "4", "--context", "64", "--batch", str(a.batch), "--accumulate", str(micro_batches), "--precision", "fp32",
                   "--threads", str(a.threads), "--steps", str(WARM_UP + a.steps), "--checkpoint-minutes", "0", "--eval-every", "0",
                   "--forecast-memory", "off", "--tokenizer", "byte"]
        if ranks > 1:
            command += ["--ranks", str(ranks)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=a.deadline)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        lines = [json.loads(line) for line in (run / "timing.jsonl").read_text().splitlines()]
        times = [line["ms"] for line in lines][WARM_UP:]
        return statistics.median(times)


def torch(a, ranks, batch):
    command = [a.torch, str(HERE / "peers" / "ddp_step.py"), "--ranks", str(ranks), "--threads", str(a.threads), "--steps", str(a.steps),
               "--batch", str(batch)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=a.deadline)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])["ms"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build")
    ap.add_argument("--baseline", type=pathlib.Path, help="build folder of another commit")
    ap.add_argument("--torch", default=os.environ.get("BINADE_TORCH_PYTHON", str(HERE.parent / ".venv-torch/bin/python")))
    ap.add_argument("--rounds", type=int, default=20)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--ranks", type=int, default=2)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--batch", type=int, default=16, help="sequences per micro-batch, and per rank of PyTorch")
    ap.add_argument("--deadline", type=float, default=600, help="seconds for one process")
    a = ap.parse_args()
    n = a.ranks
    contenders = {f"binade, 1 rank, {n} micro-batches": lambda: binade(a, a.build, 1, n),
                  f"binade, {n} ranks": lambda: binade(a, a.build, n, n),
                  f"torch, 1 rank, batch x {n}": lambda: torch(a, 1, n * a.batch),
                  f"torch, {n} ranks": lambda: torch(a, n, a.batch)}
    if a.baseline:
        contenders |= {"binade alone": lambda: binade(a, a.build, 1, 1), "binade alone, baseline": lambda: binade(a, a.baseline, 1, 1)}
    names = list(contenders)
    times = {name: [] for name in names}
    print(f"load at the begin: {load():.2f} on {os.cpu_count()} cores", flush=True)
    for number in range(a.rounds):
        order = list(itertools.islice(itertools.cycle(names), number % len(names), number % len(names) + len(names)))
        before = load()
        for name in order:
            times[name].append(contenders[name]())
        print(f"round {number + 1}: " + ", ".join(f"{name} {times[name][-1]:.1f} ms" for name in names) +
              f"; load {before:.2f} to {load():.2f}", flush=True)

    def ratio(over, under):
        return statistics.median(x / y for x, y in zip(times[over], times[under]))

    print(f"\n{'contender':36} {'median ms':>10} {'least ms':>10}")
    for name in names:
        print(f"{name:36} {statistics.median(times[name]):10.2f} {min(times[name]):10.2f}")
    print(f"\nbinade / torch, {n} ranks: {ratio(names[1], names[3]):.3f} (goal: at most 0.8)")
    print(f"speed-up of {n} ranks: binade {ratio(names[0], names[1]):.3f}, torch {ratio(names[2], names[3]):.3f}")
    if a.baseline:
        print(f"alone / baseline: {ratio(names[4], names[5]):.4f} (goal: at most 1.002)")


if __name__ == "__main__":
    main()
