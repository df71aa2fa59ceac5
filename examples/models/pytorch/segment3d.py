import torch
import torch.nn.functional as F
from torch import nn

from common import Arguments, metric

CLASSES = 3


def draw(count, side):
    axis = torch.linspace(-1, 1, side)
    grid = torch.meshgrid(axis, axis, axis, indexing="ij")

    def each(low, high):
        return (low + (high - low) * torch.rand(count))[:, None, None, None]

    turn = torch.where(torch.rand(count, 1, 1, 1) < 0.5, -1.0, 1.0)
    radius, half = each(0.3, 0.45), each(0.25, 0.38)
    square_sum, largest = (grid[0] - turn * each(0.45, 0.55))**2, (grid[0] + turn * each(0.45, 0.55)).abs()
    for along in grid[1:]:
        square_sum = square_sum + (along - each(-0.5, 0.5))**2
        largest = torch.maximum(largest, (along - each(-0.5, 0.5)).abs())
    labels = torch.where(largest < half, 2, torch.where(square_sum < radius**2, 1, 0))
    return ((labels > 0) + 0.2 * torch.randn(count, side, side, side))[:, None], labels


def convolutions(channels, out):
    return nn.Sequential(nn.Conv3d(channels, out, 3, padding=1), nn.InstanceNorm3d(out, affine=True), nn.ReLU(),
                         nn.Conv3d(out, out, 3, padding=1), nn.InstanceNorm3d(out, affine=True), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width, levels):
        super().__init__()
        self.down, self.up, self.enlarge = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        channels = 1
        for i in range(levels + 1):
            self.down.append(convolutions(channels, width << i))
            channels = width << i
        for i in reversed(range(levels)):
            self.enlarge.append(nn.ConvTranspose3d(width << i + 1, width << i, 2, stride=2))
            self.up.append(convolutions(width << i + 1, width << i))
        self.head = nn.Conv3d(width, CLASSES, 1)

    def forward(self, x):
        skips = [self.down[0](x)]
        for layer in self.down[1:]:
            skips.append(layer(F.max_pool3d(skips[-1], 2)))
        y = skips.pop()
        for enlarge, layer in zip(self.enlarge, self.up):
            y = layer(torch.cat([skips.pop(), enlarge(y)], 1))
        return self.head(y)


args = Arguments(steps=100, batch=4, side=16, width=8, levels=2)
model = UNet(args.width, args.levels)
weight = torch.tensor([0.1, 1.0, 1.0])  # most voxels are background
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

for step in args.steps():
    volumes, labels = draw(args.batch, args.side)
    with args.autocast():
        loss = F.cross_entropy(model(volumes), labels, weight)
    optimizer.zero_grad()
    args.scaler.scale(loss).backward()
    args.scaler.step(optimizer)
    args.scaler.update()
    args.report(step, loss)

model.eval()
volumes, labels = draw(16, args.side)
with torch.no_grad(), args.autocast():
    found = model(volumes).argmax(1)
dice = 0
for kind in (1, 2):
    a, b = found == kind, labels == kind
    dice += (a & b).sum() / (a.sum() + b.sum())
metric("dice", dice)
