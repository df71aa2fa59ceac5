#!/usr/bin/env python3
"""Measures the cost of PyTorch's tools that find a NaN: the time of a step with a tool divided by the time without it.

    faults_overhead.py [--rounds 30] [--steps 10] [--json FILE]

Models: the three small ones of faults_models.py, and the U-Net of unet_model.py (base 16, depth 3, batch 4 of 64 x 64). A
round times `--steps` steps without a tool and then with each tool, on one thread. Prints the median of the ratio over the rounds,
and its quartiles. `anomaly` is torch.autograd.set_detect_anomaly(True), `hooks` the forward and
backward hooks of faults_baselines.py. Needs PyTorch 2.3 or later with NumPy.
"""
import argparse
import json
import statistics
import time
import warnings

import torch
import torch.nn.functional as F

from faults_baselines import add_hooks
from faults_models import ROWS, make_batch, make_model
from unet_model import UNet


class Program:
    """A training loop on one batch; `mode`: plain, anomaly or hooks."""

    def __init__(self, kind, mode):
        torch.manual_seed(1)
        self.mode = mode
        if kind == "unet-64":
            self.model = UNet(base=16, depth=3)
            self.x, self.y = torch.rand(4, 1, 64, 64), (torch.rand(4, 1, 64, 64) > 0.5).float()
            self.loss = F.binary_cross_entropy_with_logits
        else:
            self.model = make_model(kind, 1)
            self.x, self.y = make_batch(kind, 1, range(ROWS[kind]))
            self.loss = self.model.loss
        if mode == "hooks":
            add_hooks(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def seconds(self, steps):
        begin = time.perf_counter()
        with torch.autograd.set_detect_anomaly(self.mode == "anomaly"):
            for _ in range(steps):
                self.optimizer.zero_grad()
                self.loss(self.model(self.x), self.y).backward()
                self.optimizer.step()
        return (time.perf_counter() - begin) / steps


def measure(kind, rounds, steps):
    programs = {mode: Program(kind, mode) for mode in ("plain", "anomaly", "hooks")}
    for program in programs.values():
        program.seconds(3)
    times = [{mode: program.seconds(steps) for mode, program in programs.items()} for _ in range(rounds)]
    result = {"model": kind, "plain_ms": 1e3 * statistics.median(t["plain"] for t in times)}
    for mode in ("anomaly", "hooks"):
        ratios = [t[mode] / t["plain"] for t in times]
        low, middle, high = statistics.quantiles(ratios, n=4)
        result[mode] = {"median": middle, "low": low, "high": high}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, {args.rounds} rounds of {args.steps} steps: median ratio [middle half]")
    results = []
    for kind in ("mlp", "gpt", "unet", "unet-64"):
        r = measure(kind, args.rounds, args.steps)
        results.append(r)
        cells = [f"{mode} {r[mode]['median']:.2f} [{r[mode]['low']:.2f}, {r[mode]['high']:.2f}]" for mode in ("anomaly", "hooks")]
        print(f"{kind:<8} plain {r['plain_ms']:7.2f} ms  " + "  ".join(cells))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, "torch": torch.__version__, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
