import torch
from torch import nn

from common import Arguments, metric

VISCOSITY, SPEED = 0.05, 0.5


def exact(at):
    x, t = at[:, :1], at[:, 1:]
    return SPEED * (1 - torch.tanh(SPEED / (2 * VISCOSITY) * (x - SPEED * t)))


def draw(count):
    x, t = 2 * torch.rand(count, 1) - 1, torch.rand(count, 1)
    inside = torch.cat([2 * torch.rand(count, 1) - 1, torch.rand(count, 1)], 1)
    return inside, torch.cat([torch.cat([x, torch.zeros(count, 1)], 1), torch.cat([x.sign(), t], 1)])


def residual(u, points):
    points.requires_grad_()
    value = u(points)
    first, = torch.autograd.grad(value.sum(), points, create_graph=True)
    u_x, u_t = first[:, :1], first[:, 1:]
    second, = torch.autograd.grad(u_x.sum(), points, create_graph=True)
    return u_t + value * u_x - VISCOSITY * second[:, :1]


args = Arguments(steps=1000, points=128, width=24)
width = args.width
u = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width),
                  nn.Tanh(), nn.Linear(width, 1))
optimizer = torch.optim.Adam(u.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(args.count, 1))

for step in args.steps():
    inside, edge = draw(args.points)
    with args.autocast():
        loss = residual(u, inside).square().mean() + nn.functional.mse_loss(u(edge), exact(edge))
    optimizer.zero_grad()
    args.scaler.scale(loss).backward()
    args.scaler.step(optimizer)
    args.scaler.update()
    schedule.step()
    args.report(step, loss)

at, _ = draw(4096)
with torch.no_grad(), args.autocast():
    found = u(at)
metric("error", (found - exact(at)).norm() / exact(at).norm())
