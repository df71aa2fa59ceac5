"""Binade's U-Net in PyTorch, with Binade's module paths.

  encoder.N   conv3x3 (no bias), batch norm, ReLU, twice; N = 0 .. depth-1, base * 2^N channels; 2x2 max-pool after each
  middle      the same pair at base * 2^depth channels
  decoder.N   mirrors encoder.N (decoder.0 works at full size and runs last): `up` is a 2x2 transposed convolution of
              stride 2 with bias, then [skip, up] concatenated on channels, then the pair
  head        1x1 convolution with bias, one logit per class

Initial values: every convolution He normal, std = sqrt(2 / fan_in), fan_in = in_channels * kh * kw (for `up`, whose
stride equals its size, an output pixel sees in_channels values, so fan_in = in_channels); biases 0; batch norm weight 1,
bias 0, momentum 0.1, eps 1e-5. The mean of each class's weights is subtracted from the head's weights; the head's biases
are prior_logits() of the training masks if these are given (docs/decisions/0050).
"""
import math

import torch
import torch.nn as nn


def prior_logits(masks):
    """Binary masks (0 and 1) -> the log-odds of the foreground. One is added to the count of each class."""
    foreground = sum(float(mask.sum()) for mask in masks)
    pixels = sum(mask.numel() for mask in masks)
    return [math.log((foreground + 1) / (pixels - foreground + 1))]


class Pair(nn.Module):
    def __init__(self, inputs, outputs, up=False):
        super().__init__()
        if up:
            self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2)
        self.conv1 = nn.Conv2d(2 * outputs if up else inputs, outputs, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)

    def forward(self, x, skip=None):
        if skip is not None:
            x = torch.cat([skip, self.up(x)], 1)
        x = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(x)))


class UNet(nn.Module):
    def __init__(self, base=16, depth=3, inputs=1, classes=1, first_logits=None):
        super().__init__()
        widths = [base << n for n in range(depth + 1)]
        self.encoder = nn.ModuleList([Pair(i, o) for i, o in zip([inputs] + widths[:-2], widths[:-1])])
        self.middle = Pair(widths[-2], widths[-1])
        self.decoder = nn.ModuleList([Pair(widths[n + 1], widths[n], up=True) for n in range(depth)])
        self.head = nn.Conv2d(base, classes, 1)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.normal_(m.weight, 0.0, (2.0 / (m.weight[0].numel())) ** 0.5)
            elif isinstance(m, nn.ConvTranspose2d):
                nn.init.normal_(m.weight, 0.0, (2.0 / m.weight.shape[0]) ** 0.5)
            if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)) and m.bias is not None:
                nn.init.zeros_(m.bias)
        with torch.no_grad():
            self.head.weight.sub_(self.head.weight.mean(1, keepdim=True))
            if first_logits is not None:
                self.head.bias.copy_(torch.tensor(first_logits))

    def forward(self, x):
        skips = []
        for level in self.encoder:
            x = level(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for level, skip in zip(reversed(self.decoder), reversed(skips)):
            x = level(x, skip)
        return self.head(x)
