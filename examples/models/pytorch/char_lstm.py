"""A language model of letters; the twin of ../char_lstm.cpp."""
import random

import torch
from torch import nn
from torch.nn import functional as F

from common import Arguments, metric

LETTERS = "abcdefghijklmnopqrstuvwxyz ."


def text(sentences, seed):
    """Letters (N) of sentences such as "two old cats hear a red fox." """
    source = random.Random(seed)

    def phrase(plural):
        article = source.choice(["two ", "some "] if plural else ["a ", "one "])
        adjective = source.choice(["red ", "old ", "big ", "small "])
        return article + adjective + source.choice(["cat", "dog", "bird", "lion"]) + ("s" if plural else "")

    letters = ""
    for _ in range(sentences):
        plural = source.random() < 0.5
        verb = source.choice(["see", "like", "hear", "find"]) + (" " if plural else "s ")
        letters += phrase(plural) + " " + verb + phrase(source.random() < 0.5) + "."
    return torch.tensor([LETTERS.index(c) for c in letters])


class CharLstm(nn.Module):  # letters (B, T) -> logits of the next letters (B, T, 28)
    def __init__(self, hidden, layers):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), 32)
        self.lstm = nn.LSTM(32, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, len(LETTERS))

    def forward(self, x):
        return self.out(self.lstm(self.embedding(x))[0])

    def sample(self, length):
        written, state = "", None
        letter = torch.tensor([[LETTERS.index(".")]])
        for _ in range(length):
            y, state = self.lstm(self.embedding(letter), state)
            letter = torch.multinomial(F.softmax(self.out(y[0]).float(), -1), 1)
            written += LETTERS[letter.item()]
        return written


def windows(text, batch, length):
    at = torch.randint(len(text) - length, (batch, 1)) + torch.arange(length + 1)
    both = text[at]
    return both[:, :-1], both[:, 1:]


args = Arguments(steps=300, batch=16, length=96, hidden=64, layers=1)
model = CharLstm(args.hidden, args.layers)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
training, held_out = text(2000, 1), text(500, 2)


def loss_of(letters, following):
    return F.cross_entropy(model(letters).flatten(0, 1), following.flatten())


for step in args.steps():
    batch = windows(training, args.batch, args.length)
    optimizer.zero_grad()
    with args.autocast():
        loss = loss_of(*batch)
    args.scaler.scale(loss).backward()
    args.scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1)
    args.scaler.step(optimizer)
    args.scaler.update()
    args.report(step, loss)

model.eval()
with torch.no_grad(), args.autocast():
    metric("perplexity", loss_of(*windows(held_out, 100, args.length)).exp())
    print(model.sample(200))
