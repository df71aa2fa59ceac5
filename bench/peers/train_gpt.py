#!/usr/bin/env python3
"""Trains a character-level GPT in PyTorch on the CPU, in the setting that nanoGPT's README gives for one: the reference for
binade-gpt's validation loss.

    train_gpt.py --data tinyshakespeare.txt --seed 1            (OMP_NUM_THREADS=2)

  network      4 layers, 4 heads, 128 wide, context 64, exact GELU, pre-LN, head tied to the token table; no biases in linear
               layers, norms keep theirs; no dropout
  start        normal 0.02, the two projections into the residual stream 0.02 / sqrt(2 * layers), norms 1 and 0
  optimizer    AdamW, beta1 0.9, beta2 0.99, eps 1e-8, weight decay 0.1 on parameters of rank >= 2, gradient norm clipped to 1
  rate         linear warm-up to 1e-3 over 100 steps, cosine to 1e-4 at step 2000
  batches      12 windows of 64 characters at random places in the first 90 % of the text
  validation   all of the last 10 %, in non-overlapping windows of 64 (each window predicts its 64 next characters), mean
               cross-entropy in nats
--init-from FILE starts from the weights that `binade-gpt init FILE` wrote. Prints JSON lines; the last one is the result.
"""
import argparse
import contextlib
import datetime
import json
import math
import platform
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import first_weights


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.up, self.down = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, layers, heads, dim, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                into_residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * layers) if into_residual else 0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def rate(step, a):
    if step <= a.warmup:
        return a.lr * step / a.warmup
    f = (step - a.warmup) / max(a.steps - a.warmup, 1)
    return a.min_lr + 0.5 * (a.lr - a.min_lr) * (1 + math.cos(math.pi * f))


def precision_scope(precision):
    return torch.autocast("cpu", dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


@torch.no_grad()
def evaluate(model, text, a):
    windows = (len(text) - 1) // a.context
    x = text[:windows * a.context].view(windows, a.context)
    y = text[1:windows * a.context + 1].view(windows, a.context)
    total = 0.0
    for i in range(0, windows, 64):
        with precision_scope(a.precision):
            logits = model(x[i:i + 64])
        total += F.cross_entropy(logits.float().flatten(0, 1), y[i:i + 64].flatten(), reduction="sum").item()
    return total / (windows * a.context)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", required=True)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--steps", type=int, default=2000)
    ap.add_argument("--stop-after", type=int, help="leave off at this step of the schedule (a sanity run)")
    ap.add_argument("--batch", type=int, default=12)
    ap.add_argument("--context", type=int, default=64)
    ap.add_argument("--layers", type=int, default=4)
    ap.add_argument("--heads", type=int, default=4)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--min-lr", type=float, default=1e-4)
    ap.add_argument("--warmup", type=int, default=100)
    ap.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    ap.add_argument("--log-every", type=int, default=100)
    ap.add_argument("--init-from", help="safetensors file of binade-gpt init")
    a = ap.parse_args()

    torch.manual_seed(a.seed)
    text = open(a.data, encoding="utf-8").read()
    characters = sorted(set(text))
    table = {c: i for i, c in enumerate(characters)}
    ids = torch.from_numpy(np.fromiter((table[c] for c in text), dtype=np.int64, count=len(text)))
    cut = int(0.9 * len(ids))
    train, held = ids[:cut], ids[cut:]
    model = Gpt(len(characters), a.layers, a.heads, a.dim, a.context)
    if a.init_from:
        first_weights.load_gpt(model, a.init_from)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=a.lr, betas=(0.9, 0.99))
    start = time.time()
    steps = min(a.stop_after or a.steps, a.steps)
    for step in range(1, steps + 1):
        places = torch.randint(len(train) - a.context, (a.batch,))
        x = torch.stack([train[i:i + a.context] for i in places])
        y = torch.stack([train[i + 1:i + 1 + a.context] for i in places])
        for group in optimizer.param_groups:
            group["lr"] = rate(step, a)
        optimizer.zero_grad(set_to_none=True)
        with precision_scope(a.precision):
            logits = model(x)
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % a.log_every == 0:
            print(json.dumps(dict(step=step, loss=round(loss.item(), 4), seconds=round(time.time() - start, 1))), flush=True)
    seconds = time.time() - start
    print(json.dumps(dict(result="train_gpt", seed=a.seed, steps=steps, schedule_steps=a.steps, precision=a.precision, vocabulary=len(characters),
                          parameters=sum(p.numel() for p in model.parameters()), train_tokens=len(train), val_tokens=len(held),
                          val_loss=round(evaluate(model, held, a), 5), seconds=round(seconds, 1), threads=torch.get_num_threads(),
                          torch=torch.__version__, python=platform.python_version(), date=datetime.date.today().isoformat())), flush=True)


if __name__ == "__main__":
    main()
