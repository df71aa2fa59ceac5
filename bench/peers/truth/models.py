"""Dense, image, sequence and recurrent models of tests/truth/models, as a user of PyTorch would write them.

A task holds a network `net`, for some tasks a second one that is not trained (`outside`), and the loss; calling it with a batch
returns the loss. A tap is a place into which a fault inserts code: `inner` is inside the module at `inner_path`, `outer` is in the
loss and sees the prediction.
"""
import torch
import torch.nn.functional as F
from torch import nn


class Tap:
    """Applies inserted code to an activation h and a gate: one number per sample, which broadcasts to h."""

    code = gate = None

    def __call__(self, h):
        return self.code(h, self.gate) if self.code else h


def on_channels(tap, h):
    """Applies the tap to h (N, C, H, W) with channels last, so that its reductions over the last axis are over channels."""
    return tap(h.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) if tap.code else h


class Task(nn.Module):
    inner_path = "net"
    input = target = labels = tokens = mask = None  # names of the batch's fields in these roles
    classes = rows = 0                              # legal values of `labels` and of `tokens`
    layouts = {}

    def __init__(self, spare=False, linear=False):
        super().__init__()
        self.inner, self.outer = Tap(), Tap()
        self.build(spare=spare, linear=linear)

    def forward(self, b):
        self.inner.gate, self.outer.gate = b["gate"], b["gate_out"]
        return self.loss(b)

    def gate(self, g):
        return g[:, None]

    def gate_out(self, g):
        return g[:, None]


def linear_relu(a, b):
    return nn.Sequential(nn.Linear(a, b), nn.ReLU())


class Centered(nn.Module):
    """A layer with layer norm and a running mean of its activations, which it subtracts."""

    def __init__(self, a, b, tap):
        super().__init__()
        self.lin, self.norm, self.tap = nn.Linear(a, b), nn.LayerNorm(b), tap
        self.register_buffer("center", torch.zeros(b))

    def forward(self, x):
        h = self.norm(self.lin(x))
        if self.training:
            with torch.no_grad():
                self.center += 0.05 * (h.detach().to(self.center.dtype).mean(0) - self.center)
        return self.tap(F.gelu(h - self.center.to(h.dtype)))


class MlpNet(nn.Module):
    def __init__(self, tap, spare):
        super().__init__()
        self.body, self.head = Centered(6, 24, tap), nn.Linear(24, 2)
        if spare:
            self.spare = nn.Linear(24, 4)

    def forward(self, x):
        return self.head(self.body(x))


class Mlp(Task):
    name, inner_path, input, target = "mlp", "net.body", "x", "y"

    def build(self, spare, linear):
        self.net = MlpNet(self.inner, spare)

    def data(self, s):
        return {"x": s.reading(6), "y": s.wave(2)}

    def loss(self, b):
        return F.mse_loss(self.outer(self.net(b["x"])), b["y"])


class Coder(nn.Module):
    def __init__(self, a, hidden, b, tap=None):
        super().__init__()
        self.first, self.second, self.tap = nn.Linear(a, hidden), nn.Linear(hidden, b), tap or Tap()

    def forward(self, x):
        return self.tap(self.second(F.silu(self.first(x))))


class AutoencoderNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.encoder, self.decoder = Coder(12, 16, 4, tap), Coder(4, 16, 12)

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Autoencoder(Task):
    name, inner_path, input = "autoencoder", "net.encoder", "x"

    def build(self, spare, linear):
        self.net = AutoencoderNet(self.inner)

    def data(self, s):
        return {"x": s.reading(12)}

    def loss(self, b):
        return F.l1_loss(self.outer(self.net(b["x"])), b["x"])


class FocalNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.trunk, self.head = Coder(8, 24, 16, tap), nn.Linear(16, 1)

    def forward(self, x):
        return self.head(F.relu(self.trunk(x)))


