#!/usr/bin/env python3
"""Times copies, products and single ops in PyTorch. Prints JSON lines in the format of bench/gpu_bench.cpp.

    gpu_ops.py [--tokens 65536] [--quick] [--dry]         --dry: tiny sizes, on the CPU if there is no GPU

Measures copies, square products, the products of GPT-2 in bf16 (also with bias and GELU), attention by cuDNN, layer norm,
cross-entropy, batch norm with ReLU, and AdamW of 124M parameters, all eager. Counts bytes and operations as gpu_bench does.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

from gpu_step import attention_by_cudnn


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tokens", type=int, default=65536)
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--dry", action="store_true")
    a = ap.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not a.dry:
        raise SystemExit("no GPU for PyTorch")
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    def measure(part, what, dtype, moved, flops, run):
        def timed(count):
            wait()
            start = time.perf_counter()
            for _ in range(count):
                run()
            wait()
            return (time.perf_counter() - start) / count

        line = dict(part=part, what=what, dtype=dtype)
        try:
            timed(1 if a.dry else 3)
            count = 1 if a.dry else max(1, min(500, int(0.02 / timed(1))))
            rounds = sorted(timed(count) for _ in range(1 if a.dry else 3 if a.quick else 7))
            median = statistics.median(rounds)
            line.update(us=median * 1e6, us_min=rounds[0] * 1e6, us_max=rounds[-1] * 1e6, calls=count, bytes=moved, flops=flops,
                        tb_s=moved / median * 1e-12, tflop_s=flops / median * 1e-12)
        except RuntimeError as error:
            line.update(error=str(error)[:300])
        print(json.dumps(line), flush=True)

    def values(*shape, dtype=torch.bfloat16):
        return torch.randn(*shape, device=device, dtype=dtype)

    n = 1024 if a.dry else 512 << 20
    source, to = values(n, dtype=torch.float32), torch.empty(n, device=device)
    measure("copy", "device to device", "", 8.0 * n, 0, lambda: to.copy_(source))
    del source, to
    n = 16 if a.dry else 8192
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("tf32", torch.float32)):
        x, y = values(n, n, dtype=dtype), values(n, n, dtype=dtype)
        measure("gemm", f"{n} x {n} x {n}", name, 3 * x.numel() * x.element_size(), 2.0 * n**3, lambda: x @ y)
    rows, dim, heads, length = (8, 16, 2, 8) if a.dry else (a.tokens, 768, 12, 1024)
    for name, out, inner in (("qkv", 3, 1), ("attention out", 1, 1), ("up", 4, 1), ("down", 1, 4)):
        x, w, gy = values(rows, inner * dim), values(out * dim, inner * dim), values(rows, out * dim)
        moved = 2.0 * (x.numel() + w.numel() + gy.numel())
        flops = 2.0 * rows * inner * dim * out * dim
        measure("product", name + " forward", "bf16", moved, flops, lambda: F.linear(x, w))
        measure("product", name + " gradient of x", "bf16", moved, flops, lambda: gy @ w)
        measure("product", name + " gradient of w", "bf16", moved, flops, lambda: gy.t() @ x)
        bias = values(out * dim)
        if name == "up":
            measure("product", name + " forward, bias and gelu", "bf16", moved + 2.0 * gy.numel(), flops,
                    lambda: F.gelu(F.linear(x, w, bias), approximate="tanh"))
        else:
            measure("product", name + " forward, bias", "bf16", moved, flops, lambda: F.linear(x, w, bias))
    batch = rows // length
    q, k, v = (values(batch, heads, length, dim // heads).requires_grad_() for _ in range(3))
    with attention_by_cudnn(device):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        gy = torch.randn_like(y)
        product = float(rows) * length * dim
        moved = 8.0 * rows * dim
        with torch.no_grad():
            measure("op", "attention forward", "bf16", moved, 2 * product, lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        measure("op", "attention backward", "bf16", 2 * moved, 5 * product,
                lambda: torch.autograd.grad(y, (q, k, v), gy, retain_graph=True))
    x, weight, bias = values(rows, dim).requires_grad_(), values(dim).requires_grad_(), values(dim).requires_grad_()
    gy = values(rows, dim)
    y = F.layer_norm(x, (dim,), weight, bias)
    with torch.no_grad():
        measure("op", "layer_norm forward", "bf16", 4.0 * rows * dim, 0, lambda: F.layer_norm(x, (dim,), weight, bias))
    measure("op", "layer_norm backward", "bf16", 6.0 * rows * dim, 0, lambda: torch.autograd.grad(y, (x, weight, bias), gy, retain_graph=True))
    w = torch.nn.Parameter(values(64 if a.dry else 124475904, dtype=torch.float32))
    w.grad = torch.randn_like(w)
    adam = torch.optim.AdamW([w], lr=1e-4, fused=device == "cuda")
    measure("op", "adamw of 124M", "f32", 28.0 * w.numel(), 0, adam.step)
    del x, y, gy, w, adam
    classes = 32 if a.dry else 50304
    x, targets = values(rows, classes).requires_grad_(), torch.randint(classes, (rows,), device=device)
    moved = 2.0 * x.numel()
    with torch.no_grad():
        measure("op", "cross_entropy forward", "bf16", moved, 0, lambda: F.cross_entropy(x, targets))
    loss = F.cross_entropy(x, targets)
    measure("op", "cross_entropy backward", "bf16", 2 * moved, 0, lambda: torch.autograd.grad(loss, x, retain_graph=True))
    del x, loss
    batch, side, channels = (1, 8, 8) if a.dry else (16, 512, 64)
    x = values(batch, channels, side, side).contiguous(memory_format=torch.channels_last).requires_grad_()
    gy = torch.randn_like(x)
    norm = torch.nn.BatchNorm2d(channels, device=device)
    moved = 2.0 * x.numel()
    with torch.no_grad():
        measure("op", "batch_norm + relu forward", "bf16", 3 * moved, 0, lambda: F.relu(norm(x)))
    y = F.relu(norm(x))
    measure("op", "batch_norm + relu backward", "bf16", 5 * moved, 0,
            lambda: torch.autograd.grad(y, (x, norm.weight, norm.bias), gy, retain_graph=True))


if __name__ == "__main__":
    main()
