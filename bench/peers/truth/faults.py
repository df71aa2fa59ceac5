"""The faults of tests/truth/faults, written as a user of PyTorch would write them.

A fault edits the table of samples, the state, or the program (session.py); `plant` returns the true answer. Ops have
the names of Binade's test; judge.py says which names of PyTorch mean the same.
"""
import math
import struct
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

ALL_PRECISIONS = ("fp32", "bf16", "fp16")
INF = math.inf


@dataclass
class Truth:
    proof: str                                   # singular, overflow, rounded, input, refused, mask, state, scale
    ops: tuple = ()                              # names of the first bad op; empty: the op that observe() finds
    modules: tuple = ()                          # acceptable paths; empty: the path that observe() finds
    state_path: str = ""
    ids: list = field(default_factory=list)      # numbers of the samples that cause the fault; empty: none does alone
    classes: tuple = ()
    recovers: bool = True
    must_fail: bool = True


@dataclass
class Fault:
    family: str
    name: str
    plant: object                               # (session, ids of the batch, choices) -> Truth
    precisions: tuple = ALL_PRECISIONS
    fits: object = lambda task: True             # whether the fault can occur in a task, given the task's class
    configure: object = lambda options, draw: None
    prepare: object = lambda session: None
    from_the_start: bool = False


@dataclass
class Silent:
    name: str
    proof: str                                   # swallowed, no gradient, update
    precisions: tuple = ALL_PRECISIONS
    fits: object = lambda task: True
    configure: object = lambda options, draw: None
    prepare: object = lambda session: None


def some_ids(ids, draw):
    """One sample of the batch, or two with probability 0.15."""
    chosen = {draw.choice(ids)}
    if draw.random() < 0.15:
        chosen.add(draw.choice(ids))
    return sorted(chosen)


def magnitude(draw, low, high):
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def mean(x):
    return x.mean(-1, keepdim=True)


def total(x):
    return x.sum(-1, keepdim=True)


def spread(h):
    return h - mean(h)


def energy(h, g):
    """A value that is 0 only if the gate g is 0."""
    return total(((h.abs() + 0.1) * g) ** 2)


def varied(h):
    """h plus a ramp: not constant along the channels even if a ReLU set all of them to 0."""
    return h + 0.37 * torch.arange(1, h.shape[-1] + 1, dtype=h.dtype)


def low(g, h):
    """The gate in the dtype of the activation h; users cast like this to keep a product in 16 bits."""
    return g.to(h.dtype)


def share(h, g):
    """Values between 0 and 1; 1 where the gate g is 0."""
    return torch.exp((mean(h.abs()) + 0.5) * g * -1.0).to(h.dtype)


def tapped(family, name, code, bad, ops, classes, proof="singular", precisions=ALL_PRECISIONS, in_loss=True,
           fits=lambda task: True):
    """Returns a fault inside the model and, if `in_loss`, the same fault in the loss."""
    faults = []
    for outside in (False, True) if in_loss else (False,):
        def prepare(session, outside=outside):
            (session.task.outer if outside else session.task.inner).code = code

        def plant(session, ids, draw, outside=outside):
            truth = Truth(proof, ops, ids=some_ids(ids, draw), classes=classes)
            if outside:
                truth.modules = ("",)
                if proof != "overflow":
                    truth.classes += ("loss-function-pole",)
            else:
                truth.modules = (session.task.inner_path,)
            session.table["gate"][truth.ids] = draw.choice(bad)
            return truth
        faults.append(Fault(family, name + (" in the loss" if outside else ""), plant, precisions, fits,
                            prepare=prepare))
    return faults


POLE = ("arithmetic-pole",)