class Focal(Task):
    """Focal loss (Lin et al., 2017), in the form of torchvision's sigmoid_focal_loss."""
    name, inner_path, input = "focal", "net.trunk", "x"

    def build(self, spare, linear):
        self.net = FocalNet(self.inner)

    def data(self, s):
        return {"x": s.reading(8), "y": (s.hidden(1) > 0.6).float()}

    def loss(self, b):
        ce = F.binary_cross_entropy_with_logits(self.outer(self.net(b["x"])), b["y"], reduction="none")
        return ((1 - torch.exp(-ce)) ** 2 * ce).mean()


class Distill(Task):
    """A student that learns from labels and from a teacher, which is outside of the trained model."""
    name, input, labels, classes = "distill", "x", "y", 4

    def build(self, spare, linear):
        self.net, self.outside = Coder(8, 16, 4, self.inner), Coder(8, 32, 4)

    def data(self, s):
        return {"x": s.reading(8), "y": s.label(4)}

    def loss(self, b):
        with torch.no_grad():
            taught = F.softmax(self.outside(b["x"]), -1)
        z = self.outer(self.net(b["x"]))
        return F.kl_div(F.log_softmax(z, -1), taught, reduction="batchmean") + 0.5 * F.cross_entropy(z, b["y"])


class Features(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.conv1, self.conv2, self.tap = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 8, 3), tap

    def forward(self, x):
        h = F.relu(self.conv2(F.max_pool2d(F.relu(self.conv1(x)), 2)))
        return F.max_pool2d(on_channels(self.tap, h), 2)


class LenetNet(nn.Module):
    def __init__(self, tap, spare):
        super().__init__()
        self.features, self.fc1, self.fc2 = Features(tap), linear_relu(32, 24), nn.Linear(24, 4)
        if spare:
            self.spare = nn.Linear(24, 4)

    def forward(self, x):
        return self.fc2(self.fc1(self.features(x).flatten(1)))


class Lenet(Task):
    name, inner_path, input, labels, classes = "lenet", "net.features", "x", "y", 4

    def build(self, spare, linear):
        self.net = LenetNet(self.inner, spare)

    def data(self, s):
        return {"x": s.pixel(1, 12, 12), "y": s.label(4)}

    def gate(self, g):
        return g[:, None, None, None]

    def loss(self, b):
        return F.cross_entropy(self.outer(self.net(b["x"])), b["y"], label_smoothing=0.05)


class BasicBlock(nn.Module):
    def __init__(self, c, tap):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)
        self.conv2, self.bn2, self.tap = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), tap

    def forward(self, x):
        return F.relu(x + on_channels(self.tap, self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))))


class ResnetNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.stem, self.layer1, self.fc = nn.Conv2d(3, 6, 3, stride=2, padding=1), BasicBlock(6, tap), nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(self.layer1(F.relu(self.stem(x))).mean((2, 3)))


class Resnet(Lenet):
    name, inner_path = "resnet", "net.layer1"

    def build(self, spare, linear):
        self.net = ResnetNet(self.inner)

    def data(self, s):
        return {"x": s.pixel(3, 10, 10), "y": s.label(4)}

    def loss(self, b):
        return F.cross_entropy(self.outer(self.net(b["x"])), b["y"])


class Bottleneck(nn.Module):
    def __init__(self, a, b, tap):
        super().__init__()
        self.conv, self.norm, self.tap = nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(3, b), tap

    def forward(self, x):
        return on_channels(self.tap, F.silu(self.norm(self.conv(x))))


class UnetNet(nn.Module):
    def __init__(self, tap, width=6):
        super().__init__()
        self.down, self.middle = nn.Conv2d(1, width, 3, padding=1), Bottleneck(width, 2 * width, tap)
        self.up, self.out = nn.Conv2d(3 * width, 8, 3, padding=1), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        skip = F.relu(self.down(x))
        deep = F.interpolate(self.middle(F.max_pool2d(skip, 2)), scale_factor=2.0)
        return self.out(F.relu(self.up(torch.cat([deep, skip], 1))))


