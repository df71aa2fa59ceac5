#!/usr/bin/env python3
"""Runs training steps in PyTorch on the CPU at the request of a benchmark, which times several programs in turn.

    train_step.py unet|gpt|gpt-tiny|gpt2 [--precision fp32|bf16] [--channels-last] [--threads N]

Prints one JSON line when it is ready, then answers each line of stdin with one JSON line:

    {"ready": true, "backend": "torch 2.12.0", "workload": "unet", "precision": "fp32", "threads": 2, "parameters": 7761857, "base_mib": 412.0}
    step 5      ->  {"steps": 5, "ms": 512.3, "loss": 0.69, "first_loss": 0.72, "peak_mib": 633.0}
    quit, or the end of stdin: exits

`ms` is the wall time of a step (mean over the N steps), `loss` the loss of the last step, `first_loss` the loss before any update,
`peak_mib` VmHWM, and `base_mib` the resident size after importing PyTorch. A step is forward, loss, backward and
optimizer on one fixed batch of random values. bf16 is torch.autocast. Runs with PyTorch 1.13 and 2.x.

  unet      batch 4 of 128 x 128 x 1, base 32, depth 4 (unet_model.py), BCE with logits, Adam
  gpt       6 layers, 384 wide, 6 heads, context 256, batch 8, vocabulary 256; pre-LN, exact GELU, biases, tied head, AdamW
  gpt-tiny  4 layers, 128 wide, 4 heads, context 64, batch 16, vocabulary 256
  gpt2      12 layers, 768 wide, 12 heads, 64 of 1024 positions, batch 4, vocabulary 50257, tanh GELU
"""
import argparse
import contextlib
import json
import math
import sys
import time
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

from unet_model import UNet

GPTS = {"gpt": (6, 384, 6, 256, 256, 8, 256, "none"), "gpt-tiny": (4, 128, 4, 64, 64, 16, 256, "none"),
        "gpt2": (12, 768, 12, 1024, 64, 4, 50257, "tanh")}  # layers, dim, heads, positions, T, batch, vocabulary, GELU


class Block(nn.Module):
    def __init__(self, dim, heads, gelu):
        super().__init__()
        self.heads, self.gelu = heads, gelu
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            logits = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(c // self.heads))
            y = torch.softmax(logits.masked_fill(mask, -math.inf), -1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate=self.gelu))


class Gpt(nn.Module):
    def __init__(self, layers, dim, heads, positions, length, vocabulary, gelu):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(positions, dim)
        self.blocks = nn.ModuleList([Block(dim, heads, gelu) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).triu(1))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0.0, 0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask)
        return F.linear(self.norm(x), self.tokens.weight)


def build(workload, channels_last):
    torch.manual_seed(1)
    if workload == "unet":
        model = UNet(32, 4)
        x, y = torch.randn(4, 1, 128, 128), (torch.rand(4, 1, 128, 128) > 0.5).float()
        if channels_last:
            model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        return model, x, lambda z: F.binary_cross_entropy_with_logits(z.float(), y), torch.optim.Adam(model.parameters(), lr=1e-4)
    layers, dim, heads, positions, length, batch, vocabulary, gelu = GPTS[workload]
    model = Gpt(layers, dim, heads, positions, length, vocabulary, gelu)
    x, y = torch.randint(0, vocabulary, (batch, length)), torch.randint(0, vocabulary, (batch * length,))
    return model, x, lambda z: F.cross_entropy(z.float().view(-1, vocabulary), y), torch.optim.AdamW(model.parameters(), lr=1e-4)


def status_mib(field):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith(field + ":"))


def print_json(**fields):
    print(json.dumps(fields), flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("workload", choices=["unet", *GPTS])
    ap.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    ap.add_argument("--channels-last", action="store_true")
    ap.add_argument("--threads", type=int, default=0)
    a = ap.parse_args()
    warnings.filterwarnings("ignore")
    if a.threads:
        torch.set_num_threads(a.threads)
    base = status_mib("VmRSS")
    model, x, loss_of, optimizer = build(a.workload, a.channels_last)
    first = None
    print_json(ready=True, backend="torch " + torch.__version__, workload=a.workload, precision=a.precision, threads=torch.get_num_threads(),
         parameters=sum(p.numel() for p in model.parameters()), base_mib=round(base, 1))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16) if a.precision == "bf16" else contextlib.nullcontext():
            logits = model(x)
        loss = loss_of(logits)
        loss.backward()
        optimizer.step()
        return loss.item()

    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        if len(words) != 2 or words[0] != "step" or not words[1].isdigit() or int(words[1]) < 1:
            print_json(error=f"wanted 'step N' or 'quit', got {line.strip()!r}")
            continue
        start = time.perf_counter()
        for _ in range(int(words[1])):
            loss = step()
            first = loss if first is None else first
        print_json(steps=int(words[1]), ms=round((time.perf_counter() - start) / int(words[1]) * 1e3, 3), loss=round(loss, 6),
             first_loss=round(first, 6), peak_mib=round(status_mib("VmHWM"), 1))


if __name__ == "__main__":
    main()