def singularities():
    def add(name, code, bad, ops, in_loss=True):
        return tapped("singularity", name, code, bad, ops, POLE, in_loss=in_loss)

    def geometric(h, g):
        return h * torch.exp(mean(torch.log((h.abs() + 0.1) * g)))

    def unit(h, g):
        x = (h.abs() + 0.1) * g
        return h + x / torch.sqrt(total(x ** 2))

    def score(h, g):
        d = spread(varied(h) * g)
        return h + d / torch.sqrt(mean(d ** 2))

    def logit(h, g):
        p = g * 0.25
        return h + torch.log(p / (1 - p)) * 0.1

    def entropy(h, g):
        p = torch.softmax(spread(varied(h)) * g, -1)
        return h + total(p * torch.log(p)) * 0.1

    def lonely(session, ids, draw):
        truth = Truth("singular", ("div",), ("net.conv1",), ids=some_ids(ids, draw), classes=POLE)
        session.table["edges"][truth.ids, draw.randrange(6)] = 0
        return truth

    return [
        *add("divided by a length of 0", lambda h, g: h / g, [0], ("div",)),
        *add("times 1 / a distance of 0", lambda h, g: h * (1.0 / g), [0], ("scalar_div",)),
        *add("log of a count of 0", lambda h, g: h + torch.log(g) * 0.1, [0], ("log",)),
        *add("log of a negative number", lambda h, g: h * torch.log(g + 0.5), [-1, -3], ("log",)),
        *add("root of a negative number", lambda h, g: h * torch.sqrt(g), [-1, -0.01], ("sqrt",)),
        *add("power 1.5 of a negative number", lambda h, g: h * g ** 1.5, [-2, -0.1], ("pow",)),
        *add("inverse square root of 0", lambda h, g: h * (energy(h, g) * 0.2) ** -0.5, [0], ("pow",), False),
        *add("derivative of a norm at 0", lambda h, g: h / (1 + torch.sqrt(energy(h, g))), [0], ("sqrt",)),
        *add("derivative of pow 0.5 at 0", lambda h, g: h / (1 + energy(h, g) ** 0.5), [0], ("pow",)),
        *add("unit vector of a zero vector", unit, [0], ("div", "sqrt"), False),
        *add("p log p at 0", lambda h, g: h + g * torch.log(g) * 0.1, [0], ("log",)),
        *add("relative error with a target of 0", lambda h, g: (h - g) / g, [0], ("div",)),
        *add("geometric mean with a factor of 0", geometric, [0], ("log",)),
        *add("harmonic mean with a 0", lambda h, g: h * (1.0 / (1.0 / ((h.abs() + 0.1) * g) + 1.0)), [0],
             ("scalar_div",)),
        *add("standard score without eps", score, [0], ("div", "sqrt"), False),
        *add("logit of 1", logit, [4], ("div",)),
        *add("log of 1 - p", lambda h, g: h + torch.log(1 - g * 0.25) * 0.1, [4], ("log",)),
        *add("entropy of a one-hot softmax", entropy, [1e6, 3e7], ("log",), False),
        Fault("singularity", "node without neighbors", lonely, fits=lambda task: task.name == "graph"),
    ]


def rounded_constants():
    def add(name, code, op, precisions=("fp16",)):
        return tapped("rounded constant", name, code, [0], (op,), POLE + ("round", "constant"), "rounded", precisions)

    def variance(h, g):
        x = (h.abs() + 0.1) * low(g, h)
        return h + (x * x).to(h.dtype) / (mean(x * x).to(h.dtype) + 1e-8) * 0.1

    def clamped_log(h, g):
        return h - torch.log(1.0 - share(h, g).clamp(1e-3, 1 - 1e-4)) * 0.1

    both = ("fp16", "bf16")
    return [
        *add("eps of 1e-8 beside a variance of 0", variance, "div"),
        *add("eps of 1e-9 in a log", lambda h, g: h + torch.log(low(g, h) * 0.5 + 1e-9) * 0.1, "log"),
        *add("eps of 1e-12 in a quotient", lambda h, g: h / (low(g, h) + 1e-12), "div"),
        *add("clamp to 1 - 1e-4 before a log", clamped_log, "log", both),
        *add("clamp to 1 - 1e-6 before a quotient",
             lambda h, g: h + 0.01 / (1.0 - share(h, g).clamp(0.0, 1 - 1e-6)), "scalar_div", both),
        *add("eps of 1e-3 beside 1", lambda h, g: h - torch.log((share(h, g) - 1e-3) * -1.0 + 1.0) * 0.1, "log",
             ("bf16",)),
    ]


