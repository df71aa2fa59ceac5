import torch
import torch.nn.functional as F
from torch import nn

from common import Arguments, metric

DISCOUNT, TRACE = 0.98, 0.95


def net(width):
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1),
                         nn.Flatten(0))


def moved(state, push):
    _, speed, angle, spin = state.unbind(1)
    sine, cosine = angle.sin(), angle.cos()
    force = (10 * push + 0.05 * spin**2 * sine) / 1.1
    turn = (9.8 * sine - cosine * force) / (2 / 3 - 0.05 * cosine**2 / 1.1)
    return state + 0.02 * torch.stack([speed, force - 0.05 * turn * cosine / 1.1, spin, turn], 1)


def fallen(state):
    return (state[:, 0].abs() > 2.4) | (state[:, 2].abs() > 0.21)


def upright(carts):
    return 0.1 * torch.rand(carts, 4) - 0.05


def chosen(actor, state):
    return (torch.rand(len(state)) < actor(state).sigmoid()).float()


def log_probability(actor, states, actions):
    return -F.binary_cross_entropy_with_logits(actor(states).float(), actions, reduction="none")


def play(state, actor, critic, count):
    states, actions, values, ends, advantages = [], [], [], [], []
    for _ in range(count):
        states.append(state)
        values.append(critic(state).float())
        actions.append(chosen(actor, state))
        state = moved(state, 2 * actions[-1] - 1)
        ends.append(fallen(state))
        state = torch.where(ends[-1][:, None], upright(len(state)), state)
    following, total = critic(state).float(), 0
    for value, end in zip(reversed(values), reversed(ends)):
        on = DISCOUNT * ~end
        total = 1 - DISCOUNT + on * following - value + TRACE * on * total
        following = value
        advantages.insert(0, total)
    s, a, gain = torch.cat(states), torch.cat(actions), torch.cat(advantages)
    return state, (s, a, log_probability(actor, s, a), (gain - gain.mean()) / (gain.std() + 1e-8),
                   gain + torch.cat(values))


args = Arguments(steps=60, carts=16, moves=64, epochs=4, width=32)
actor, critic = net(args.width), net(args.width)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-3)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=3e-3)


def update(model, optimizer, loss):
    optimizer.zero_grad()
    args.scaler.scale(loss).backward()
    args.scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1)
    args.scaler.step(optimizer)


state = upright(args.carts)
for _ in args.steps():
    with torch.no_grad(), args.autocast():
        state, (states, actions, log_p, advantages, returns) = play(state, actor, critic, args.moves)
    for _ in range(args.epochs):
        with args.autocast():
            critic_loss = F.mse_loss(critic(states).float(), returns)
            ratio = torch.exp(log_probability(actor, states, actions) - log_p)
            actor_loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        update(critic, critic_optimizer, critic_loss)
        update(actor, actor_optimizer, actor_loss)
        args.scaler.update()

now, up, moves = upright(64), torch.ones(64), 0
for _ in range(200):
    with torch.no_grad(), args.autocast():
        now = moved(now, 2 * chosen(actor, now) - 1)
    up *= ~fallen(now)
    moves += up.mean()
metric("moves", moves)
