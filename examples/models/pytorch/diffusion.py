"""A diffusion model with a U-Net; the twin of ../diffusion.cpp."""
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from common import Arguments, metric


class Block(nn.Module):  # x (N, in, H, W) and time (N, dim) -> (N, out, H, W)
    def __init__(self, inner, outer, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, inner), nn.GroupNorm(4, outer)
        self.conv1 = nn.Conv2d(inner, outer, 3, padding=1)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1)
        self.skip = nn.Conv2d(inner, outer, 1)
        self.time = nn.Linear(dim, outer)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class UNet(nn.Module):  # images (N, 1, 16, 16) and times (N) from 0 to 1 -> velocities (N, 1, 16, 16)
    def __init__(self, w):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(2 * w, 4 * w), nn.SiLU(), nn.Linear(4 * w, 4 * w), nn.SiLU())
        self.enter = nn.Conv2d(1, w, 3, padding=1)
        self.before = Block(w, w, 4 * w)
        self.down = nn.Conv2d(w, 2 * w, 3, stride=2, padding=1)
        self.middle = Block(2 * w, 2 * w, 4 * w)
        self.norm = nn.LayerNorm(2 * w)
        self.attention = nn.MultiheadAttention(2 * w, 2, batch_first=True)
        self.up = nn.Conv2d(2 * w, w, 3, padding=1)
        self.after = Block(2 * w, w, 4 * w)
        self.out = nn.Sequential(nn.GroupNorm(4, w), nn.SiLU(), nn.Conv2d(w, 1, 3, padding=1))
        self.width = w

    def forward(self, x, t):
        angles = t[:, None] * torch.logspace(0, 3, self.width)
        embedding = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        fine = self.before(self.enter(x), embedding)
        coarse = self.middle(self.down(fine), embedding)
        tokens = self.norm(coarse.flatten(2).transpose(1, 2))
        mixed = self.attention(tokens, tokens, tokens, need_weights=False)[0]
        coarse = coarse + mixed.transpose(1, 2).reshape(coarse.shape)
        wide = F.interpolate(self.up(coarse), scale_factor=2)
        return self.out(self.after(torch.cat([wide, fine], 1), embedding))


def discs(count):
    """Discs of random place and size with soft edges (N, 1, 16, 16), from -1 to 1."""
    at, radius = torch.linspace(-1, 1, 16), torch.rand(count, 1, 1, 1) * 0.3 + 0.3
    x = at.reshape(1, 1, 1, 16) - (torch.rand(count, 1, 1, 1) - 0.5)
    y = at.reshape(1, 1, 16, 1) - (torch.rand(count, 1, 1, 1) - 0.5)
    return torch.tanh((radius - torch.hypot(x, y)) * 10)


def sample(model, count, steps):
    """Makes images from noise: x = cos(angle) image + sin(angle) noise, from an angle of pi / 2 down to 0."""
    x = torch.randn(count, 1, 16, 16)
    for i in range(steps, 0, -1):
        angle, following = math.pi / 2 * i / steps, math.pi / 2 * (i - 1) / steps
        v = model(x, torch.full((count,), i / steps))
        x = math.cos(following) * (math.cos(angle) * x - math.sin(angle) * v) + math.sin(following) * (
            math.sin(angle) * x + math.cos(angle) * v)
    return x


def distance(a, b):
    """The mean distance of two sets of images along random directions (sliced Wasserstein distance)."""
    directions = F.normalize(torch.randn(256, 128), dim=0)
    project = lambda x: (x.float().flatten(1) @ directions).sort(0).values  # noqa: E731
    return (project(a) - project(b)).abs().mean()


args = Arguments(steps=200, batch=32, width=16)
model = UNet(args.width)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0)
averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98))

for step in args.steps():
    image = discs(args.batch)
    t, noise = torch.rand(args.batch), torch.randn_like(image)
    angle = t.reshape(-1, 1, 1, 1) * (math.pi / 2)
    optimizer.zero_grad()
    with args.autocast():
        v = model(angle.cos() * image + angle.sin() * noise, t)
        loss = F.mse_loss(v.float(), angle.cos() * noise - angle.sin() * image)
    args.scaler.scale(loss).backward()
    args.scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1)
    args.scaler.step(optimizer)
    args.scaler.update()
    averaged.update_parameters(model)
    args.report(step, loss)

averaged.eval()
with torch.no_grad(), args.autocast():
    made = sample(averaged, 256, 20)
metric("distance", distance(made, discs(256)))