def overflows():
    half, sums = ("activation-overflow",), ("activation-overflow", "reduction-overflow")
    wide = sums + ("bad-input", "overflow")
    attends = lambda task: task.name == "encoder-decoder"  # noqa: E731

    def add(name, code, bad, ops, classes=half, precisions=("fp16",), **more):
        return tapped("overflow", name, code, bad, ops, classes, "overflow", precisions, **more)

    def damped(h, x):
        return h * (0.1 * torch.log(1.0 + x))

    def square(h, g):
        x = (h + 1.0) * low(g, h)
        return damped(h, mean(x * x))

    def summed(h, g):
        x = (h.abs().clamp(0, 1) + 1.0) * low(g, h)
        return damped(h, x @ torch.ones(h.shape[-1], 1, dtype=h.dtype))

    def exponential(h, g):
        return torch.exp((mean(torch.tanh(h).abs()) + 1.0) * g)

    def raw(session, ids, draw):
        truth = Truth("overflow", ids=[draw.choice(ids)],
                      classes=("activation-overflow", "bad-input", "attention-logit-overflow", "reduction-overflow"))
        session.table[session.task.input][truth.ids] *= magnitude(draw, 3e5, 3e6)
        return truth

    def outlier(session, ids, draw):
        truth = Truth("overflow", ids=[draw.choice(ids)], classes=wide + ("gradient-explosion",))
        session.table[session.task.target][truth.ids] = magnitude(draw, 1e24, 1e30)
        return truth

    return [
        *add("square in fp16", square, [3e3, 1e4, 3e4], ("mul",)),
        *add("sum by a product with ones", summed, [2.5e4, 3e4], ("matmul",), sums, in_loss=False,
             fits=lambda task: not attends(task)),
        *add("exponential stored in fp16", lambda h, g: damped(h, exponential(h, g).to(h.dtype)), [12, 20], ("cast",)),
        *add("a constant factor in fp16", lambda h, g: damped(h, (low(g, h) * 500.0).abs()), [200, 3e3],
             ("mul_scalar",)),
        *add("quotient beyond fp16", lambda h, g: damped(h, 1.0 / low(g, h) * 3.0 / (low(g, h) + 0.01)), [1e-3],
             ("div", "div_scalar", "mul_scalar")),
        *add("exponential beyond f32", lambda h, g: damped(h, exponential(h, g)), [95, 300], ("exp",), wide,
             ALL_PRECISIONS),
        *add("fourth power beyond f32", lambda h, g: damped(h, g ** 4), [1e11, 1e15], ("pow",), wide, ALL_PRECISIONS),
        *add("attention logits in fp16", lambda h, g: h * low(g, h), [2e4, 3e4], ("matmul",),
             ("attention-logit-overflow",), in_loss=False, fits=attends),
        Fault("overflow", "a sample that was not normalized", raw, ("fp16",), lambda task: task.input),
        Fault("overflow", "an outlier of 1e25", outlier, fits=lambda task: task.target),
    ]


def masks():
    def hidden(session, ids, draw, query=None):
        truth = Truth("mask", ("softmax",), ids=some_ids(ids, draw), classes=("fully-masked-row",))
        mask = session.table["mask"]
        if query is None:
            mask[truth.ids] = -INF
        else:
            mask[truth.ids, :, query] = -INF
        return truth

    def row(session, ids, draw):
        return hidden(session, ids, draw, draw.randrange(session.task.length))

    def pooled(h, g):
        return h + h * torch.softmax(h + torch.log(g.clamp(max=1.0)), -1)

    def pool(session, ids, draw):
        truth = Truth("mask", ("softmax", "log"), (session.task.inner_path,), ids=some_ids(ids, draw),
                      classes=("fully-masked-row", "arithmetic-pole"))
        session.table["gate"][truth.ids] = 0
        return truth

    return [
        Fault("mask", "a sample that is all padding", hidden, fits=lambda task: task.mask),
        Fault("mask", "one query that sees no key", row, fits=lambda task: task.name == "gpt"),
        Fault("mask", "attention pooling over nothing", pool,
              prepare=lambda session: setattr(session.task.inner, "code", pooled)),
    ]


def bad_samples():
    def number(name, where, values, whole):
        def plant(session, ids, draw):
            truth = Truth("input", ids=some_ids(ids, draw), classes=("bad-input",))
            value, at = draw.choice(values), draw.random()
            rows = session.table[getattr(session.task, where)].flatten(1)
            rows[truth.ids, slice(None) if whole else int(at * rows.shape[1])] = value
            return truth
        return Fault("bad sample", name, plant, fits=lambda task: getattr(task, where))

    def index(name, where, count):
        def plant(session, ids, draw):
            truth = Truth("refused", ids=[draw.choice(ids)], classes=("bad-input",))
            legal = getattr(session.task, count)
            value = legal + draw.randrange(3) if draw.random() < 0.5 else -1 - draw.randrange(3)
            rows = session.table[getattr(session.task, where)].view(len(session.table["gate"]), -1)
            rows[truth.ids, draw.randrange(rows.shape[1])] = value
            return truth
        return Fault("bad sample", name, plant, fits=lambda task: getattr(task, where))

    return [number("one NaN in an input", "input", [math.nan], False),
            number("one infinity in an input", "input", [INF, -INF], False),
            number("an input that is all NaN", "input", [math.nan], True),
            number("NaN in a target", "target", [math.nan, INF], False),
            index("label out of range", "labels", "classes"),
            index("token out of range", "tokens", "rows")]


