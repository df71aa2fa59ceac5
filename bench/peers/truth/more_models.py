"""Generative, metric and reinforcement learning, and models of sets and tables, of tests/truth/models (models.py)."""
import torch
import torch.nn.functional as F
from torch import nn

from models import MODELS, Gpt, Tap, Task, Unet, linear_relu


class VaeEncoder(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.hidden, self.mu, self.logvar, self.tap = linear_relu(16, 24), nn.Linear(24, 4), nn.Linear(24, 4), tap

    def forward(self, x):
        h = self.tap(self.hidden(x))
        return self.mu(h), self.logvar(h)


class VaeNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.encoder = VaeEncoder(tap)
        self.decoder = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 16))

    def forward(self, x, noise):
        mu, logvar = self.encoder(x)
        return self.decoder(mu + torch.exp(0.5 * logvar) * noise), mu, logvar


class Vae(Task):
    name, inner_path, input = "vae", "net.encoder", "x"

    def build(self, spare, linear):
        self.net = VaeNet(self.inner)

    def data(self, s):
        return {"x": 0.5 + 0.45 * s.hidden(16) * s.sign(16), "noise": s.normal(3, 4)}

    def loss(self, b):
        z, mu, logvar = self.net(b["x"], b["noise"])
        kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).mean()
        return F.binary_cross_entropy_with_logits(self.outer(z), b["x"]) + 0.1 * kl


class Coupling(nn.Module):
    """An affine coupling layer; returns the transformed half and the logarithms of its scales."""

    def __init__(self, tap):
        super().__init__()
        self.hidden, self.scale, self.shift, self.tap = linear_relu(3, 16), nn.Linear(16, 3), nn.Linear(16, 3), tap

    def forward(self, kept, moved):
        h = self.tap(self.hidden(kept))
        s = 2 * torch.tanh(self.scale(h))
        return moved * torch.exp(s) + self.shift(h), s


class FlowNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.first, self.second = Coupling(tap), Coupling(Tap())

    def forward(self, x):
        left, right = x.chunk(2, -1)
        y, s1 = self.first(left, right)
        z, s2 = self.second(y, left)
        return y, z, s1 + s2


class Flow(Task):
    name, inner_path, input = "flow", "net.first", "x"

    def build(self, spare, linear):
        self.net = FlowNet(self.inner)

    def data(self, s):
        return {"x": 0.4 * s.hidden(6) + 0.1 * s.normal(1, 6)}

    def loss(self, b):
        y, z, logs = self.net(b["x"])
        return 0.5 * (self.outer(y) ** 2 + z ** 2).mean() - logs.mean()


