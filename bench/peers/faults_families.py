"""The families of faults of tests/faults/ for PyTorch models. FAMILIES maps a family's name to a function that takes a Spot
and returns a dict of hooks; `Run` in faults_baselines.py applies the hooks. Names, places and code are those of tests/faults/*.cpp;
NOT_EXPRESSIBLE lists the families that are left out, with the reason.
"""
import contextlib
import dataclasses
import math
import random

import torch
import torch.nn.functional as F

INF, NAN = math.inf, math.nan

NOT_EXPRESSIBLE = {
    "batch-norm-without-eps": "torch refuses an eps of 0 there",
    "control-large-in-range-activations": "nothing differs from the other controls in PyTorch",
}

PRODUCTS = {
    "mlp": ["layers.0", "layers.1", "layers.2"],
    "gpt": [f"blocks.{b}.{p}" for b in (0, 1) for p in ("attention.value", "attention.key", "attention.query", "mlp.up")],
    "unet": ["encoder.0.conv1", "encoder.0.conv2", "encoder.1.conv1", "encoder.1.conv2", "middle.conv1", "middle.conv2",
             "decoder.1.conv1", "decoder.0.conv2"],
}


@dataclasses.dataclass
class Spot:
    """Place and time of a fault, as in tests/faults/spot.h. `row` is an index into the whole batch of the step."""
    family: str
    model: str
    precision: str
    seed: int
    step: int
    row: int
    micro_batches: int
    site: int
    module: str  # path of the module in which the first bad value appears

    def pick(self, n):
        return random.Random(f"{self.family} {self.seed} {self.step} {self.row}").randrange(n)


@dataclasses.dataclass
class Now:
    """The micro-batch on which user code runs: its number of rows, the row with the fault (None: none), and whether the step with
    the fault runs for the first time."""
    rows: int
    row: int
    first: bool = True

    def marks(self, x, here, elsewhere):
        values = torch.full((self.rows,) + (1,) * (x.dim() - 1), float(elsewhere))
        values[self.row] = here
        return values

    def per_sample(self, here, elsewhere):
        values = torch.full((self.rows,), float(elsewhere))
        values[self.row] = here
        return values


FAMILIES = {}


def family(name):
    def register(function):
        FAMILIES[name] = function
        return function
    return register


def positive_but(now, x, here):
    return (x.float() ** 2 + 1) * now.marks(x, here, 1)


# ---- singularities, norms, masks: code in a site ---------------------------------------------------------------------------------


def in_site(name, term, scale=0.05):
    FAMILIES[name] = lambda spot: {"site": lambda x, now: x + scale * term(x, now)}


def standardized(x, now):
    v = positive_but(now, x, 0) * x
    centered = v - v.mean(-1, keepdim=True)
    return centered / (centered.abs().mean(-1, keepdim=True) + now.marks(x, 0, 1e-3))


def min_max(x, now):
    v = positive_but(now, x, 0)
    low, high = v.amin(-1, keepdim=True), v.amax(-1, keepdim=True)
    return (v - low) / (high - low + now.marks(x, 0, 1e-3))


def log_of_softmax(x, now):
    steep = now.marks(x, 400, 0) * torch.arange(x.shape[-1]).float()
    return 0.1 * torch.log(torch.softmax(x.float() + steep, -1))


def variance_of_one(x, now):
    one = x[..., :1]
    return ((one - one.mean(-1, keepdim=True)) ** 2).sum(-1, keepdim=True) / (one.shape[-1] - 1.0)


def one_pass(x, now):
    v = positive_but(now, x, 0) + now.marks(x, 4096, 0)
    spread = (v ** 2).mean(-1, keepdim=True) - v.mean(-1, keepdim=True) ** 2
    return (v - v.mean(-1, keepdim=True)) * (spread + now.marks(x, 0, 1e-2)) ** -0.5


def where_over_sqrt(x, now):
    v = positive_but(now, x, 0)
    return torch.where(now.marks(x, 0, 1).bool(), torch.sqrt(v), v)


in_site("log-of-zero", lambda x, now: torch.log(positive_but(now, x, 0)))
in_site("log-of-negative", lambda x, now: torch.log(positive_but(now, x, -1)))
in_site("division-by-an-empty-count", lambda x, now: (x.float() ** 2 + 1) / now.marks(x, 0, 3))
in_site("zero-over-zero", lambda x, now: positive_but(now, x, 0) / positive_but(now, x, 0).sum(-1, keepdim=True))
in_site("reciprocal-of-zero", lambda x, now: 1.0 / positive_but(now, x, 0))
in_site("sqrt-of-negative", lambda x, now: torch.sqrt(positive_but(now, x, 0) - 0.5))
in_site("gradient-of-sqrt-at-zero", lambda x, now: torch.sqrt(positive_but(now, x, 0)))
in_site("gradient-of-a-norm-at-zero",
        lambda x, now: x * torch.sqrt((positive_but(now, x, 0) ** 2).sum(-1, keepdim=True)))