def norms():
    classes = ("normalisation-pole", "normalization")

    def layer(h, g):
        return h + F.layer_norm(varied(h) * g, h.shape[-1:], eps=0.0) * 0.1

    def rms(h, g):
        return h + F.rms_norm((h.abs() + 0.1) * g, h.shape[-1:], eps=0.0) * 0.1

    def add(name, code, op):
        return tapped("normalization", name, code, [0], (op,), classes, in_loss=False)

    return [*add("layer norm of a constant row", layer, "layer_norm"), *add("RMS norm of a zero row", rms, "rms_norm")]


def states():
    corrupted = ("corrupted-state",)

    def poison(tensor, draw):
        with torch.no_grad():
            tensor.view(-1)[draw.randrange(tensor.numel())] = draw.choice([math.nan, INF])

    def parameter(frozen):
        def plant(session, ids, draw):
            names = [n for n, p in session.task.net.named_parameters() if not frozen or not p.requires_grad]
            path = draw.choice(names)
            poison(session.task.net.get_parameter(path).data, draw)
            return Truth("state", state_path="net." + path, classes=corrupted, must_fail=False)
        return plant

    def buffer(session, ids, draw):
        path = draw.choice([n for n, b in session.task.net.named_buffers() if b.is_floating_point()])
        poison(session.task.net.get_buffer(path), draw)
        return Truth("state", state_path="net." + path, classes=corrupted, must_fail=False)

    def average(session, ids, draw):
        path = draw.choice([n for n, _ in session.task.net.named_parameters()])
        poison(session.ema.module.get_parameter(path).data, draw)
        return Truth("state", state_path="net." + path, classes=corrupted, must_fail=False)

    def teacher(session, ids, draw):
        path = draw.choice([n for n, _ in session.task.outside.named_parameters()])
        values = session.task.outside.get_parameter(path).data
        values.view(-1)[draw.randrange(values.numel())] = math.nan
        return Truth("state", state_path="outside." + path, classes=corrupted, recovers=False)

    def bitflip(session, ids, draw):
        path = draw.choice([n for n, _ in session.task.net.named_parameters()])
        values = session.task.net.get_parameter(path).data.view(-1)
        at = draw.randrange(values.numel())
        bits = struct.unpack("I", struct.pack("f", values[at].item()))[0] | 0x40000000
        values[at] = struct.unpack("f", struct.pack("I", bits))[0]
        return Truth("state", state_path="net." + path,
                     classes=corrupted + ("activation-overflow", "gradient-explosion", "attention-logit-overflow",
                                          "normalisation-pole"))

    return [
        Fault("state", "NaN in a trained parameter", parameter(False)),
        Fault("state", "NaN in a frozen parameter", parameter(True),
              configure=lambda options, draw: options.update(frozen=True)),
        Fault("state", "NaN in a buffer", buffer, fits=lambda task: task.name in ("mlp", "resnet")),
        Fault("state", "NaN in an averaged weight", average, configure=lambda options, draw: options.update(ema=True)),
        Fault("state", "NaN in a network outside of the model", teacher,
              fits=lambda task: task.name in ("distill", "dqn")),
        Fault("state", "top exponent bit of a weight flipped", bitflip),
    ]


def updates():
    too_large = ("activation-overflow", "gradient-explosion", "attention-logit-overflow", "reduction-overflow",
                 "corrupted-state")

    def jump(session, ids, draw):
        seed = torch.Generator().manual_seed(draw.getrandbits(63))
        for p in session.task.net.parameters():
            sign = 1 - 2 * torch.randint(2, p.shape, generator=seed)
            p.data += sign * (3000 + 7000 * torch.rand(p.shape, generator=seed))
        return Truth("overflow", classes=too_large)

    def recurrent(session, ids, draw):
        half = session.options["precision"] == "fp16"
        session.task.net.cell.wh.data *= magnitude(draw, 20, 200) if half else magnitude(draw, 3e5, 1e6)
        return Truth("overflow", classes=too_large)

    def scale(session, ids, draw):
        return Truth("scale", classes=("loss-scale-overflow",))

    return [
        Fault("update", "weights after a step with a learning rate 10,000 times too high", jump, ("fp16",)),
        Fault("update", "recurrent product that explodes", recurrent, fits=lambda task: task.name == "rnn",
              configure=lambda options, draw: options.update(linear=True)),
        Fault("update", "fixed loss scale that is too high", scale, ("fp16",), from_the_start=True,
              configure=lambda options, draw: options.update(fixed_scale=2.0 ** (28 + draw.randrange(10)))),
    ]


