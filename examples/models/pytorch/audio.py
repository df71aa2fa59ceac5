import math

import torch
import torch.nn.functional as F
from torch import nn

from common import Arguments, metric

KINDS = 6


def draw(count, length):
    def wave(cycles):
        return torch.sin(2 * math.pi * cycles)

    kinds, t = torch.randint(0, KINDS, (count,)), torch.arange(length) / length
    pitch = 20 + 60 * torch.rand(count, 1)
    p, bend = pitch * t + torch.rand(count, 1), 0.4 * pitch * t**2
    all = torch.stack([wave(p), torch.sign(wave(p)), 2 * torch.frac(p) - 1, wave(p + bend), wave(p - bend),
                       wave(p) * (1 + wave(6 * t))], 1)
    return all[torch.arange(count), kinds] + 0.5 * torch.randn(count, length), kinds


class Classifier(nn.Module):
    def __init__(self, width, spectrogram):
        super().__init__()
        self.spectrogram = spectrogram
        self.layers = nn.Sequential()
        channels = 1
        for out in (width, 2 * width, 4 * width):
            if spectrogram:
                self.layers.append(nn.Conv2d(channels, out, 3, stride=2, padding=1))
                self.layers.append(nn.BatchNorm2d(out))
            else:
                self.layers.append(nn.Conv1d(channels, out, 9, stride=4, padding=4))
                self.layers.append(nn.BatchNorm1d(out))
            self.layers.append(nn.ReLU())
            channels = out
        self.head = nn.Linear(channels, KINDS)

    def forward(self, x):
        if self.spectrogram:
            x = torch.log(torch.stft(x, 64, window=torch.hann_window(64), return_complex=True).abs() + 0.1)
        return self.head(self.layers(x[:, None]).flatten(2).mean(2))


args = Arguments(steps=200, batch=32, length=1024, width=16, spectrogram=0)
model = Classifier(args.width, args.spectrogram)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for step in args.steps():
    samples, kinds = draw(args.batch, args.length)
    with args.autocast():
        loss = F.cross_entropy(model(samples), kinds)
    optimizer.zero_grad()
    args.scaler.scale(loss).backward()
    args.scaler.step(optimizer)
    args.scaler.update()
    args.report(step, loss)

model.eval()
samples, kinds = draw(512, args.length)
with torch.no_grad(), args.autocast():
    found = model(samples).argmax(1)
metric("accuracy", (found == kinds).float().mean())
