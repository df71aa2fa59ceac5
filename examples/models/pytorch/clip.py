import math

import torch
import torch.nn.functional as F
from torch import nn

from common import Arguments, metric

KINDS = 64


def draw(kinds):
    shape, color, place = kinds // 16, kinds // 4 % 4, kinds % 4
    axis = torch.linspace(-1, 1, 16)

    def offset(side):
        return (side - 0.5 + 0.1 * torch.randn(len(kinds)))[:, None, None]

    x = (axis - offset(place % 2)).abs()
    y = (axis[:, None] - offset(place // 2)).abs()
    r, cross = torch.hypot(x, y), 1.5 * torch.hypot(x - y, 0.2 * (x + y))
    distances = torch.stack([r, 2.5 * (r - 0.3).abs(), cross, torch.hypot(0.7 * x, 2.5 * y)], 1)
    inside = distances[torch.arange(len(kinds)), shape] < 0.35
    colors = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    images = inside[:, None] * colors[color][:, :, None, None] + 0.2 * torch.randn(len(kinds), 3, 16, 16)
    return images, torch.stack([shape, color + 4, place + 8], 1)


class Clip(nn.Module):
    def __init__(self, width, dim, layers):
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.GELU(),
                                   nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.GELU(), nn.Flatten(),
                                   nn.Linear(32 * width, dim))
        self.words = nn.Embedding(12, dim)
        self.positions = nn.Parameter(torch.zeros(3, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0, batch_first=True, norm_first=True)
        self.text = nn.TransformerEncoder(layer, layers, nn.LayerNorm(dim), enable_nested_tensor=False)
        self.project = nn.Linear(dim, dim, bias=False)
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images, captions):
        seen = F.normalize(self.image(images), dim=-1)
        read = F.normalize(self.project(self.text(self.words(captions) + self.positions).mean(1)), dim=-1)
        return self.scale.exp().clamp(0, 100) * seen @ read.T


args = Arguments(steps=200, batch=32, width=16, dim=32, layers=2)
model = Clip(args.width, args.dim, args.layers)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

own = torch.arange(args.batch)
for step in args.steps():
    images, captions = draw(torch.randperm(KINDS)[:args.batch])
    with args.autocast():
        logits = model(images, captions)
        loss = (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2
    optimizer.zero_grad()
    args.scaler.scale(loss).backward()
    args.scaler.step(optimizer)
    args.scaler.update()
    args.report(step, loss)

model.eval()
kinds = torch.arange(KINDS).repeat(4)
images, captions = draw(kinds)
with torch.no_grad(), args.autocast():
    found = model(images, captions[:KINDS]).argmax(1)
metric("accuracy", (found == kinds).float().mean())