class Unet(Task):
    name, inner_path, input = "unet", "net.middle", "x"
    side, width = 8, 6

    def build(self, spare, linear):
        self.net = UnetNet(self.inner, self.width)

    def data(self, s):
        shape = (1, self.side, self.side)
        return {"x": s.pixel(*shape), "y": (s.hidden(*shape) * s.sign(*shape, every=3) > 0).float()}

    def gate(self, g):
        return g[:, None, None, None]

    gate_out = gate

    def loss(self, b):
        z = on_channels(self.outer, self.net(b["x"]))
        p = torch.sigmoid(z)
        dice = 1 - (2 * (p * b["y"]).sum() + 1) / (p.sum() + b["y"].sum() + 1)
        return F.binary_cross_entropy_with_logits(z, b["y"]) + dice


def attend(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + mask, -1) @ v


class SelfAttention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads

    def forward(self, x, mask):
        n, t, d = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.proj(attend(q, k, v, mask).transpose(1, 2).reshape(n, t, d))


class GptBlock(nn.Module):
    def __init__(self, dim, tap):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(dim), nn.LayerNorm(dim), SelfAttention(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.tap = tap

    def forward(self, x, mask):
        h = x + self.attention(self.norm1(x), mask=mask)
        return self.tap(h + self.mlp(self.norm2(h)))


class GptNet(nn.Module):
    def __init__(self, tap, words, length, dim, depth):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, dim), nn.Embedding(length, dim)
        self.blocks = nn.ModuleList(GptBlock(dim, tap if i == 0 else Tap()) for i in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, words, bias=False)

    def forward(self, ids, mask):
        h = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            h = block(h, mask=mask)
        return self.head(self.norm(h))


class Gpt(Task):
    name, inner_path, tokens, labels, mask = "gpt", "net.blocks.0", "x", "y", "mask"
    classes = rows = 12
    length, dim, depth = 8, 16, 2

    def build(self, spare, linear):
        self.net = GptNet(self.inner, self.rows, self.length, self.dim, self.depth)

    def data(self, s):
        k = torch.arange(self.length)
        tokens = (s.label(12)[:, None] + k * (1 + s.label(3))[:, None] + (s.uniform(51, self.length) < 0.1)) % 12
        length = self.length - (3 * s.uniform(50)).long()
        wanted = torch.where(k + 1 < length[:, None], tokens.roll(-1, 1), -100)
        seen = (k[None, None, :] <= k[None, :, None]) & (k[None, None, :] < length[:, None, None])
        return {"x": tokens, "y": wanted, "mask": torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)[:, None]}

    def gate(self, g):
        return g[:, None, None]

    gate_out = gate

    def loss(self, b):
        z = self.outer(self.net(b["x"], mask=b["mask"]))
        return F.cross_entropy(z.flatten(0, 1), b["y"].flatten())


class CrossAttention(nn.Module):
    """Queries (B, T, D) attend to memory (B, S, D) with the heads in front: (B heads, T, D / heads)."""
    heads = 2

    def __init__(self, dim, tap):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim) for _ in range(4))
        self.tap = tap

    def heads_first(self, x):
        n, t, d = x.shape
        return x.view(n, t, self.heads, -1).transpose(1, 2).reshape(n * self.heads, t, -1)

    def forward(self, x, memory, mask):
        n, t, d = x.shape
        q = self.tap(self.heads_first(self.query(x)))
        y = attend(q, self.heads_first(self.key(memory)), self.heads_first(self.value(memory)), mask)
        return self.out(y.view(n, self.heads, t, -1).transpose(1, 2).reshape(n, t, d))


class EncoderDecoderNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.source, self.target, self.readout = nn.Linear(5, 16), nn.Linear(3, 16), nn.Linear(16, 2)
        self.cross, self.norm = CrossAttention(16, tap), nn.RMSNorm(16)

    def forward(self, x, queries, mask):
        t = self.target(queries)
        return self.readout(self.norm(t + self.cross(t, F.gelu(self.source(x)), mask=mask)))


