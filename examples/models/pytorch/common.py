"""Shared by the PyTorch twins: the same command line, timed steps and printed numbers as ../common.h."""
import argparse
import statistics
import time

import torch


def metric(name, value):
    print(f"metric {name} {float(value):.6g}", flush=True)


class Arguments:
    """The command line: `args = Arguments(steps=200, width=16)`, then `args.width`.

    `with args.autocast():` computes in the policy's dtype; `args.scaler` scales losses in fp16, and does nothing else.
    """

    def __init__(self, **numbers):
        parser = argparse.ArgumentParser()
        for name, default in {"steps": 100, "seed": 1, "threads": 1, **numbers}.items():
            parser.add_argument("--" + name, type=int, default=default)
        parser.add_argument("--policy", choices=["fp32", "bf16", "fp16"], default="fp32")
        self.__dict__.update(vars(parser.parse_args()))
        self.count = self.steps
        self.steps = self.timed_steps
        torch.manual_seed(self.seed)
        if self.threads:
            torch.set_num_threads(self.threads)
        self.scaler = torch.amp.GradScaler("cpu", enabled=self.policy == "fp16")

    def autocast(self):
        dtype = torch.float16 if self.policy == "fp16" else torch.bfloat16
        return torch.autocast("cpu", dtype=dtype, enabled=self.policy != "fp32")

    def timed_steps(self):
        """The numbers from 0 to steps - 1. Prints step_ms, the median time of a turn of the loop, at the end."""
        times, start = [], time.perf_counter()
        for step in range(self.count):
            yield step
            now = time.perf_counter()
            times.append(1000 * (now - start))
            start = now
        if times:
            metric("step_ms", statistics.median(times))

    def report(self, step, loss):
        """Prints the loss of about ten of the steps."""
        if step % max(1, self.count // 10) == 0:
            print(f"step {step} loss {loss.item():.4f}")
