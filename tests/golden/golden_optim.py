"""Twenty steps of every optimizer, clip mode and average on given gradients, in double; schedules over their whole length.

Two parameters: w (3, 4), which decays, and b (5), which does not. Roles: init.P, grad.K.P (step K from 1), after.K.P and, where
there is an average, ema.K.P; schedules have lr, the rate of step 1, 2, ….

sgd, adam, adamw   torch.optim (sgd and adam add weight_decay * p to the gradient, adamw shrinks the weight)
lion               u = sign(beta1 m + (1 - beta1) g); p -= lr (u + weight_decay p); m = beta2 m + (1 - beta2) g
rmsprop            torch.optim.RMSprop
muon               Muon (nesterov, momentum 0.95, weight_decay; its class below) for w, torch.optim.Adam for b
clip norm          torch.nn.utils.clip_grad_norm_ over all parameters; value: clip_grad_value_
clip adaptive      for each unit (row of a matrix or filter; a vector is one unit): |g| is clipped to
                   limit * max(|w|, 1e-3) (Brock et al. 2021, eq. 3)
ema                a = decay a + (1 - decay) p after each step, a = p before the first
schedules          warm-up: step k of the first W has lr k / W. Then, with f = (k - W) / (N - W): linear lr + (min_lr - lr) f,
                   cosine min_lr + (lr - min_lr) (1 + cos(pi f)) / 2, constant lr. plateau: torch's ReduceLROnPlateau on given
                   losses, factor 0.5, patience 2, relative threshold 1e-4, the rate after each loss
rules              the rates of torch.optim.lr_scheduler before each of 24 steps
"""
import math

import numpy as np
import torch

from golden_ops import draw

STEPS = 20
SHAPES = {"w": (3, 4), "b": (5,)}


class Lion(torch.optim.Optimizer):
    def __init__(self, groups, lr, betas):
        super().__init__(groups, dict(lr=lr, betas=betas, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                u = (beta1 * m + (1 - beta1) * p.grad).sign()
                p.sub_(group["lr"] * (u + group["weight_decay"] * p))
                m.mul_(beta2).add_((1 - beta2) * p.grad)


class Muon(torch.optim.Optimizer):
    """torch.optim.Muon with nesterov, but with the Newton-Schulz iterations in the dtype of the parameter, not in bfloat16."""

    def __init__(self, groups, lr, momentum):
        super().__init__(groups, dict(lr=lr, momentum=momentum, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p)).mul_(group["momentum"]).add_(p.grad)
                x = p.grad + group["momentum"] * m
                x = x.T if p.shape[0] > p.shape[1] else x
                x = x / x.norm()
                for _ in range(5):
                    a = x @ x.T
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                x = x.T if p.shape[0] > p.shape[1] else x
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5 * x)


class MuonAndAdam:
    def __init__(self, groups):
        self.muon = Muon(groups[:1], lr=0.02, momentum=0.95)
        self.adam = torch.optim.Adam(groups[1]["params"], lr=0.02, betas=(0.9, 0.95), eps=1e-8)

    def step(self):
        self.muon.step()
        self.adam.step()


def clip_adaptive(parameters, limit):
    for p in parameters:
        rows, grads = (p.detach().reshape(p.shape[0], -1), p.grad.reshape(p.shape[0], -1)) if p.dim() > 1 else (p.detach()[None], p.grad[None])
        largest = limit * rows.norm(dim=1, keepdim=True).clamp(min=1e-3)
        norm = grads.norm(dim=1, keepdim=True)
        p.grad = torch.where(norm > largest, grads * largest / norm, grads).reshape(p.shape)


def run(file, name, op, make, params, weight_decay=0.0, clip=None, limit=0.0, ema=None):
    init = {k: draw(f"optim.{k}", s) for k, s in SHAPES.items()}
    p = {k: torch.from_numpy(v).double().requires_grad_() for k, v in init.items()}
    optimizer = make([{"params": [p["w"]], "weight_decay": weight_decay}, {"params": [p["b"]], "weight_decay": 0.0}])
    average = {k: v.detach().clone() for k, v in p.items()}
    roles = [(f"init.{k}", v) for k, v in init.items()]
    for step in range(1, STEPS + 1):
        for k, v in p.items():
            g = draw(f"optim.grad.{step}.{k}", SHAPES[k], digits=3)
            roles.append((f"grad.{step}.{k}", g))
            v.grad = torch.from_numpy(g).double()
        if clip == "norm":
            torch.nn.utils.clip_grad_norm_(p.values(), limit)
        elif clip == "value":
            torch.nn.utils.clip_grad_value_(p.values(), limit)
        elif clip == "adaptive":
            clip_adaptive(p.values(), limit)
        optimizer.step()
        for k, v in p.items():
            roles.append((f"after.{step}.{k}", v.detach().numpy().copy()))
            if ema is not None:
                average[k] = ema * average[k] + (1 - ema) * v.detach()
                roles.append((f"ema.{step}.{k}", average[k].numpy().copy()))
    more = {"weight_decay": weight_decay, "clip_mode": clip or "none", "clip": limit, "ema": ema if ema is not None else "none"}
    file.case(name, op, {**params, **more}, roles)


def schedule_rates(kind, lr, min_lr, warmup, steps):
    rates = []
    for k in range(1, steps + 1):
        if k <= warmup:
            rates.append(lr * k / warmup)
            continue
        f = (k - warmup) / (steps - warmup)
        rates.append({"constant": lr, "linear": lr + (min_lr - lr) * f,
                      "cosine": min_lr + 0.5 * (lr - min_lr) * (1 + math.cos(math.pi * f))}[kind])
    return rates


def schedules(file):
    for kind in ("constant", "linear", "cosine"):
        for warmup in (0, 6):
            params = {"schedule": kind, "lr": 0.01, "min_lr": 0.001, "warmup": warmup, "steps": 24}
            file.case(f"schedule.{kind}.warmup{warmup}", "schedule", params, [("lr", np.asarray(schedule_rates(kind, 0.01, 0.001, warmup, 24)))])
    losses = [1.0, 0.9, 0.8, 0.81, 0.8, 0.79999, 0.85, 0.7, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
    w = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.01)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, threshold=1e-4, min_lr=0.001)
    rates = []
    for loss in losses:
        plateau.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    rules = torch.optim.lr_scheduler

    def rule(name, params, make, warmup=0):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.01)
        scheduler, rates = make(optimizer), []
        for _ in range(24):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        file.case(f"rule.{name}", "rule", {"schedule": name.split(".")[0], "lr": 0.01, **params}, [("lr", np.asarray(rates))])

    rule("step", {"every": 5, "factor": 0.3}, lambda o: rules.StepLR(o, 5, 0.3))
    rule("multi_step", {"first": 4, "second": 9, "factor": 0.5}, lambda o: rules.MultiStepLR(o, [4, 9], 0.5))
    rule("exponential", {"factor": 0.9}, lambda o: rules.ExponentialLR(o, 0.9))
    rule("one_cycle", {"steps": 25, "rise": 0.3}, lambda o: rules.OneCycleLR(o, 0.01, 25, pct_start=0.3))
    rule("one_cycle.late", {"steps": 25, "rise": 0.7}, lambda o: rules.OneCycleLR(o, 0.01, 25, pct_start=0.7))
    rule("cosine_restarts", {"cycle": 5, "growth": 1, "min_lr": 0.001}, lambda o: rules.CosineAnnealingWarmRestarts(o, 5, 1, 0.001))
    rule("cosine_restarts.growing", {"cycle": 3, "growth": 2, "min_lr": 0.0}, lambda o: rules.CosineAnnealingWarmRestarts(o, 3, 2))
    rule("lambda", {}, lambda o: rules.LambdaLR(o, lambda epoch: 0.95 ** epoch + 0.1))
    # lr for 16 updates, then linearly to 0.001 at update 24
    rule("wsd", {"steps": 24, "decay": 8, "min_lr": 0.001},
         lambda o: rules.SequentialLR(o, [rules.ConstantLR(o, 1.0), rules.LinearLR(o, 0.8875, 0.1, 7)], [16]))
    file.case("schedule.plateau", "plateau", {"lr": 0.01, "min_lr": 0.001, "factor": 0.5, "patience": 2, "threshold": 1e-4},
              [("loss", np.asarray(losses)), ("lr", np.asarray(rates))])


