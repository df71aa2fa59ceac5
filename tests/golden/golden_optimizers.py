"""Twenty steps of further optimizers on given gradients, five calls of L-BFGS, and schedules, in double.

Parameters: w (3, 4) and f (2, 3, 2, 2), which decay, and b (5), which does not. The case `inputs` has init.P and grad.K.P
(step K from 1); every other case has after.K.P for K in STEPS, and average.K.P where the optimizer averages weights.

torch.optim     adadelta adagrad adamax nadam radam rmsprop rprop asgd adafactor, adam and adamw with amsgrad
muon            torch.optim.Muon for w, with the iterations of Newton and Schulz in double, torch.optim.AdamW for b and f
schedulefree    AdamWScheduleFree of the package of its authors; average: its weights in evaluation
lamb, lars      the formulas of the papers (optim/lamb.h), below
lbfgs           loss = mean (tanh(x w^T + c) - y)^2 / 2 of given x and y; after.K.P after call K
schedules       the rates that torch.optim.lr_scheduler has before each of 24 steps; the inverse square root by its formula
"""
import numpy as np
import schedulefree
import torch
import torch.optim._muon

from golden_ops import draw

STEPS = (1, 2, 5, 10, 20)
SHAPES = {"w": (3, 4), "f": (2, 3, 2, 2), "b": (5,)}


def orthogonal_in_double(grad, coefficients, steps, eps):
    a, b, c = coefficients
    x = grad.T if grad.shape[0] > grad.shape[1] else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.shape[0] > grad.shape[1] else x


torch.optim._muon._zeropower_via_newtonschulz = orthogonal_in_double


