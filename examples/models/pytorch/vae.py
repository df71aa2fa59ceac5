"""A convolutional variational autoencoder; the twin of ../vae.cpp."""
import torch
from torch import nn
from torch.nn import functional as F

from common import Arguments, metric


class Vae(nn.Module):
    def __init__(self, width, latent):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * width, 2 * latent))
        self.decoder = nn.Sequential(
            nn.Linear(latent, 32 * width), nn.ReLU(), nn.Unflatten(1, (2 * width, 4, 4)),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1))

    def loss(self, x):
        """The negative evidence lower bound of images (N, 1, 16, 16), in nats per image."""
        mean, log_var = self.encoder(x).chunk(2, 1)
        mean, log_var = mean.float(), log_var.float()
        logits = self.decoder(mean + (0.5 * log_var).exp() * torch.randn_like(mean))
        divergence = 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum()
        return (F.binary_cross_entropy_with_logits(logits, x, reduction="sum") + divergence) / len(x)


def discs(count):
    """White discs of random place and size (N, 1, 16, 16)."""
    at, radius = torch.linspace(-1, 1, 16), torch.rand(count, 1, 1, 1) * 0.4 + 0.2
    x = at.reshape(1, 1, 1, 16) - (torch.rand(count, 1, 1, 1) - 0.5)
    y = at.reshape(1, 1, 16, 1) - (torch.rand(count, 1, 1, 1) - 0.5)
    return (torch.hypot(x, y) < radius).float()


args = Arguments(steps=300, batch=64, width=16, latent=8)
model = Vae(args.width, args.latent)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for step in args.steps():
    optimizer.zero_grad()
    with args.autocast():
        loss = model.loss(discs(args.batch))
    args.scaler.scale(loss).backward()
    args.scaler.step(optimizer)
    args.scaler.update()
    args.report(step, loss)

model.eval()
with torch.no_grad(), args.autocast():
    metric("elbo", model.loss(discs(1000)))
