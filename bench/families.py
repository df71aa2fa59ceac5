#!/usr/bin/env python3
"""Times ops of several families (index, order, einsum, decompositions, convolutions, recurrent layers) in Binade and in PyTorch, in
turn, and prints medians and ratios.

    ninja -C build bench/families_bench
    bench/families.py --binade build/bench/families_bench --torch .venv-torch/bin/python [--only REGEX] [--rounds 15] [--threads 2] [--json FILE]

A ratio is the median over the rounds of Binade's time divided by PyTorch's in the same round, with its quartiles.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess

PEER = pathlib.Path(__file__).resolve().parent / "peers/families.py"


class Contender:
    def __init__(self, command):
        self.name = command[0]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{self.name} did not start")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise SystemExit(f"{self.name} ended at '{line}'")
        return answer

    def seconds(self, name, count):
        """Returns the seconds of one repetition, as the mean of `count`."""
        return float(self.ask(f"{count} {name}")) / count

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binade", required=True)
    arguments.add_argument("--torch", required=True, help="a Python with PyTorch")
    arguments.add_argument("--only", default="", help="measure only the names that match this regular expression")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--turn-ms", type=float, default=150, help="time that a contender works in each round")
    arguments.add_argument("--json", type=pathlib.Path, help="also write all rounds to this file")
    options = arguments.parse_args()
    contenders = [Contender([options.binade, str(options.threads)]), Contender([options.torch, str(PEER), str(options.threads)])]
    lists = [c.ask("list").split("|") for c in contenders]
    if lists[0] != lists[1]:
        raise SystemExit(f"the programs measure different things: {sorted(set(lists[0]) ^ set(lists[1]))}")
    print("| measurement | Binade, ms | PyTorch, ms | Binade / PyTorch | quartiles |")
    print("|---|---|---|---|---|")
    measured = {}
    for name in lists[0]:
        if not re.search(options.only, name):
            continue
        counts = [max(1, round(options.turn_ms / 1e3 / c.seconds(name, 1))) for c in contenders]
        rounds = [[c.seconds(name, n) for c, n in zip(contenders, counts)] for _ in range(max(2, options.rounds))]
        ours, theirs = (statistics.median(r[i] for r in rounds) * 1e3 for i in (0, 1))
        low, middle, high = statistics.quantiles([a / b for a, b in rounds], n=4)
        measured[name] = rounds
        print(f"| {name} | {ours:.2f} | {theirs:.2f} | {middle:.2f} | {low:.2f} - {high:.2f} |", flush=True)
    for c in contenders:
        c.close()
    if options.json:
        facts = {"machine": platform.machine(), "cores": os.cpu_count(), "threads": options.threads, "seconds": measured}
        options.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
