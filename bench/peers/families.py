#!/usr/bin/env python3
"""Times what bench/families_bench.cpp times, in PyTorch on the CPU, at the request of bench/families.py; arguments and answers are
those of the C++ program. Layouts are PyTorch's own: (N, C, L) and (N, C, D, H, W)."""
import sys
import time

import torch

randn, randint, zeros = torch.randn, torch.randint, torch.zeros


def no_gradients(run):
    def repetition():
        with torch.inference_mode():
            run()
    return repetition


def with_backward(inputs, run):
    def repetition():
        for x in inputs:
            x.grad = None
        run(*inputs).sum().backward()
    return repetition


def trained(*dims):
    return torch.randn(dims, requires_grad=True)


def definite(*dims):
    x = randn(dims)
    return x @ x.mT + dims[-1] * torch.eye(dims[-1])


def gather(axis, most):
    x, i = randn(4096, 1024), randint(0, most, (4096, 1024))
    return no_gradients(lambda: torch.gather(x, axis, i))


def scatter_add():
    x, i, s = zeros(4096, 1024), randint(0, 1024, (4096, 1024)), randn(4096, 1024)
    return no_gradients(lambda: torch.scatter_add(x, 1, i, s))


def index_add():
    x, i, s = zeros(4096, 64), randint(0, 4096, (65536,)), randn(65536, 64)
    return no_gradients(lambda: torch.index_add(x, 0, i, s))


def of_one(run, *dims):
    x = randn(*dims)
    return no_gradients(lambda: run(x))


def einsum(equation, *shapes):
    operands = [randn(*s) for s in shapes]
    return no_gradients(lambda: torch.einsum(equation, *operands))


def cholesky(*dims):
    a = definite(*dims)
    return no_gradients(lambda: torch.linalg.cholesky(a))


def conv(function, x, w, **options):
    return with_backward([trained(*x), trained(*w)], lambda a, b: function(a, b, **options))


def recurrent(kind):
    module = kind(64, 128, batch_first=True)
    return with_backward([trained(32, 64, 64), *module.parameters()], lambda x, *_: module(x)[0])


F = torch.nn.functional
MEASUREMENTS = {
    "gather of 4096 x 1024 along rows": lambda: gather(1, 1024),
    "gather of 4096 x 1024 along columns": lambda: gather(0, 4096),
    "scatter_add of 4096 x 1024 along rows": scatter_add,
    "index_add of 65536 rows of 64 to 4096": index_add,
    "sort of 64 x 16384": lambda: of_one(lambda x: torch.sort(x, dim=1, stable=True), 64, 16384),
    "sort of 1048576": lambda: of_one(lambda x: torch.sort(x, stable=True), 1048576),
    "topk 50 of 64 x 32000": lambda: of_one(lambda x: torch.topk(x, 50), 64, 32000),
    "topk 5 of 1024 x 1000": lambda: of_one(lambda x: torch.topk(x, 5), 1024, 1000),
    "cumsum of 1024 x 4096 along rows": lambda: of_one(lambda x: torch.cumsum(x, 1), 1024, 4096),
    "cumsum of 1024 x 4096 along columns": lambda: of_one(lambda x: torch.cumsum(x, 0), 1024, 4096),
    "einsum bqhd,bkhd->bhqk of 8 x 128 x 8 x 64": lambda: einsum("bqhd,bkhd->bhqk", (8, 128, 8, 64), (8, 128, 8, 64)),
    "einsum bij,bjk->bik of 64 x 128 x 128": lambda: einsum("bij,bjk->bik", (64, 128, 128), (64, 128, 128)),
    "einsum bi,ij,bj->b of 4096 x 256": lambda: einsum("bi,ij,bj->b", (4096, 256), (256, 256), (4096, 256)),
    "cholesky of 1024 matrices of 16 rows": lambda: cholesky(1024, 16, 16),
    "cholesky of 1024 rows": lambda: cholesky(1024, 1024),
    "conv1d of 16 x 1024 x 64 to 128, kernel 3, with backward": lambda: conv(F.conv1d, (16, 64, 1024), (128, 64, 3), padding=1),
    "conv1d of 8 x 4096 x 64, each channel, kernel 7, with backward": lambda: conv(F.conv1d, (8, 64, 4096), (64, 1, 7), padding=3, groups=64),
    "conv3d of 2 x 16 x 64 x 64 x 16 to 32, kernel 3, with backward": lambda: conv(F.conv3d, (2, 16, 16, 64, 64), (32, 16, 3, 3, 3), padding=1),
    "lstm of 32 x 64 x 64, hidden 128, with backward": lambda: recurrent(torch.nn.LSTM),
    "gru of 32 x 64 x 64, hidden 128, with backward": lambda: recurrent(torch.nn.GRU),
}


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(1)
    print("ready", flush=True)
    made = {}  # only the last measurement, because inputs are large
    for line in sys.stdin:
        if line.strip() == "list":
            print("|".join(MEASUREMENTS), flush=True)
            continue
        count, _, name = line.strip().partition(" ")
        if name not in made:
            made.clear()
            made[name] = MEASUREMENTS[name]()
            made[name]()
        begin = time.perf_counter()
        for _ in range(int(count)):
            made[name]()
        print(f"{time.perf_counter() - begin:.9f}", flush=True)


if __name__ == "__main__":
    main()