def write(file):
    def sgd(**more):
        return (lambda groups: torch.optim.SGD(groups, lr=0.05, **more)), {"lr": 0.05, "momentum": more.get("momentum", 0.0), "nesterov": more.get("nesterov", False)}

    def adam(kind, eps=1e-8):
        return (lambda groups: kind(groups, lr=0.01, betas=(0.9, 0.99), eps=eps)), {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "eps": eps}
    lion = (lambda groups: Lion(groups, 0.01, (0.9, 0.99))), {"lr": 0.01, "beta1": 0.9, "beta2": 0.99}
    run(file, "sgd.plain", "sgd", *sgd())
    run(file, "sgd.decay", "sgd", *sgd(), weight_decay=0.1)
    run(file, "sgd.momentum", "sgd", *sgd(momentum=0.9), weight_decay=0.1)
    run(file, "sgd.nesterov", "sgd", *sgd(momentum=0.9, nesterov=True), weight_decay=0.1)
    run(file, "adam.plain", "adam", *adam(torch.optim.Adam))
    run(file, "adam.decay", "adam", *adam(torch.optim.Adam), weight_decay=0.1)
    run(file, "adamw.decay", "adamw", *adam(torch.optim.AdamW), weight_decay=0.1)
    run(file, "adamw.large_eps", "adamw", *adam(torch.optim.AdamW, 0.1), weight_decay=0.1)
    run(file, "lion.plain", "lion", *lion)
    run(file, "lion.decay", "lion", *lion, weight_decay=0.1)
    run(file, "sgd.clip_norm", "sgd", *sgd(momentum=0.9), clip="norm", limit=3.5)
    run(file, "adamw.clip_norm", "adamw", *adam(torch.optim.AdamW, 0.1), weight_decay=0.1, clip="norm", limit=1.0)
    run(file, "sgd.clip_value", "sgd", *sgd(momentum=0.9), clip="value", limit=0.5)
    run(file, "sgd.clip_adaptive", "sgd", *sgd(), clip="adaptive", limit=0.8)
    run(file, "adamw.ema", "adamw", *adam(torch.optim.AdamW), weight_decay=0.1, ema=0.9)
    for name, more in (("plain", {}), ("momentum", {"momentum": 0.9}), ("centered", {"momentum": 0.9, "centered": True})):
        run(file, f"rmsprop.{name}", "rmsprop", lambda groups, more=more: torch.optim.RMSprop(groups, lr=0.01, alpha=0.9, **more),
            {"lr": 0.01, "alpha": 0.9, "momentum": more.get("momentum", 0.0), "centered": more.get("centered", False)}, weight_decay=0.1)
    run(file, "muon", "muon", MuonAndAdam, {"lr": 0.02}, weight_decay=0.1)
    schedules(file)