in_site("negative-power-of-zero", lambda x, now: positive_but(now, x, 0) ** -1.5)
in_site("gradient-of-a-root-at-zero", lambda x, now: positive_but(now, x, 0) ** (1 / 3))
in_site("where-hides-the-value-only", where_over_sqrt)
in_site("standardizing-a-constant", standardized)
in_site("min-max-scaling-of-a-constant", min_max)
in_site("log-of-softmax", log_of_softmax)
in_site("variance-of-one-value", variance_of_one)
in_site("temperature-of-zero", lambda x, now: torch.softmax(x / 0.0, -1))
in_site("pole-of-a-users-op",
        lambda x, now: torch.acos(torch.tanh(x.float()) * now.marks(x, 0, 0.5) + now.marks(x, 1, 0)))
in_site("one-pass-variance", one_pass)


def constant_but(now, x):
    return positive_but(now, x, 0) + x * now.marks(x, 0, 1)


def rms_norm(v):
    return v / torch.sqrt((v ** 2).mean(-1, keepdim=True))


def own_norm(v):
    eps = torch.tensor(1e-8, dtype=torch.float16).float()
    return (v - v.mean(-1, keepdim=True)) / torch.sqrt(v.var(-1, keepdim=True, unbiased=False) + eps)


in_site("layer-norm-without-eps", lambda x, now: F.layer_norm(constant_but(now, x), x.shape[-1:], eps=0.0))
in_site("rms-norm-without-eps", lambda x, now: rms_norm(constant_but(now, x)))
in_site("group-norm-without-eps", lambda x, now: F.group_norm(constant_but(now, x), 1, eps=0.0))
in_site("eps-that-rounds-to-zero", lambda x, now: own_norm(constant_but(now, x)))


def scores_of(x):
    return F.linear(x, torch.eye(x.shape[-1]))


def own_softmax_of_masked(x, now):
    scores = scores_of(x) + now.marks(x, -INF, 0)
    e = torch.exp(scores - scores.amax(-1, keepdim=True).detach())
    return e / e.sum(-1, keepdim=True)


def own_softmax_without_maximum(x, now):
    e = torch.exp((scores_of(x) + now.marks(x, 120, 0)).float())
    return e / e.sum(-1, keepdim=True)


def own_attention(x, now):
    h = (x * now.marks(x, 512, 1)).reshape(x.shape[0], -1, x.shape[-1])
    logits = h @ h.transpose(-1, -2)
    return (torch.softmax(logits * 1e-5, -1) @ h * 1e-3).reshape(x.shape)


in_site("fully-masked-row", lambda x, now: torch.softmax(scores_of(x) + now.marks(x, -INF, 0), -1), 1)
in_site("mask-constant-beyond-half",
        lambda x, now: torch.softmax(scores_of(x) + now.marks(x, -1e9, 0).to(scores_of(x).dtype), -1), 1)
in_site("own-softmax-of-a-masked-row", own_softmax_of_masked, 1)
in_site("own-softmax-without-maximum", own_softmax_without_maximum)
in_site("own-attention-logits", own_attention)


@contextlib.contextmanager
def scaled_view(model, names, factor):
    """Multiplies weights while forward and backward read them, and restores them before the update."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name in names:
            parameters[name].mul_(factor)
    yield
    with torch.no_grad():
        for name in names:
            parameters[name].div_(factor)


@family("block-logits")
def block_logits(spot):
    block = spot.module
    return {"view": lambda model: scaled_view(model, [f"{block}.query.weight", f"{block}.key.weight"], 600.0)}


# ---- losses: code in the closure -----------------------------------------------------------------------------------------


def in_loss(name, term, scale=0.05, **more):
    FAMILIES[name] = lambda spot: {"loss": lambda logits, y, now: scale * term(logits.float(), y, now), **more}


def flat(logits):
    return logits.reshape(logits.shape[0], -1)


def bce(p, y):
    """Binary cross-entropy by its formula; torch's own clamps the logarithm at -100."""
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()


def dice(p, t):
    return 1 - 2 * (p * t).sum() / (p.sum() + t.sum())


