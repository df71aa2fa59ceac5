"""A convolutional GAN with gradient penalty; the twin of ../dcgan.cpp."""
import torch
from torch import nn

from common import Arguments, metric


def make_generator(latent, width):  # (N, latent) -> (N, 1, 16, 16) from -1 to 1
    return nn.Sequential(
        nn.Linear(latent, 64 * width), nn.Unflatten(1, (4 * width, 4, 4)),
        nn.BatchNorm2d(4 * width), nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=2, padding=1),
        nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.ConvTranspose2d(2 * width, 1, 4, stride=2, padding=1), nn.Tanh())


def make_critic(width):  # (N, 1, 16, 16) -> (N, 1)
    return nn.Sequential(
        nn.Conv2d(1, 2 * width, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
        nn.Conv2d(2 * width, 4 * width, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
        nn.Flatten(), nn.Linear(64 * width, 1))


def discs(count):
    """Discs of random place and size with soft edges (N, 1, 16, 16), from -1 to 1."""
    at, radius = torch.linspace(-1, 1, 16), torch.rand(count, 1, 1, 1) * 0.3 + 0.3
    x = at.reshape(1, 1, 1, 16) - (torch.rand(count, 1, 1, 1) - 0.5)
    y = at.reshape(1, 1, 16, 1) - (torch.rand(count, 1, 1, 1) - 0.5)
    return torch.tanh((radius - torch.hypot(x, y)) * 10)


def penalty(critic, real, made):
    """The mean of (|slope| - 1)^2, where slope is the critic's gradient at random points between two sets of images."""
    between = torch.lerp(made, real, torch.rand(len(real), 1, 1, 1)).requires_grad_()
    slope, = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slope.flatten(1).norm(dim=1) - 1).square().mean()


def distance(a, b):
    """The mean distance (root mean square of 256 pixels) of images from the nearest of the other set, summed over both."""
    distances = torch.cdist(a.float().flatten(1), b.flatten(1)) / 16
    return distances.amin(0).mean() + distances.amin(1).mean()


args = Arguments(steps=600, batch=32, width=8, latent=16)
generator, critic = make_generator(args.latent, args.width), make_critic(args.width)
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))


def make(count):
    return generator(torch.randn(count, args.latent))


for step in args.steps():
    real = discs(args.batch)
    critic_optimizer.zero_grad()
    with args.autocast():
        made = make(len(real)).detach().float()
        loss = critic(made).mean() - critic(real).mean() + 10 * penalty(critic, real, made)
    args.scaler.scale(loss).backward()
    args.scaler.step(critic_optimizer)
    generator_optimizer.zero_grad()
    with args.autocast():
        deceit = -critic(make(len(real))).mean()
    args.scaler.scale(deceit).backward()
    args.scaler.step(generator_optimizer)
    args.scaler.update()
    args.report(step, loss + deceit)

generator.eval()
with torch.no_grad(), args.autocast():
    made = make(256)
metric("distance", distance(made, discs(256)))
