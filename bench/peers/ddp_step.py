#!/usr/bin/env python3
"""Times training steps of PyTorch's DistributedDataParallel over gloo on the CPUs of one machine, for bench/ranks.py.

    ddp_step.py --ranks N --threads T --steps S [--workload gpt|gpt-tiny] [--precision fp32|bf16] [--batch B]

Starts N processes of T threads each, which train the model of train_step.py on B sequences each, after 3 steps that are
not counted. Prints one JSON line: {"ranks": 2, "ms": 41.2, "loss": 5.5}; `ms` is the median over the steps of rank 0.
"""
import argparse
import contextlib
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

import train_step

WARM_UP = 3


def train(rank, a, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(a.threads)
    dist.init_process_group("gloo", rank=rank, world_size=a.ranks)
    *sizes, batch, vocabulary, gelu = train_step.GPTS[a.workload]
    torch.manual_seed(1)
    model = train_step.Gpt(*sizes, vocabulary, gelu)
    model = DistributedDataParallel(model) if a.ranks > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    length, batch = sizes[-1], a.batch or batch
    torch.manual_seed(100 + rank)
    x, y = torch.randint(0, vocabulary, (batch, length)), torch.randint(0, vocabulary, (batch * length,))
    times = []
    for step in range(WARM_UP + a.steps):
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16) if a.precision == "bf16" else contextlib.nullcontext():
            logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits.float().view(-1, vocabulary), y)
        loss.backward()
        optimizer.step()
        if step >= WARM_UP:
            times.append(time.perf_counter() - begin)
    if rank == 0:
        results.put({"ranks": a.ranks, "ms": round(1e3 * statistics.median(times), 3), "loss": round(loss.item(), 6)})
    dist.destroy_process_group()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ranks", type=int, default=2)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--workload", choices=["gpt", "gpt-tiny"], default="gpt-tiny")
    ap.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    ap.add_argument("--batch", type=int, default=0, help="sequences per rank (default: that of the workload)")
    a = ap.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    mp.spawn(train, args=(a, port, results), nprocs=a.ranks)
    print(json.dumps(results.get()), flush=True)


if __name__ == "__main__":
    main()
