"""A transformer that translates; the twin of ../translator.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import Arguments, metric

PAD, START, END, FIRST, LETTERS, TOKENS, LONGEST = 0, 1, 2, 3, 10, 13, 8


class Translator(nn.Module):
    def __init__(self, dim, heads, layers):
        super().__init__()
        self.source = nn.Embedding(TOKENS, dim)
        self.target = nn.Embedding(TOKENS, dim)
        self.positions = nn.Embedding(LONGEST + 1, dim)
        self.transformer = nn.Transformer(dim, heads, layers, layers, 4 * dim, 0, batch_first=True, norm_first=True)
        self.out = nn.Linear(dim, TOKENS)

    def encode(self, source):
        h = self.source(source) + self.positions(torch.arange(source.shape[1]))
        return self.transformer.encoder(h, src_key_padding_mask=source == PAD)

    def decode(self, memory, source, to):
        """Logits (N, T, tokens) of what follows each of the tokens `to` (N, T)."""
        h = self.target(to) + self.positions(torch.arange(to.shape[1]))
        causal = nn.Transformer.generate_square_subsequent_mask(to.shape[1])
        h = self.transformer.decoder(h, memory, causal, memory_key_padding_mask=source == PAD, tgt_is_causal=True)
        return self.out(h)

    def forward(self, source, to):
        return self.decode(self.encode(source), source, to)

    def translate(self, source, beams):
        """The best translations (N, T) of a search with `beams` texts at a time. One beam is the greedy search."""
        n = len(source)
        memory, sources = self.encode(source).repeat_interleave(beams, 0), source.repeat_interleave(beams, 0)
        first_row = torch.arange(n) * beams
        only_pad = (1 - F.one_hot(torch.tensor([PAD]), TOKENS)) * -1e9
        texts = torch.full((n * beams, 1), START)
        scores = ((torch.arange(beams) > 0) * -1e9).repeat(n, 1)  # the beams are equal at first
        while texts.shape[1] <= LONGEST + 1:
            last = texts[:, -1:]
            following = F.log_softmax(self.decode(memory, sources, texts)[:, -1].float(), -1)
            allowed = torch.where((last == END) | (last == PAD), only_pad, following)
            scores, best = (scores[:, :, None] + allowed.reshape(n, beams, -1)).flatten(1).topk(beams)
            rows = first_row[:, None] + best // TOKENS
            texts = torch.cat([texts[rows.flatten()], (best % TOKENS).reshape(-1, 1)], 1)
        return texts.reshape(n, beams, -1)[:, 0, 1:]


def pairs(count):
    length, at = torch.randint(4, LONGEST + 1, (count, 1)), torch.arange(LONGEST)
    letters = torch.where(at < length, torch.randint(FIRST, TOKENS, (count, LONGEST)), PAD)
    backward = letters.gather(1, (length - 1 - at).clamp(0))
    recoded = FIRST + ((backward - FIRST) * 3 + 1) % LETTERS
    to = torch.where(at < length, recoded, END * (at == length))
    return letters, torch.cat([to, END * (length == LONGEST)], 1)


args = Arguments(steps=300, batch=64, dim=32, heads=2, layers=1, beams=3)
model = Translator(args.dim, args.heads, args.layers)
optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, args.count, cycle_momentum=False)
start = torch.full((args.batch, 1), START)

for step in args.steps():
    source, to = pairs(args.batch)
    optimizer.zero_grad()
    with args.autocast():  # the decoder reads the correct translation, shifted by one token
        logits = model(source, torch.cat([start, to[:, :-1]], 1))
        loss = F.cross_entropy(logits.flatten(0, 1), to.flatten(), ignore_index=PAD)
    args.scaler.scale(loss).backward()
    args.scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1)
    args.scaler.step(optimizer)
    args.scaler.update()
    schedule.step()
    args.report(step, loss)

model.eval()
source, to = pairs(200)
with torch.no_grad(), args.autocast():
    for name, beams in (("greedy", 1), ("beam", args.beams)):
        metric(name, (model.translate(source, beams) == to).all(1).float().mean())
