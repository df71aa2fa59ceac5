"""Twenty training steps of a small U-Net and a small transformer, from given weights on given batches.

Roles: init.PATH (a parameter or buffer before step 1, by Binade's module path and in Binade's layout), x.K and target.K (the
batch of step K, from 1), loss (twenty losses in double, each before its step's update), loss32 (the same in float32 by PyTorch,
to show the effect of rounding alone), final.PATH (batch-norm statistics after step 20).

unet         unet_model.UNet(base 4, depth 2), batches (2, 16, 16, 1), BCE with logits (mean), Adam
transformer  pre-LN GPT, 2 layers, 16 wide, 2 heads, context 8, vocabulary 17, batch 2: tokens + positions, blocks of
             x + attention(norm1(x)), x + mlp(norm2(x)) with biases and exact GELU, norm, head tied to the token table; mean
             cross-entropy; AdamW, weight decay on parameters of rank >= 2
"""
import math
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peers"))
from unet_model import UNet  # noqa: E402

STEPS = 20


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        logits = q @ k.mT / math.sqrt(c // self.heads)
        logits = logits.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf)
        return self.out((torch.softmax(logits, -1) @ v).transpose(1, 2).reshape(b, t, c))


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(dim), Attention(dim, heads)
        self.norm2, self.mlp = nn.LayerNorm(dim), Mlp(dim)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, layers=2, dim=16, heads=2, context=8, vocabulary=17):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def binade_layout(model, name, value):
    """A PyTorch parameter in Binade's layout: convolution filters (K, R, S, C), transposed ones (C, R, S, K)."""
    value = value.detach().cpu().numpy()
    return np.ascontiguousarray(value.transpose(0, 2, 3, 1)) if value.ndim == 4 else value


def short_values(model, rng, spread):
    """Replaces every parameter by values of few digits; norms stay near 1 and 0."""
    for name, p in model.named_parameters():
        leaf = name.split(".")[-2]
        value = rng.standard_normal(tuple(p.shape))
        if "norm" in leaf:
            value = 1 + 0.1 * value if name.endswith("weight") else 0.1 * value
        elif p.dim() == 4:
            fan = p.shape[0] if leaf == "up" else p[0].numel()
            value = value * math.sqrt(2 / fan)
        elif p.dim() == 2:
            value = value * spread
        else:
            value = 0.1 * value
        p.data = torch.from_numpy(np.round(value, 4).astype(np.float32))


def train(model, batches, loss_of, make_optimizer, dtype):
    model = model.to(dtype)
    optimizer = make_optimizer(model)
    losses = []
    for x, target in batches:
        x, target = (z.to(dtype) if z.is_floating_point() else z for z in (torch.from_numpy(x), torch.from_numpy(target)))
        optimizer.zero_grad()
        loss = loss_of(model, x, target)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return losses


def sensitivity(make_model, converted, loss_of, make_optimizer, losses):
    """Largest relative change of a loss under relative noise of 1e-7 in the initial parameters, over eight draws. It is large
    if a ReLU or a pooling window is close to switching branches. Such a seed cannot be used for a comparison."""
    worst = 0.0
    for draw in range(8):
        model = make_model().double()
        torch.manual_seed(draw)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + 1e-7 * torch.randn_like(p))
        strayed = train(model, converted, loss_of, make_optimizer, torch.float64)
        worst = max(worst, max(abs(a - b) / abs(a) for a, b in zip(losses, strayed)))
    return worst


def trace(file, name, params, make_model, batches, loss_of, make_optimizer, to_torch):
    model = make_model()
    roles = [(f"init.{k}", binade_layout(model, k, v)) for k, v in model.state_dict().items() if "num_batches" not in k]
    for k, (x, target) in enumerate(batches, 1):
        roles += [(f"x.{k}", x), (f"target.{k}", target)]
    converted = [to_torch(x, t) for x, t in batches]
    losses = train(model, converted, loss_of, make_optimizer, torch.float64)
    roles.append(("loss", np.asarray(losses)))
    roles += [(f"final.{k}", v.numpy()) for k, v in model.state_dict().items() if "running" in k]
    losses32 = train(make_model(), converted, loss_of, make_optimizer, torch.float32)
    roles.append(("loss32", np.asarray(losses32)))
    file.case(name, "train", params, roles)
    worst = max(abs(a - b) / abs(a) for a, b in zip(losses, losses32))
    noise = sensitivity(make_model, converted, loss_of, make_optimizer, losses)
    assert noise < 1e-6, f"{name}: noise of 1e-7 in the start moves a loss by {noise:.1e}; take another seed"
    print(f"{name}: loss {losses[0]:.5f} -> {losses[-1]:.5f}; float32 strays by at most {worst:.1e}, with noise by {noise:.1e}")


def write(file):
    rng = np.random.default_rng(11)

    def unet():
        model = UNet(base=4, depth=2)
        short_values(model, np.random.default_rng(14), 0)
        return model
    batches = []
    for _ in range(STEPS):
        row, column = np.mgrid[0:16, 0:16]
        x = np.zeros((2, 16, 16, 1), dtype=np.float32)
        target = np.zeros_like(x)
        for n in range(2):
            cy, cx, r = rng.uniform(4, 12), rng.uniform(4, 12), rng.uniform(2, 5)
            inside = (row - cy) ** 2 + (column - cx) ** 2 < r * r
            target[n, ..., 0] = inside
            x[n, ..., 0] = np.round(inside * 1.5 - 0.5 + 0.5 * rng.standard_normal((16, 16)), 2)
        batches.append((x, target))
    settings = {"lr": 3e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0}
    trace(file, "unet", {"base": 4, "depth": 2, "optimizer": "adam", **settings}, unet, batches,
          lambda m, x, t: F.binary_cross_entropy_with_logits(m(x), t),
          lambda m: torch.optim.Adam(m.parameters(), lr=3e-3),
          lambda x, t: (x.transpose(0, 3, 1, 2), t.transpose(0, 3, 1, 2)))

    def gpt():
        model = Gpt()
        short_values(model, np.random.default_rng(13), 0.15)
        return model
    start = rng.integers(0, 17, (STEPS, 2))
    batches = []
    for k in range(STEPS):
        steps = rng.integers(1, 4, (2, 9)).cumsum(1)
        text = (start[k][:, None] + steps) % 17
        batches.append((text[:, :-1].astype(np.int64), text[:, 1:].astype(np.int64)))
    settings = {"lr": 3e-3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1}

    def adamw(m):
        matrices = [p for p in m.parameters() if p.dim() >= 2]
        vectors = [p for p in m.parameters() if p.dim() < 2]
        return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=3e-3, betas=(0.9, 0.99))
    trace(file, "transformer", {"layers": 2, "dim": 16, "heads": 2, "context": 8, "vocabulary": 17, "optimizer": "adamw", **settings},
          gpt, batches, lambda m, x, t: F.cross_entropy(m(x).flatten(0, 1), t.flatten()), adamw, lambda x, t: (x, t))
