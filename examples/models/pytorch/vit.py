"""A vision transformer; the twin of ../vit.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import Arguments, metric

SIZE = 32


class ViT(nn.Module):  # images (N, 3, 32, 32) -> logits (N, classes)
    def __init__(self, patch, dim, heads, layers, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, stride=patch)
        self.start = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(torch.normal(0, 0.02, (1, 1 + (SIZE // patch) ** 2, dim)))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        every = torch.cat([self.start.expand(len(x), -1, -1), tokens], 1) + self.positions
        return self.head(self.encoder(every)[:, 0])


def shapes(count):
    """A disc, a ring, a square or a plus, of random place, size and color, on noise."""
    labels, at, size = torch.randint(4, (count,)), torch.linspace(-1, 1, SIZE), torch.rand(count, 1, 1) * 0.2 + 0.5
    x = (at.reshape(1, 1, -1) - (torch.rand(count, 1, 1) - 0.5) * 0.5).abs() / size
    y = (at.reshape(1, -1, 1) - (torch.rand(count, 1, 1) - 0.5) * 0.5).abs() / size
    radius, far = torch.hypot(x, y), torch.maximum(x, y)
    masks = torch.stack([radius < 1, (radius > 0.6) & (radius < 1), far < 0.8,
                         (torch.minimum(x, y) < 0.25) & (far < 0.9)], 1)
    mask = masks.gather(1, labels.reshape(-1, 1, 1, 1).expand(-1, 1, SIZE, SIZE))
    return mask * torch.rand(count, 3, 1, 1) + 0.2 * torch.randn(count, 3, SIZE, SIZE), labels


args = Arguments(steps=150, batch=32, patch=4, dim=48, heads=3, layers=2)
model = ViT(args.patch, args.dim, args.heads, args.layers, 4)
optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, args.count, cycle_momentum=False)

for step in args.steps():
    pixels, labels = shapes(args.batch)
    optimizer.zero_grad()
    with args.autocast():
        loss = F.cross_entropy(model(pixels), labels)
    args.scaler.scale(loss).backward()
    args.scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1)
    args.scaler.step(optimizer)
    args.scaler.update()
    schedule.step()
    args.report(step, loss)

model.eval()
pixels, labels = shapes(600)
with torch.no_grad(), args.autocast():
    found = model(pixels).argmax(1)
metric("accuracy", (found == labels).float().mean())
