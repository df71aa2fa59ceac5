import torch
import torch.nn.functional as F
from torch import nn

from common import Arguments, metric

CLASSES, LABELED = 4, 20


class Graph:
    def __init__(self, nodes, width):
        self.labels = torch.arange(nodes) % CLASSES
        p = torch.where(self.labels == self.labels[:, None], 0.1, 0.01)
        above = torch.bernoulli(p.triu(1))
        edges = (above + above.T + torch.eye(nodes)).nonzero()
        self.features = torch.randn(nodes, width) + 0.7 * F.one_hot(self.labels, width)
        self.start, self.end = edges[:, 0], edges[:, 1]

    def gathered(self, rows):
        return torch.zeros(len(self.labels), rows.shape[1], dtype=rows.dtype).index_add(0, self.end, rows)


def convolved(h, g):
    scale = g.gathered(torch.ones(len(g.end), 1)).rsqrt()
    return g.gathered((h * scale)[g.start]) * scale


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.linear = nn.Linear(dim, dim, bias=False)
        self.scores = nn.Linear(dim, 2 * heads)

    def forward(self, x, g):
        h = self.linear(x)
        source, target = self.scores(h).chunk(2, 1)
        score = F.leaky_relu(source[g.start] + target[g.end], 0.2)
        weight = torch.exp(score - score.max().detach())
        share = weight / g.gathered(weight)[g.end]
        return g.gathered((h[g.start].unflatten(1, (share.shape[1], -1)) * share[:, :, None]).flatten(1))


class Classifier(nn.Module):
    def __init__(self, features, width, heads):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.second = Attention(width, heads)
        self.dropout = nn.Dropout()
        self.head = nn.Linear(width, CLASSES)

    def forward(self, g):
        return self.head(F.elu(self.second(self.dropout(F.relu(convolved(self.first(g.features), g))), g)))


args = Arguments(steps=100, nodes=400, features=16, width=32, heads=4)
graph = Graph(args.nodes, args.features)
model = Classifier(args.features, args.width, args.heads)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)

for step in args.steps():
    with args.autocast():
        loss = F.cross_entropy(model(graph)[:LABELED], graph.labels[:LABELED])
    optimizer.zero_grad()
    args.scaler.scale(loss).backward()
    args.scaler.step(optimizer)
    args.scaler.update()
    args.report(step, loss)

model.eval()
with torch.no_grad(), args.autocast():
    found = model(graph).argmax(1)
metric("accuracy", (found == graph.labels)[LABELED:].float().mean())