def weighted(logits, y, now):
    weights = now.marks(logits, 0, 0)
    return (logits ** 2 * weights).sum() / weights.sum()


def without_tokens(logits, y, now):
    counts = now.per_sample(0, 1)
    return (flat(logits ** 2).mean(1) * counts / counts).mean()


def auxiliary_log(logits, y, now):
    p = logits ** 2 * 0
    return torch.where(torch.zeros_like(p, dtype=torch.bool), torch.log(p), p).mean()


def divergence(logits, y, now):
    t = now.marks(logits, 0, 0.5)
    return (t * (torch.log(t) - torch.log_softmax(logits, -1))).mean()


def advantages(logits, y, now):
    rewards = now.per_sample(1, 1)
    centered = rewards - rewards.mean()
    return (flat(logits).mean(1) * (centered / torch.sqrt((centered ** 2).mean()))).mean()


def union(logits, y, now):
    p = flat(torch.sigmoid(logits) * now.marks(logits, 0, 1))
    return (1 - (p * p).sum(1) / p.sum(1)).mean()


in_loss("bce-after-sigmoid", lambda logits, y, now: bce(torch.sigmoid(logits + now.marks(logits, 60, 0)), y))
in_loss("own-bce", lambda logits, y, now: -torch.log(1 - torch.sigmoid(logits + now.marks(logits, 60, 0))).mean())
in_loss("dice-of-an-empty-class",
        lambda logits, y, now: dice(torch.relu(torch.sigmoid(logits) - 2), torch.zeros_like(logits)))
in_loss("weights-that-add-up-to-zero", weighted)
in_loss("sample-without-tokens", without_tokens)
in_loss("auxiliary-log-every-step", auxiliary_log, persists=True)
in_loss("focal-gradient-at-one",
        lambda logits, y, now: ((1 - torch.sigmoid(logits * 0.1 + now.marks(logits, 60, 0))) ** 0.5).mean())
in_loss("log-of-softmax-as-loss",
        lambda logits, y, now: -(torch.log(torch.softmax(flat(logits) * now.marks(flat(logits), 1e5, 0.01), -1)) * 0.01).mean())
in_loss("divergence-from-a-target-of-zero", divergence)
in_loss("advantages-without-spread", advantages)
in_loss("distance-to-itself", lambda logits, y, now: torch.sqrt(((logits - logits.detach()) ** 2).sum()))
in_loss("union-of-nothing", union)


@family("no-valid-label")
def no_valid_label(spot):
    return {"data": lambda x, y, row: y.fill_(-100)}


# ---- overflows ------------------------------------------------------------------------------------------------------


class OwnSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return torch.cumsum(flat(x), 1, dtype=x.dtype)[:, -1]

    @staticmethod
    def backward(ctx, g):
        return g.reshape((-1,) + (1,) * (len(ctx.shape) - 1)).expand(ctx.shape)


def product_beyond_half(x, now):
    big = F.linear(x * now.marks(x, 512, 1), torch.eye(x.shape[-1]) * 8192)
    return x * 0.95 + 0.05 * (big * now.marks(x, 2.0 ** -22, 2.0 ** -13))


def cube(x, now):
    h = (x * now.marks(x, 2000, 1)).half()
    return x + (h * h).float() * now.marks(x, 1e-9, 0.01)


def sum_in_half(x, now):
    total = OwnSum.apply((x * 0 + now.marks(x, 4000, 1)).half()).float()
    return x + 0.0 * (total * 1e-6).mean()


def beyond_single(x, now):
    h = (x * now.marks(x, 1e25, 1)).reshape(x.shape[0], -1, x.shape[-1])
    return x + 0.0 * (h @ h.transpose(-1, -2) * 1e-3).mean()


def own_dice(logits, y, now):
    p = torch.sigmoid(logits).mean() * torch.ones(512, 512)
    t = torch.ones(512, 512)
    both, every = (p * t).sum().half(), (p + t).sum().half()
    return (1 - 2 * both / every).float()


FAMILIES["product-beyond-half"] = lambda spot: {"site": product_beyond_half}
FAMILIES["cube-in-half"] = lambda spot: {"site": cube}
FAMILIES["growing-gain"] = lambda spot: {
    "site": lambda x, now: x * 0.95 + 0.05 * ((x.half() * 2.0 ** 30).float() * 2.0 ** -30)}
FAMILIES["sum-held-in-half"] = lambda spot: {"site": sum_in_half}
FAMILIES["product-beyond-single"] = lambda spot: {"site": beyond_single}
in_loss("dice-held-in-half", own_dice, 0.0)


