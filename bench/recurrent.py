#!/usr/bin/env python3
"""Times forward and backward of LSTM and GRU in Binade and in PyTorch, in turn, and prints medians and ratios.

    ninja -C build bench/recurrent_bench
    bench/recurrent.py --binade build/bench/recurrent_bench --torch .venv-torch/bin/python [--rounds 15] [--threads 2] [--precision fp32]

A ratio is the median over the rounds of Binade's time divided by PyTorch's in the same round, with its quartiles.
"""
import argparse
import pathlib
import statistics
import subprocess

PEER = pathlib.Path(__file__).resolve().parent / "peers/recurrent_step.py"
SIZES = ((32, 64, 64, 128, 1), (64, 50, 256, 256, 1), (32, 35, 512, 512, 2), (8, 100, 128, 256, 1), (1, 100, 64, 128, 1))  # batch, steps, in, hidden, layers


class Contender:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{command[0]} did not start")

    def step(self, count):
        self.process.stdin.write(f"step {count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline()) / count

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binade", required=True)
    arguments.add_argument("--torch", required=True, help="a Python with PyTorch")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    arguments.add_argument("--turn-ms", type=float, default=150, help="time that a contender works in each round")
    options = arguments.parse_args()
    print("| layer | batch | steps | in | hidden | layers | Binade, ms | PyTorch, ms | Binade / PyTorch | quartiles |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in ("lstm", "gru"):
        for sizes in SIZES:
            words = [kind, *map(str, sizes), options.precision, str(options.threads)]
            contenders = [Contender([options.binade, *words]), Contender([options.torch, str(PEER), *words])]
            counts = [max(1, round(options.turn_ms / 1e3 / c.step(1))) for c in contenders]
            rounds = [[c.step(n) for c, n in zip(contenders, counts)] for _ in range(options.rounds)]
            for c in contenders:
                c.close()
            ours, theirs = (statistics.median(r[i] for r in rounds) * 1e3 for i in (0, 1))
            low, middle, high = statistics.quantiles([a / b for a, b in rounds], n=4)
            print(f"| {kind} | {' | '.join(map(str, sizes))} | {ours:.2f} | {theirs:.2f} | {middle:.2f} | {low:.2f} - {high:.2f} |", flush=True)


if __name__ == "__main__":
    main()
