"""The three small models of tests/faults/ in PyTorch, with their tasks and the same names of modules.

  mlp   features (B, 16) -> logits (B, 8): three linear layers, each with layer norm and ReLU
  gpt   tokens (B, 12) -> logits (B, 12, 32): two pre-norm blocks, 32 wide, 2 heads
  unet  images (B, 1, 16, 16) -> logits of the same shape: depth 2, base 4

Between their layers are the sites extra.0, extra.1 and extra.2, into which a fault inserts code. A sample is a function of (seed,
number).
"""
import math

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = {"mlp": 8, "gpt": 4, "unet": 4}
RATE = {"mlp": 2e-3, "gpt": 5e-3, "unet": 5e-3}
STEPS = 24
VOCABULARY, TOKENS, DIM = 32, 12, 32


class Site(nn.Module):
    """Returns its input, or the result of the inserted code for it."""

    def __init__(self):
        super().__init__()
        self.code = None

    def forward(self, x):
        return self.code(x) if self.code and self.training else x


def sites():
    return nn.ModuleList(Site() for _ in range(3))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 32)])
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(3))
        self.extra = sites()
        self.head = nn.Linear(32, 8)

    def forward(self, x):
        for layer, norm, site in zip(self.layers, self.norms, self.extra):
            x = site(torch.relu(norm(layer(x))))
        return self.head(x)

    def loss(self, logits, y):
        return F.cross_entropy(logits, y)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(DIM, DIM) for _ in range(4))

    def forward(self, x):
        v, k, q = (f(x).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.value, self.key, self.query))
        logits = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]))
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = torch.softmax(logits.masked_fill(hidden, -math.inf), -1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class MlpOfBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attention, self.mlp = Attention(), MlpOfBlock()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, DIM), nn.Embedding(TOKENS, DIM)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.extra = sites()
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCABULARY)

    def forward(self, tokens):
        x = self.extra[0](self.tokens(tokens) + self.positions(torch.arange(TOKENS)))
        for block, site in zip(self.blocks, list(self.extra)[1:]):
            x = site(block(x))
        return self.head(self.norm(x))

    def loss(self, logits, y):
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


class Pair(nn.Module):
    """Two 3x3 convolutions with batch norm and ReLU; with `up`, after a transposed convolution that doubles height and width."""

    def __init__(self, inputs, outputs, up=False):
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2) if up else None
        self.conv1 = nn.Conv2d(2 * outputs if up else inputs, outputs, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        for conv in (self.conv1, self.conv2):
            nn.init.kaiming_normal_(conv.weight)

    def forward(self, x, skip=None):
        if skip is not None:
            x = torch.cat([skip, self.up(x)], 1)
        x = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(x)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([Pair(1, 4), Pair(4, 8)])
        self.middle = Pair(8, 16)
        self.decoder = nn.ModuleList([Pair(8, 4, up=True), Pair(16, 8, up=True)])
        self.extra = sites()
        self.head = nn.Conv2d(4, 1, 1)

    def forward(self, x):
        fine = self.extra[0](self.encoder[0](x))
        coarse = self.extra[1](self.encoder[1](F.max_pool2d(fine, 2)))
        x = self.extra[2](self.middle(F.max_pool2d(coarse, 2)))
        return self.head(self.decoder[0](self.decoder[1](x, coarse), fine))

    def loss(self, logits, y):
        return F.binary_cross_entropy_with_logits(logits, y)


def make_model(kind, seed):
    torch.manual_seed(seed)
    return {"mlp": Mlp, "gpt": Gpt, "unet": UNet}[kind]()


def mlp_sample(random):
    x = random.standard_normal(16).astype(numpy.float32)
    return x, numpy.int64(x.reshape(8, 2).sum(1).argmax())


def gpt_sample(random):
    start, stride = random.integers(VOCABULARY), 1 + random.integers(3)
    run = (start + stride * numpy.arange(TOKENS + 1)) % VOCABULARY
    return run[:-1], run[1:]


def unet_sample(random):
    radius, cy, cx = 3 + 3 * random.random(), 4 + 8 * random.random(), 4 + 8 * random.random()
    y, x = numpy.mgrid[:16, :16]
    inside = ((y - cy) ** 2 + (x - cx) ** 2 < radius ** 2).astype(numpy.float32)
    return (inside + 0.5 * random.random((16, 16), dtype=numpy.float32))[None], inside[None]


def make_batch(kind, seed, numbers):
    """Returns (x, y) of the samples with these numbers."""
    make = {"mlp": mlp_sample, "gpt": gpt_sample, "unet": unet_sample}[kind]
    pairs = [make(numpy.random.default_rng((seed, n))) for n in numbers]
    return tuple(torch.from_numpy(numpy.stack(part)) for part in zip(*pairs))