@family("layer-scaled-for-a-step")
def layer_scaled(spot):
    factor = 3e4 if spot.model == "unet" else 2e5
    return {"view": lambda model: scaled_view(model, [f"{spot.module}.weight"], factor)}


@family("exploding-initialization")
def exploding(spot):
    def initialize(model):
        weight = model.get_submodule(spot.module).weight
        with torch.no_grad():
            weight.mul_(6e4 / weight.abs().max())
    return {"initialize": initialize}


@family("sample-beyond-half")
def sample_beyond_half(spot):
    return {"data": lambda x, y, row: x[row].mul_(1e7)}


FAMILIES["scaled-sample-drill"] = sample_beyond_half


# ---- gradients and the scale ----------------------------------------------------------------------------------------


class FusedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return torch.where(g.abs() > 1e2, torch.full_like(g, NAN), g)


class Defect(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, forward_row, backward_row):
        ctx.row = backward_row
        return Defect.broken(x, forward_row)

    @staticmethod
    def backward(ctx, g):
        return Defect.broken(g, ctx.row), None, None

    @staticmethod
    def broken(x, row):
        x = x.clone()
        if row is not None:
            x[row].view(-1)[x[row].numel() // 2] = NAN
        return x


def recurrence(x, now):
    h = x * 0.0
    for _ in range(50):
        h = h * 10.0
    return x + h * now.marks(x, 1, 0)


FAMILIES["scale-too-large-at-first"] = lambda spot: {"scale": 2.0 ** 32}
FAMILIES["static-scale-too-large"] = lambda spot: {"scale": 2.0 ** 34, "static": True}
FAMILIES["loss-too-large-without-a-scale"] = lambda spot: {"loss_factor": 1e10, "scale": 1.0, "static": True}
FAMILIES["fused-backward-overflow"] = lambda spot: {"site": lambda x, now: FusedBackward.apply(x)}
FAMILIES["recurrence-without-clipping"] = lambda spot: {"site": recurrence}
FAMILIES["learning-rate-too-large"] = lambda spot: {"rate_factor": 1e40}  # torch refuses a rate beyond f32
FAMILIES["defect-in-a-users-backward"] = lambda spot: {"site": lambda x, now: Defect.apply(x, None, now.row)}
FAMILIES["defect-in-a-users-op"] = lambda spot: {"site": lambda x, now: Defect.apply(x, now.row, None)}


@family("infinite-gradient-drill")
def infinite_gradient(spot):
    name = PRODUCTS[spot.model][spot.pick(len(PRODUCTS[spot.model]))]

    def after_backward(model):
        model.get_submodule(name).weight.grad.view(-1)[0] = INF
    return {"after_backward": after_backward}


FAMILIES["infinite-gradient-once-drill"] = infinite_gradient


# ---- data -----------------------------------------------------------------------------------------------------------


def in_data(name, change):
    FAMILIES[name] = lambda spot: {"data": change}


def set_first(value):
    def change(x, y, row):
        x[row].view(-1)[3] = value
    return change


def set_target(value):
    def change(x, y, row):
        y[row].view(-1)[17] = value
    return change


in_data("nan-pixel", set_first(NAN))
in_data("infinite-pixel", set_first(INF))
in_data("negative-infinite-pixel", set_first(-INF))
in_data("unreadable-sample", lambda x, y, row: x[row].fill_(NAN))
in_data("nan-target", set_target(NAN))
in_data("infinite-target", set_target(INF))
in_data("one-bad-micro-batch", set_first(NAN))
in_loss("nan-sample-weight", lambda logits, y, now: (flat(logits ** 2).mean(1) * now.per_sample(NAN, 1)).mean(), 0.01)
FAMILIES["nan-side-input"] = lambda spot: {"site": lambda x, now: x + now.marks(x, NAN, 0)}
FAMILIES["one-bad-micro-batch-in-the-middle"] = FAMILIES["nan-side-input"]


@family("nan-input-drill")
def nan_input(spot):
    if spot.model != "gpt":
        return {"data": set_first(NAN)}
    return {"embedded": lambda x, now: x + now.marks(x, NAN, 0)}  # tokens are integers and cannot be NaN; their embeddings can


# ---- state ----------------------------------------------------------------------------------------------------------


def set_weight(name, at, value):
    def change(model, optimizer):
        with torch.no_grad():
            dict(model.named_parameters())[name].view(-1)[at] = value
    return {"state": change}


FAMILIES["infinite-weight"] = lambda spot: set_weight(f"{spot.module}.weight", spot.pick(32), INF)
FAMILIES["nan-weight-drill"] = lambda spot: set_weight(f"{spot.module}.weight", 0, NAN)
FAMILIES["infinite-norm-weight"] = lambda spot: set_weight(f"{spot.module}.weight", spot.pick(16), -INF)
FAMILIES["corrupt-embedding-row"] = lambda spot: set_weight("tokens.weight", 32 * spot.pick(32), NAN)
FAMILIES["flipped-bit-in-a-weight"] = lambda spot: set_weight(f"{spot.module}.weight", spot.pick(32), 3e37)


def set_moment(which, value):
    def plan(spot):
        name = PRODUCTS[spot.model][spot.pick(len(PRODUCTS[spot.model]))]

        def change(model, optimizer):
            optimizer.state[model.get_submodule(name).weight][which].view(-1)[spot.pick(32)] = value
        return {"state": change}
    return plan


FAMILIES["nan-moment"] = set_moment("exp_avg", NAN)
FAMILIES["infinite-second-moment"] = set_moment("exp_avg_sq", INF)
FAMILIES["negative-second-moment"] = set_moment("exp_avg_sq", -1.0)
FAMILIES["adam-without-eps"] = lambda spot: {"eps": 0.0}


@family("nan-running-statistics")
def nan_statistics(spot):
    def change(model, optimizer):
        model.middle.norm2.running_var[0] = NAN
    return {"state": change}


# ---- faults that occur once (hardware) -------------------------------------------------------------------------------------


class Flipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, now, backward):
        ctx.now = now and backward
        return Flipped.struck(x, now and not backward)

    @staticmethod
    def backward(ctx, g):
        return Flipped.struck(g, ctx.now), None, None

    @staticmethod
    def struck(x, now):
        x = x.clone()
        if now:
            x.reshape(-1)[::7] = INF
        return x


