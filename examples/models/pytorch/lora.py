import itertools
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

from common import Arguments, metric

TOKENS, LENGTH = 24, 12


class Lora(nn.Module):
    def __init__(self, layer, rank=8, alpha=8):
        super().__init__()
        self.layer, self.scale = layer, alpha / rank
        self.lora_a = nn.Linear(layer.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x):
        return self.layer(x) + self.lora_b(self.lora_a(x) * self.scale)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(dim, 3 * dim)
        self.c_proj = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (y.unflatten(2, (self.heads, -1)).transpose(1, 2) for y in self.c_attn(x).chunk(3, -1))
        return self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc = nn.Linear(dim, 4 * dim)
        self.c_proj = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn, self.mlp = Attention(dim, heads), Mlp(dim)

    def forward(self, x):
        h = x + self.attn(self.ln_1(x))
        return h + self.mlp(self.ln_2(h))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(TOKENS, args.dim), nn.Embedding(LENGTH, args.dim)
        self.h = nn.Sequential(*(Block(args.dim, args.heads) for _ in range(args.layers)))
        self.ln_f = nn.LayerNorm(args.dim)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        return F.linear(self.ln_f(self.h(x)), self.wte.weight)


def draw(count, direction):
    first, step = torch.randint(0, TOKENS, (count, 1)), torch.randint(1, 5, (count, 1))
    return (first + direction * step * torch.arange(LENGTH)) % TOKENS


def exchanged(state):
    return {name: t.T.contiguous() if ".c_" in name and t.dim() == 2 else t for name, t in state.items()}


def train(model, direction, steps):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for step in steps:
        x = draw(args.batch, direction)
        with args.autocast():
            loss = F.cross_entropy(model(x)[:, 1:-1].transpose(1, 2), x[:, 2:])
        optimizer.zero_grad()
        args.scaler.scale(loss).backward()
        args.scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        args.scaler.step(optimizer)
        args.scaler.update()
        args.report(step, loss)
    x = draw(512, direction)
    with torch.no_grad(), args.autocast():
        found = model(x).argmax(-1)
    return (found[:, 1:-1] == x[:, 2:]).float().mean()


args = Arguments(steps=150, pretrain=300, batch=32, dim=48, heads=4, layers=2)
with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
    model = Gpt()
    metric("pretrained", train(model, 1, range(args.pretrain)))
    save_file(exchanged(model.state_dict()), file.name)
    pretrained = exchanged(load_file(file.name))

model = Gpt()
model.load_state_dict(pretrained)
model.requires_grad_(False)
for block in model.h:
    for part, name in itertools.product((block.attn, block.mlp), ("c_attn", "c_fc", "c_proj")):
        if hasattr(part, name):
            setattr(part, name, Lora(getattr(part, name)))
metric("accuracy", train(model, -1, args.steps()))
state = {name.replace(".layer", ""): t for name, t in model.state_dict().items()}
metric("frozen", all(torch.equal(state[name], t) for name, t in pretrained.items()))