class DenoiserBody(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.lin, self.time, self.out, self.tap = nn.Linear(8, 24), nn.Linear(4, 24), nn.Linear(24, 8), tap

    def forward(self, x, t):
        return self.out(self.tap(F.silu(self.lin(x) + self.time(t))))


class DenoiserNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.body = DenoiserBody(tap)

    def forward(self, x, t):
        return self.body(x, t)


class Denoiser(Task):
    """Predicts the noise in a noisy vector. The loss is weighted by the signal-to-noise ratio, clamped to 5."""
    name, inner_path, input, target = "denoiser", "net.body", "x", "y"

    def build(self, spare, linear):
        self.net = DenoiserNet(self.inner)

    def data(self, s):
        signal, noise = 0.02 + 0.96 * s.uniform(40, 1), s.normal(5, 8)
        return {"x": signal.sqrt() * s.reading(8) + (1 - signal).sqrt() * noise, "y": noise,
                "time": torch.sin(signal * 4.0 ** torch.arange(4)), "weight": (signal / (1 - signal)).clamp(max=5)}

    def loss(self, b):
        return ((self.outer(self.net(b["x"], b["time"])) - b["y"]) ** 2 * b["weight"]).mean()


class CriticNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.lin, self.out, self.tap = nn.Linear(6, 24), nn.Linear(24, 1), tap

    def forward(self, x):
        return self.out(self.tap(F.leaky_relu(self.lin(x), 0.2)))


class Stacked(Task):
    """A task whose batches stack several views of each sample."""
    input, views, layouts = "x", 2, {"x": "views"}

    def gate(self, g):
        return g.repeat(self.views)[:, None]

    gate_out = gate


class Critic(Stacked):
    """Real and fake vectors, stacked; a Wasserstein loss with a drift term."""
    name = "critic"

    def build(self, spare, linear):
        self.net = CriticNet(self.inner)

    def data(self, s):
        return {"x": torch.stack([s.reading(6), s.normal(7, 6)], 1)}

    def loss(self, b):
        real, fake = (score := self.outer(self.net(b["x"]))).chunk(2)
        return fake.mean() - real.mean() + 0.05 * (score ** 2).mean()


class Embedder(nn.Module):
    def __init__(self, a, tap):
        super().__init__()
        self.lin, self.out, self.tap = nn.Linear(a, 24), nn.Linear(24, 8), tap

    def forward(self, x):
        return self.out(self.tap(F.relu(self.lin(x))))


class EmbeddingNet(nn.Module):
    """Embeddings of length 1."""

    def __init__(self, a, tap, norm):
        super().__init__()
        self.embed, self.norm = Embedder(a, tap), norm

    def forward(self, x):
        h = self.norm(self.embed(x))
        return h / torch.sqrt((h ** 2).sum(-1, keepdim=True) + 1e-6)


class Triplet(Stacked):
    name, inner_path, views = "triplet", "net.embed", 3

    def build(self, spare, linear):
        self.net = EmbeddingNet(5, self.inner, nn.Identity())

    def data(self, s):
        side = torch.tensor([1.0, 1.0, -1.0])[:, None]
        return {"x": s.hidden(3, 5) * side * s.sign(3, 5) + 0.3 * s.normal(1, 3, 5)}

    def loss(self, b):
        anchor, positive, negative = self.outer(self.net(b["x"])).chunk(3)
        near, far = ((anchor - positive) ** 2).sum(-1), ((anchor - negative) ** 2).sum(-1)
        return F.relu(near - far + 0.3).mean()


class Siamese(Stacked):
    """Two views of each sample; every view of another sample is a negative."""
    name, inner_path = "siamese", "net.embed"

    def build(self, spare, linear):
        self.net = EmbeddingNet(6, self.inner, nn.RMSNorm(8))

    def data(self, s):
        return {"x": s.normal(2, 1, 6) + 0.2 * s.normal(1, 2, 6)}

    def loss(self, b):
        a, p = self.outer(self.net(b["x"])).chunk(2)
        return F.cross_entropy(a @ p.T / 0.2, torch.arange(len(a)))


class ActionNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.lin, self.out, self.tap = linear_relu(6, 24), nn.Linear(24, 3), tap

    def forward(self, x):
        return self.out(self.tap(self.lin(x)))


def one_hot(s):
    return F.one_hot((3 * s.uniform(60)).long(), 3).float()


class Dqn(Task):
    """A DQN with sparse rewards. A frozen network outside of the model computes the targets."""
    name, input = "dqn", "x"

    def build(self, spare, linear):
        self.net, self.outside = ActionNet(self.inner), ActionNet(Tap())

    def data(self, s):
        x = s.reading(6)
        return {"x": x, "next": x + 0.1 * s.normal(8, 6), "action": one_hot(s),
                "reward": (s.uniform(61, 1) < 0.1).float()}

    def loss(self, b):
        with torch.no_grad():
            wanted = b["reward"] + 0.9 * self.outside(b["next"]).amax(-1, keepdim=True)
        q = (self.outer(self.net(b["x"])) * b["action"]).sum(-1, keepdim=True)
        return F.huber_loss(q, wanted)


class PolicyGradient(Task):
    """A policy gradient with an entropy bonus; the loss can be positive or negative."""
    name, input = "policy-gradient", "x"

    def build(self, spare, linear):
        self.net = ActionNet(self.inner)

    def data(self, s):
        return {"x": s.reading(6), "action": one_hot(s), "advantage": s.normal(62, 1)}

    def loss(self, b):
        logp = F.log_softmax(self.outer(self.net(b["x"])), -1)
        taken = (logp * b["action"]).sum(-1, keepdim=True)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        return -(taken * b["advantage"]).mean() - 0.05 * entropy


class ExpertLayer(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8)) for _ in range(3))
        self.router, self.tap = nn.Linear(8, 3), tap

    def forward(self, x):
        share = torch.softmax(self.router(x), -1)
        y = sum(expert(x) * share[:, i:i + 1] for i, expert in enumerate(self.experts))
        return self.tap(x + y), share


class ExpertsNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.lin, self.layer, self.out = nn.Linear(6, 8), ExpertLayer(tap), nn.Linear(8, 2)

    def forward(self, x):
        h, share = self.layer(self.lin(x))
        return self.out(h), share


class Experts(Task):
    """Three experts, softly gated, with a loss that balances their use."""
    name, inner_path, input, target = "experts", "net.layer", "x", "y"

    def build(self, spare, linear):
        self.net = ExpertsNet(self.inner)

    def data(self, s):
        return {"x": s.reading(6), "y": s.wave(2)}

    def loss(self, b):
        y, share = self.net(b["x"])
        return F.mse_loss(self.outer(y), b["y"]) + 0.03 * (share.mean(0) ** 2).sum()


class PinnNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.lin, self.middle, self.out, self.tap = nn.Linear(1, 16), nn.Linear(16, 16), nn.Linear(16, 1), tap

    def forward(self, x):
        return self.out(self.tap(torch.tanh(self.middle(torch.tanh(self.lin(x))))))


class Pinn(Stacked):
    """Solves u'' = -u on a line by central differences: a batch stacks the points, their left and their right neighbors."""
    name, target, views, step = "pinn", "y", 3, 0.2

    def build(self, spare, linear):
        self.net = PinnNet(self.inner)

    def data(self, s):
        return {"x": 3 * s.hidden(3, 1) + self.step * torch.tensor([-1.0, 0, 1])[:, None],
                "y": torch.sin(3 * s.hidden(1))}

    def loss(self, b):
        left, here, right = self.outer(self.net(b["x"])).to(b["x"].dtype).chunk(3)
        residual = (left - 2 * here + right) / self.step ** 2 + here
        return 0.1 * (residual ** 2).mean() + F.mse_loss(here, b["y"])


class Local(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.first, self.second, self.tap = linear_relu(3, 16), nn.Linear(16, 16), tap

    def forward(self, x):
        return self.second(self.tap(self.first(x)))


class PointNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.local, self.head = Local(tap), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.local(x).view(-1, 9, 16).amax(1))


class Points(Task):
    """Classifies point clouds. The points of all samples are one list; each feature is maximized over a sample's points."""
    name, inner_path, input, labels, classes = "points", "net.local", "x", "y", 3
    layouts = {"x": "parts"}

    def build(self, spare, linear):
        self.net = PointNet(self.inner)

    def data(self, s):
        own = torch.arange(3)[None, None] == s.label(3)[:, None, None]
        return {"x": torch.where(own, 1.5, 0.5) * s.normal(1, 9, 3), "y": s.label(3)}

    def gate(self, g):
        return g.repeat_interleave(9)[:, None]

    def loss(self, b):
        return F.cross_entropy(self.outer(self.net(b["x"])), b["y"])


class GraphConv(nn.Module):
    """Neighbors averaged by a product with the adjacency, whose rows the model normalizes."""

    def __init__(self, a, b, tap):
        super().__init__()
        self.mix, self.tap = nn.Linear(a, b), tap

    def forward(self, x, edges):
        return F.relu(self.mix(self.tap(edges / edges.sum(-1, keepdim=True) @ x)))


class GraphNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.conv1, self.conv2, self.head = GraphConv(4, 12, Tap()), GraphConv(12, 12, tap), nn.Linear(12, 3)

    def forward(self, x, edges):
        return self.head(self.conv2(self.conv1(x, edges), edges).mean(1))


class Graph(Task):
    name, inner_path, input, labels, classes = "graph", "net.conv2", "x", "y", 3

    def build(self, spare, linear):
        self.net = GraphNet(self.inner)

    def data(self, s):
        edges = torch.eye(6).bool() | (s.uniform(30, 6, 6) < 0.4)
        return {"x": s.reading(6, 4), "edges": edges.float(), "y": s.label(3)}

    def gate(self, g):
        return g[:, None, None]

    def loss(self, b):
        return F.cross_entropy(self.outer(self.net(b["x"], b["edges"])), b["y"])


class RecommenderNet(nn.Module):
    def __init__(self, tap):
        super().__init__()
        self.users, self.items = nn.Embedding(20, 8), nn.Embedding(30, 8)
        self.deep, self.out, self.tap = linear_relu(16, 16), nn.Linear(16, 1), tap

    def forward(self, user, item):
        u, i = self.users(user), self.items(item)
        return self.out(self.tap(self.deep(torch.cat([u, i], -1)))) + 0.1 * (u * i).sum(-1, keepdim=True)


class Recommender(Task):
    """Users and items by number; the answer is whether they match."""
    name, tokens, rows = "recommender", "x", 20

    def build(self, spare, linear):
        self.net = RecommenderNet(self.inner)

    def data(self, s):
        return {"x": s.label(20), "item": (30 * s.uniform(70)).long(), "y": (s.hidden(1) > 0).float()}

    def loss(self, b):
        return F.binary_cross_entropy_with_logits(self.outer(self.net(b["x"], b["item"])), b["y"])


class WideGpt(Gpt):
    """For the cost of a tool only: 4 blocks of width 256, 64 tokens."""
    name, length, dim, depth = "wide gpt", 64, 256, 4


class WideUnet(Unet):
    """For the cost of a tool only: 32 channels, 64 x 64 pixels."""
    name, side, width = "wide unet", 64, 33


ALL = MODELS + [Vae, Flow, Denoiser, Critic, Triplet, Siamese, Dqn, PolicyGradient, Experts, Pinn, Points, Graph,
                Recommender]
BY_NAME = {task.name: task for task in ALL + [WideGpt, WideUnet]}