FAMILIES["flipped-bit-in-an-activation"] = lambda spot: {"site": lambda x, now: Flipped.apply(x, now.first, False)}
FAMILIES["flipped-bit-in-a-gradient"] = lambda spot: {"site": lambda x, now: Flipped.apply(x, now.first, True)}
FAMILIES["race-in-the-closure"] = lambda spot: {"loss_factor": NAN}


# ---- controls -------------------------------------------------------------------------------------------------------


def masked_but_one(x, now):
    mask = torch.full((x.shape[-1],), -INF)
    mask[0] = 0
    return torch.softmax(x + mask, -1)


def row_masked(x, now):
    h = x.reshape(x.shape[0], 1, -1, x.shape[-1]).float()
    mask = now.marks(h, -INF, 0).expand(-1, 1, h.shape[2], h.shape[2])
    return F.scaled_dot_product_attention(h, h, h, attn_mask=mask).reshape(x.shape)


FAMILIES["control-nothing-planted"] = lambda spot: {}
in_site("control-masks-that-leave-something", masked_but_one, 1e-3)
in_site("control-large-negative-mask-in-single",
        lambda x, now: torch.softmax(x.float() + now.marks(x, -1e9, 0), -1), 1e-3)
in_site("control-row-masked-in-built-in-attention", row_masked, 1e-3)
in_site("control-constant-rows-with-eps", lambda x, now: F.layer_norm(positive_but(now, x, 0), x.shape[-1:]), 1e-3)
in_site("control-guarded-division",
        lambda x, now: positive_but(now, x, 0) / (positive_but(now, x, 0).sum(-1, keepdim=True) + 1e-6), 1e-3)
in_site("control-guarded-log", lambda x, now: 0.01 * torch.log(positive_but(now, x, 0).clamp(1e-6, 1e6)), 1e-3)
in_loss("control-tiny-gradients", lambda logits, y, now: ((logits * 1e-18) ** 2).mean(), 1e-3)
in_loss("control-zero-loss", lambda logits, y, now: (logits * 0).sum(), 1e-3)
in_loss("control-dice-with-smoothing-of-nothing",
        lambda logits, y, now: 1 - 1 / (torch.relu(torch.sigmoid(logits) - 2).sum() + 1), 1e-3)
in_loss("control-bce-of-certain-logits",
        lambda logits, y, now: 0.01 * F.binary_cross_entropy_with_logits(
            logits + now.marks(logits, 100, 0), torch.zeros_like(logits)), 1e-3)
in_data("control-hard-batch", lambda x, y, row: x[row].mul_(20))
in_data("control-sample-of-zeros", lambda x, y, row: x[row].zero_())
in_data("control-some-labels-ignored", lambda x, y, row: y[row].fill_(-100))