class Lamb(torch.optim.Optimizer):
    def __init__(self, groups, lr, betas, eps):
        super().__init__(groups, dict(lr=lr, betas=betas, eps=eps, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                s = self.state[p]
                s["t"] = s.get("t", 0) + 1
                s["m"] = b1 * s.get("m", 0) + (1 - b1) * p.grad
                s["v"] = b2 * s.get("v", 0) + (1 - b2) * p.grad ** 2
                r = s["m"] / (1 - b1 ** s["t"]) / ((s["v"] / (1 - b2 ** s["t"])).sqrt() + group["eps"]) + group["weight_decay"] * p
                p -= group["lr"] * p.norm() / r.norm() * r


class Lars(torch.optim.Optimizer):
    def __init__(self, groups, lr, momentum, trust):
        super().__init__(groups, dict(lr=lr, momentum=momentum, trust=trust, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                s, decay = self.state[p], group["weight_decay"]
                ratio = group["trust"] * p.norm() / (p.grad.norm() + decay * p.norm()) if p.dim() > 1 else 1.0
                s["m"] = group["momentum"] * s.get("m", 0) + group["lr"] * ratio * (p.grad + decay * p)
                p -= s["m"]


class MuonAndAdamW:
    def __init__(self, groups, lr, adamw_lr, **more):
        w, f, b = groups[0]["params"] + groups[1]["params"]
        decay = groups[0]["weight_decay"]
        self.parts = [torch.optim.Muon([w], lr=lr, weight_decay=decay, **more),
                      torch.optim.AdamW([{"params": [f], "weight_decay": decay}, {"params": [b], "weight_decay": 0.0}], lr=adamw_lr, betas=(0.9, 0.95))]

    def step(self):
        for part in self.parts:
            part.step()


def parameters():
    return {k: torch.from_numpy(draw(f"optim.{k}", s)).double().requires_grad_() for k, s in SHAPES.items()}


def gradient(step, name):
    return draw(f"optim.grad.{step}.{name}", SHAPES[name], digits=3)


def run(file, name, op, make, weight_decay=0.1, grouped=True, **params):
    p = parameters()
    groups = [{"params": [p["w"], p["f"]]}, {"params": [p["b"]]}]
    if grouped:
        groups[0]["weight_decay"], groups[1]["weight_decay"] = weight_decay, 0.0
    optimizer = make(groups)
    roles = []
    if hasattr(optimizer, "train"):
        optimizer.train()
    for step in range(1, 21):
        for k, v in p.items():
            v.grad = torch.from_numpy(gradient(step, k)).double()
        optimizer.step()
        if step not in STEPS:
            continue
        roles += [(f"after.{step}.{k}", v.detach().numpy().copy()) for k, v in p.items()]
        if op == "schedule_free":
            optimizer.eval()
            roles += [(f"average.{step}.{k}", v.detach().numpy().copy()) for k, v in p.items()]
            optimizer.train()
        if op == "asgd":
            roles += [(f"average.{step}.{k}", optimizer.state[v]["ax"].detach().numpy().copy()) for k, v in p.items()]
    file.case(name, op, {"weight_decay": weight_decay, **params}, roles)


def lbfgs(file, name, **params):
    x, y = draw("lbfgs.x", (8, 4)), draw("lbfgs.y", (8, 3), low=-0.9, high=0.9)
    w, c = (torch.from_numpy(draw(f"lbfgs.{k}", s)).double().requires_grad_() for k, s in (("w", (3, 4)), ("c", (3,))))
    roles = [("in.x", x), ("in.y", y), ("init.w", w.detach().numpy().astype(np.float32)), ("init.c", c.detach().numpy().astype(np.float32))]
    torch_params = {k: v for k, v in params.items() if k != "strong_wolfe"}
    optimizer = torch.optim.LBFGS([w, c], line_search_fn="strong_wolfe" if params["strong_wolfe"] else None, **torch_params)

    def closure():
        optimizer.zero_grad()
        loss = ((torch.tanh(torch.from_numpy(x).double() @ w.T + c) - torch.from_numpy(y).double()) ** 2).mean() / 2
        loss.backward()
        return loss

    for call in range(1, 6):
        loss = optimizer.step(closure)
        roles += [(f"loss.{call}", np.asarray(loss.item())), (f"after.{call}.w", w.detach().numpy().copy()), (f"after.{call}.c", c.detach().numpy().copy())]
    file.case(name, "lbfgs", params, roles)


def schedules(file):
    rules = torch.optim.lr_scheduler

    def rule(name, make):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.01)
        scheduler, rates = make(optimizer), []
        for _ in range(24):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        file.case(f"rule.{name}", "rule", {}, [("lr", np.asarray(rates))])

    rule("polynomial", lambda o: rules.PolynomialLR(o, 20, 1.5))
    rule("constant_then", lambda o: rules.ConstantLR(o, 0.25, 6))
    rule("ramp", lambda o: rules.LinearLR(o, 0.2, 0.7, 9))
    rule("multiplicative", lambda o: rules.MultiplicativeLR(o, lambda epoch: 0.9 if epoch % 3 else 0.8))
    rule("cyclic.triangular", lambda o: rules.CyclicLR(o, 0.001, 0.01, 4, 3, mode="triangular", cycle_momentum=False))
    rule("cyclic.triangular2", lambda o: rules.CyclicLR(o, 0.001, 0.01, 4, mode="triangular2", cycle_momentum=False))
    rule("cyclic.exp_range", lambda o: rules.CyclicLR(o, 0.001, 0.01, 5, mode="exp_range", gamma=0.9, cycle_momentum=False))
    rule("sequential", lambda o: rules.SequentialLR(o, [rules.LinearLR(o, 0.1, 1.0, 5), rules.ExponentialLR(o, 0.9), rules.ConstantLR(o, 0.5, 4)], [5, 15]))
    rule("chained", lambda o: rules.ChainedScheduler([rules.ConstantLR(o, 0.5, 8), rules.ExponentialLR(o, 0.9)]))
    k = np.arange(1, 25)
    file.case("rule.inverse_sqrt", "rule", {}, [("lr", 0.01 * np.minimum(k / 6, np.sqrt(6 / k)))])


def write(file):
    o = torch.optim
    file.case("inputs", "inputs", {}, [(f"init.{k}", draw(f"optim.{k}", s)) for k, s in SHAPES.items()]
              + [(f"grad.{step}.{k}", gradient(step, k)) for step in range(1, 21) for k in SHAPES])
    run(file, "adadelta", "adadelta", lambda g: o.Adadelta(g, lr=0.7, rho=0.8, eps=1e-5))
    run(file, "adagrad", "adagrad", lambda g: o.Adagrad(g, lr=0.05, lr_decay=0.1, initial_accumulator_value=0.2, eps=1e-8))
    run(file, "adagrad.maximize", "adagrad_maximize", lambda g: o.Adagrad(g, lr=0.05, maximize=True))
    run(file, "adam.amsgrad", "adam_amsgrad", lambda g: o.Adam(g, lr=0.01, betas=(0.9, 0.7), amsgrad=True))
    run(file, "adamw.amsgrad", "adamw_amsgrad", lambda g: o.AdamW(g, lr=0.01, betas=(0.9, 0.7), amsgrad=True, maximize=True))
    run(file, "adamax", "adamax", lambda g: o.Adamax(g, lr=0.01, betas=(0.9, 0.95)))
    run(file, "nadam", "nadam", lambda g: o.NAdam(g, lr=0.01, betas=(0.9, 0.98), momentum_decay=0.01))
    run(file, "nadam.decoupled", "nadam_decoupled", lambda g: o.NAdam(g, lr=0.01, decoupled_weight_decay=True))
    run(file, "radam", "radam", lambda g: o.RAdam(g, lr=0.01, betas=(0.9, 0.98)))
    run(file, "radam.decoupled", "radam_decoupled", lambda g: o.RAdam(g, lr=0.01, decoupled_weight_decay=True))
    for momentum in (0.0, 0.9):
        for centered in (False, True):
            run(file, f"rmsprop.{momentum}.{centered}", "rmsprop", lambda g: o.RMSprop(g, lr=0.01, alpha=0.9, eps=1e-3, momentum=momentum, centered=centered),
                momentum=momentum, centered=centered)
    run(file, "rprop", "rprop", lambda g: o.Rprop(g, lr=0.02, etas=(0.6, 1.3), step_sizes=(1e-3, 0.05)), grouped=False)
    run(file, "asgd", "asgd", lambda g: o.ASGD(g, lr=0.05, lambd=0.02, alpha=0.6, t0=6))
    run(file, "adafactor", "adafactor", lambda g: o.Adafactor(g, lr=0.05, eps=(1e-7, 1e-3), d=1.0))
    run(file, "adafactor.d", "adafactor_d", lambda g: o.Adafactor(g, lr=0.3, beta2_decay=-0.5, eps=(1e-7, 0.5), d=1.2), weight_decay=0.0)
    run(file, "muon", "muon", lambda g: MuonAndAdamW(g, 0.02, 0.005))
    run(file, "muon.like_adamw", "muon_like_adamw", lambda g: MuonAndAdamW(g, 0.01, 0.005, momentum=0.8, nesterov=False, adjust_lr_fn="match_rms_adamw"))
    run(file, "schedule_free", "schedule_free", lambda g: schedulefree.AdamWScheduleFree(g, lr=0.02, betas=(0.85, 0.98), warmup_steps=5))
    run(file, "schedule_free.r", "schedule_free_r", lambda g: schedulefree.AdamWScheduleFree(g, lr=0.02, r=1.5, weight_lr_power=1.0), weight_decay=0.0)
    run(file, "lamb", "lamb", lambda g: Lamb(g, 0.02, (0.9, 0.98), 1e-6))
    run(file, "lars", "lars", lambda g: Lars(g, 0.5, 0.9, 0.02))
    lbfgs(file, "lbfgs", strong_wolfe=False, lr=0.05, max_iter=4, history_size=4)
    lbfgs(file, "lbfgs.wolfe", strong_wolfe=True, lr=1.0, max_iter=5, history_size=10)
    schedules(file)
