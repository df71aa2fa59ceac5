"""ResNet-18 for images of 32 by 32 pixels; the twin of ../resnet18.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import Arguments, metric


class Block(nn.Module):  # (N, in, H, W) -> (N, out, H / stride, W / stride)
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outer)
        self.shortcut = nn.Sequential()
        if inner != outer:
            self.shortcut.append(nn.Conv2d(inner, outer, 1, stride=stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(outer))

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(h)) + self.shortcut(x))


def resnet18(width, classes):
    net = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
    inner = width
    for outer in (width, 2 * width, 4 * width, 8 * width):
        for stride in (1 if outer == width else 2, 1):
            net.append(Block(inner, outer, stride))
            inner = outer
    net.append(nn.AdaptiveAvgPool2d(1))
    net.append(nn.Flatten())
    net.append(nn.Linear(inner, classes))
    return net


def shapes(count):
    """A disc, a ring, a square, a diamond, a plus or a cross, of random place, size and color, on noise."""
    labels, at, size = torch.randint(6, (count,)), torch.linspace(-1, 1, 32), torch.rand(count, 1, 1) * 0.3 + 0.3
    x = (at.reshape(1, 1, 32) - (torch.rand(count, 1, 1) - 0.5)).abs() / size
    y = (at.reshape(1, 32, 1) - (torch.rand(count, 1, 1) - 0.5)).abs() / size
    radius, far, near = torch.hypot(x, y), torch.maximum(x, y), torch.minimum(x, y)
    masks = torch.stack([radius < 1, (radius > 0.6) & (radius < 1), far < 0.8, x + y < 1,
                         (near < 0.25) & (far < 0.9), (far - near < 0.3) & (far < 0.9)], 1)
    mask = masks.gather(1, labels.reshape(-1, 1, 1, 1).expand(-1, 1, 32, 32))
    return mask * torch.rand(count, 3, 1, 1) + 0.2 * torch.randn(count, 3, 32, 32), labels


args = Arguments(steps=90, batch=32, width=8)
model = resnet18(args.width, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, args.count, cycle_momentum=False)

for step in args.steps():
    pixels, labels = shapes(args.batch)
    optimizer.zero_grad()
    with args.autocast():
        loss = F.cross_entropy(model(pixels), labels)
    args.scaler.scale(loss).backward()
    args.scaler.step(optimizer)
    args.scaler.update()
    schedule.step()
    args.report(step, loss)

model.eval()
pixels, labels = shapes(600)
with torch.no_grad(), args.autocast():
    found = model(pixels).argmax(1)
metric("accuracy", (found == labels).float().mean())
