#!/usr/bin/env python3
"""Times forward and backward of torch.nn.LSTM or GRU on the CPU, at the request of bench/recurrent.py; arguments and answers are those
of bench/recurrent_bench.cpp."""
import contextlib
import sys
import time

import torch

kind, batch, steps, inputs, hidden, layers, precision, threads = sys.argv[1], *map(int, sys.argv[2:7]), sys.argv[7], int(sys.argv[8])
torch.set_num_threads(threads)
torch.manual_seed(1)
module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](inputs, hidden, num_layers=layers, batch_first=True)
x = torch.randn(batch, steps, inputs, requires_grad=True)


def step():
    for p in (x, *module.parameters()):
        p.grad = None
    with torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext():
        y, _ = module(x)
        loss = y.float().sum()
    loss.backward()


step()
print("ready", flush=True)
for line in sys.stdin:
    begin = time.perf_counter()
    for _ in range(int(line.split()[1])):
        step()
    print(f"{time.perf_counter() - begin:.9f}", flush=True)