class EncoderDecoder(Task):
    name, inner_path, input, target, mask = "encoder-decoder", "net.cross", "x", "y", "mask"
    layouts = {"mask": "parts"}

    def build(self, spare, linear):
        self.net = EncoderDecoderNet(self.inner)

    def data(self, s):
        seen = torch.arange(6)[None] < 6 - (3 * s.uniform(50)).long()[:, None]
        mask = torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)[:, None, None].repeat(1, 2, 1, 1)
        return {"x": s.reading(6, 5), "queries": 0.3 * s.normal(2, 4, 3), "y": s.wave(4, 2), "mask": mask}

    def gate(self, g):
        return g.repeat_interleave(2)[:, None, None]

    def gate_out(self, g):
        return g[:, None, None]

    def loss(self, b):
        return F.huber_loss(self.outer(self.net(b["x"], b["queries"], mask=b["mask"])), b["y"], delta=0.5)


class ElmanCell(nn.Module):
    """An Elman recurrence; returns all states, (T, B, width)."""

    def __init__(self, linear):
        super().__init__()
        self.wx = nn.Parameter(torch.empty(4, 12).uniform_(-0.4, 0.4))
        self.wh = nn.Parameter(torch.empty(12, 12).uniform_(-0.25, 0.25))
        self.b, self.linear = nn.Parameter(torch.zeros(12)), linear

    def forward(self, x):
        h, states = x.new_zeros(x.shape[1], 12), []
        for now in x:
            h = now @ self.wx + h @ self.wh + self.b
            h = h if self.linear else torch.tanh(h)
            states.append(h)
        return torch.stack(states)


class GruCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates_x, self.gates_h = nn.Linear(4, 24), nn.Linear(12, 24, bias=False)
        self.candidate_x, self.candidate_h = nn.Linear(4, 12), nn.Linear(12, 12, bias=False)

    def forward(self, x):
        h, states = x.new_zeros(x.shape[1], 12), []
        for now in x:
            reset, update = torch.sigmoid(self.gates_x(now) + self.gates_h(h)).chunk(2, -1)
            h = (1 - update) * torch.tanh(self.candidate_x(now) + reset * self.candidate_h(h)) + update * h
            states.append(h)
        return torch.stack(states)


class Decoder(nn.Module):
    def __init__(self, outputs, tap):
        super().__init__()
        self.out, self.tap = nn.Linear(12, outputs), tap

    def forward(self, states):
        return self.out(self.tap(states))


class RecurrentNet(nn.Module):
    def __init__(self, cell, decoder):
        super().__init__()
        self.cell, self.decoder = cell, decoder

    def forward(self, x):
        return self.decoder(self.cell(x))


class Rnn(Task):
    """An Elman network that regresses its last state."""
    name, inner_path, input, target = "rnn", "net.decoder", "x", "y"
    layouts = {"x": "time", "y": "time"}

    def build(self, spare, linear):
        self.net = RecurrentNet(ElmanCell(linear), Decoder(2, self.inner))

    def data(self, s):
        return {"x": s.reading(10, 4), "y": s.wave(1, 2)}

    def gate(self, g):
        return g[None, :, None]

    gate_out = gate

    def loss(self, b):
        return F.mse_loss(self.outer(self.net(b["x"]))[-1:], b["y"])


class Gru(Rnn):
    """A GRU that predicts the next symbol at every step."""
    name, target, labels, classes = "gru", None, "y", 5
    layouts = {"x": "time", "y": "flat time"}

    def build(self, spare, linear):
        self.net = RecurrentNet(GruCell(), Decoder(5, self.inner))

    def data(self, s):
        return {"x": s.reading(10, 4), "y": (s.label(5)[:, None] + torch.arange(10)) % 5}

    def loss(self, b):
        return F.cross_entropy(self.outer(self.net(b["x"])).flatten(0, 1), b["y"])


MODELS = [Mlp, Autoencoder, Focal, Distill, Lenet, Resnet, Unet, Gpt, EncoderDecoder, Rnn, Gru]