def own(name, value, derivative, full=True):
    """Returns a user-defined op. It computes in f32 (in f64 for f64), and stores its gradient, and its value unless `full`, in the dtype of x."""
    def wide(x):
        return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value(wide(x)).to(wide(x).dtype if full else x.dtype)

    def backward(ctx, gy):
        (x,) = ctx.saved_tensors
        return (gy * derivative(wide(x))).to(x.dtype)

    return type(name, (torch.autograd.Function,),
                {"forward": staticmethod(forward), "backward": staticmethod(backward)})


Arccosine = own("Arccosine", torch.acos, lambda x: -1 / torch.sqrt(1 - x * x))
XLogX = own("XLogX", lambda x: x * torch.log(x), lambda x: torch.log(x) + 1)
InverseSoftplus = own("InverseSoftplus", lambda x: torch.log(torch.expm1(x)), lambda x: 1 / -torch.expm1(-x))
Cube = own("Cube", lambda x: x * x * x, lambda x: 3 * x * x, full=False)
Hyperbola = own("Hyperbola", lambda x: 1 / (x - 0.125), lambda x: -1 / (x - 0.125) ** 2)


def user_ops():
    def add(name, code, bad, op, classes=POLE, **more):
        return tapped("user op", name, code, bad, (op,), classes, **more)

    def angle(h, g):
        power = total(h ** 2) + 0.1
        return h + Arccosine.apply(power / (power + g)) * 0.1

    def cube(h, g):
        return h * (0.1 * torch.log(1.0 + Cube.apply(low(g, h)).abs()))

    return [
        *add("angle between equal vectors", angle, [0], "arccosine"),
        *add("arccosine beyond 1", lambda h, g: h + Arccosine.apply(g * 0.45) * 0.1, [2.5, -4], "arccosine"),
        *add("x log x at 0", lambda h, g: h + XLogX.apply(g) * 0.1, [0], "x_log_x"),
        *add("inverse softplus at 0", lambda h, g: h + InverseSoftplus.apply(g) * 0.1, [0], "softplus_inverse"),
        *add("quotient with a hidden singularity", lambda h, g: h * Hyperbola.apply(g) * 0.2, [0.125], "tail"),
        *add("cube in fp16", cube, [60, 1000], "cube", ("activation-overflow",), proof="overflow",
             precisions=("fp16",)),
    ]


def silent_defects():
    def coded(name, proof, code, precisions=ALL_PRECISIONS):
        return Silent(name, proof, precisions, prepare=lambda session: setattr(session.task.inner, "code", code))

    def rate(value):
        return lambda options, draw: options.update(lr=value)

    half = ("fp16",)
    return [
        coded("an infinity that tanh swallows", "swallowed", lambda h, g: h + torch.tanh((h + 1.0) * 60000.0 * 10.0),
              half),
        coded("an infinity that sigmoid swallows", "swallowed", lambda h, g: h * torch.sigmoid((h.abs() + 1.0) * 3e5),
              half),
        coded("an infinity that clamp swallows", "swallowed", lambda h, g: h + ((h + 1.0) * 5e5).clamp(-1, 1) * 0.1,
              half),
        coded("an infinite denominator", "swallowed", lambda h, g: h + 1.0 / ((h.abs() + 1.0) * 1e5), half),
        coded("a detached activation", "no gradient", lambda h, g: h.detach()),
        coded("a layer of dead ReLUs", "no gradient", lambda h, g: F.relu(h - 1e4)),
        coded("an activation times 0", "no gradient", lambda h, g: h * 0.0),
        coded("a saturated gate", "no gradient", lambda h, g: torch.sigmoid(torch.tanh(h) * 10.0 + 500.0)),
        Silent("a layer that forward never calls", "no gradient", fits=lambda task: task.name in ("mlp", "lenet"),
               configure=lambda options, draw: options.update(spare=True)),
        Silent("a learning rate of 0", "update", configure=rate(0.0)),
        Silent("updates below the last bit of the weights", "update", ("fp32", "bf16"), configure=rate(1e-11)),
        Silent("a loss that grows without overflow", "update", ("fp32",),
               fits=lambda task: task.name in ("mlp", "rnn", "denoiser", "experts"),
               configure=lambda options, draw: options.update(lr=magnitude(draw, 2, 6))),
    ]


def all_faults():
    return [*singularities(), *rounded_constants(), *overflows(), *masks(), *bad_samples(), *norms(), *states(),
            *updates(), *user_ops()]
