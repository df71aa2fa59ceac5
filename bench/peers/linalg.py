#!/usr/bin/env python3
"""Times what bench/linalg_bench.cpp times, in PyTorch on the CPU: linalg.py [THREADS [REPEATS]]. Prints the same JSON lines."""
import json
import sys
import time

import torch


def main():
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    torch.manual_seed(1)
    for dtype, name in ((torch.float32, "f32"), (torch.float64, "f64")):
        def matrices(*dims):
            return torch.randn(dims, dtype=dtype)

        def definite(*dims):
            x = matrices(*dims)
            return x @ x.mT + dims[-1] * torch.eye(dims[-1], dtype=dtype)

        small, one, b = definite(1024, 16, 16), definite(1024, 1024), matrices(1024, 64)
        tall, q, k, chain = matrices(64, 32, 32), matrices(8, 128, 8, 64), matrices(8, 128, 8, 64), matrices(256, 512)
        for what, run in (("cholesky of 1024 matrices of 16 rows", lambda: torch.linalg.cholesky(small)),
                          ("cholesky of 1024 rows", lambda: torch.linalg.cholesky(one)),
                          ("solve of 1024 rows for 64 columns", lambda: torch.linalg.solve(one, b)),
                          ("svd of 64 matrices of 32 rows", lambda: torch.linalg.svd(tall, full_matrices=False)),
                          ("einsum bqhd,bkhd->bhqk", lambda: torch.einsum("bqhd,bkhd->bhqk", q, k)),
                          ("einsum ij,kj->ik", lambda: torch.einsum("ij,kj->ik", chain, chain))):
            run()
            times = []
            for _ in range(repeats):
                start = time.perf_counter()
                run()
                times.append(time.perf_counter() - start)
            print(json.dumps({"what": what, "dtype": name, "ms": round(1e3 * min(times), 3)}))


if __name__ == "__main__":
    main()
