"""Data of the models: a table of samples. A batch consists of some of its rows.

Each field has shape (samples, …). A layout says how a batch arranges a field for its model; a fault edits
rows of the table, so that the sample is bad whenever it is loaded again.
"""
import random

import torch

TRAINED, HELD_OUT = 64, 32


def choices(seed, purpose):
    """A stream of random choices for each purpose; the same seed gives the same choices on every machine."""
    return random.Random(f"{seed}/{purpose}")


class Samples:
    """Hidden variables and noise of all samples of a data set."""

    def __init__(self, seed):
        self.seed, self.count = seed, TRAINED + HELD_OUT
        self.latent = 2 * self.uniform(0) - 1

    def _generator(self, field):
        return torch.Generator().manual_seed((self.seed * 1009 + field) % 2**63)

    def uniform(self, field, *shape):
        return torch.rand(self.count, *shape, generator=self._generator(field))

    def normal(self, field, *shape):
        return torch.randn(self.count, *shape, generator=self._generator(field))

    def label(self, classes):
        return ((self.latent + 1) / 2 * classes).long() % classes

    def hidden(self, *shape):
        """The hidden variable of each sample, as (samples, *shape)."""
        return self.latent.view(-1, *[1] * len(shape)).expand(self.count, *shape)

    def position(self, *shape):
        """The number of each element within its sample, row-major."""
        size = 1
        for extent in shape:
            size *= extent
        return torch.arange(size).view(1, *shape)

    def sign(self, *shape, every=1):
        return 1 - 2 * ((self.position(*shape) // every) % 2)

    def reading(self, *shape):
        """An input that depends on the hidden variable, with noise."""
        return self.hidden(*shape) * (1 + 0.2 * (self.position(*shape) % 5)) + 0.3 * self.normal(1, *shape)

    def wave(self, *shape):
        """A regression target, computed from the hidden variable."""
        h = self.hidden(*shape)
        return 0.5 * h + 0.3 * self.sign(*shape) * h * h

    def pixel(self, *shape):
        return 0.5 + 0.4 * self.hidden(*shape) * self.sign(*shape, every=3) + 0.1 * self.normal(1, *shape)


LAYOUTS = {
    "plain": lambda t: t,
    "views": lambda t: t.transpose(0, 1).flatten(0, 1),      # (n, v, …) -> (v n, …): view 0 of all samples, then view 1, …
    "parts": lambda t: t.flatten(0, 1),                      # (n, p, …) -> (n p, …): points or heads of a sample
    "time": lambda t: t.transpose(0, 1),                     # (n, T, …) -> (T, n, …)
    "flat time": lambda t: t.transpose(0, 1).flatten(0, 1),  # (n, T, …) -> (T n, …)
}


def batch_of(task, table, ids):
    """Returns the tensors of a batch by name; "gate" and "gate_out" have the same number per sample, in different layouts."""
    index = torch.tensor(ids)
    batch = {name: LAYOUTS[task.layouts.get(name, "plain")](values[index]).contiguous()
             for name, values in table.items() if name != "gate"}
    gate = table["gate"][index]
    batch["gate"], batch["gate_out"] = task.gate(gate).clone(), task.gate_out(gate).clone()
    return batch
