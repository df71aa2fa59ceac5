"""Golden values of docs/functions.md's functions: mathematical functions, activations, comparisons, whole numbers and
reductions, forward and backward (golden_ops.py has the form)."""
import numpy as np
import torch
import torch.nn.functional as F

from golden_ops import draw, draw_integers

ANYWHERE = ("sin cos tan atan sinh cosh asinh expm1 exp2 sign floor ceil trunc round frac selu hardsigmoid hardswish "
            "relu6 mish logsigmoid tanhshrink leaky_relu elu celu hardshrink softshrink softplus hardtanh").split()
INSIDE = "asin acos atanh erfinv".split()  # their domain is (-1, 1)
ABOVE = "acosh".split()  # its domain begins at 1
POSITIVE = "log1p log2 log10 rsqrt lgamma digamma reciprocal".split()
HALVES = np.asarray([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, -0.0], dtype=np.float32)


def hardsigmoid(x):
    """Instead of F.hardsigmoid, whose gradient uses 1 / 6 rounded to f32, also in f64."""
    return F.relu6(x + 3) / 6


def named(name):
    if name == "hardsigmoid":
        return hardsigmoid
    return getattr(torch, name, None) or getattr(torch.special, name, None) or getattr(F, name)


def of_x(f):
    return lambda x: f(x)


def of_pair(f):
    return lambda a, b: f(a, b)


def functions(case):
    for names, low, high in ((ANYWHERE, -4, 4), (INSIDE, -0.95, 0.95), (ABOVE, 1.05, 6), (POSITIVE, 0.05, 6)):
        for name in names:
            case(name, name, {"x": draw(f"functions.{name}", (2, 6), low, high)}, of_x(named(name)))
    case("lgamma.negative", "lgamma", {"x": draw("lgamma.negative", (2, 6), -4, 0)}, of_x(torch.lgamma))
    case("digamma.negative", "digamma", {"x": draw("digamma.negative", (2, 6), -4, 0)}, of_x(torch.digamma))
    for name in ("round", "floor", "ceil", "trunc"):
        case(f"{name}.halves", name, {"x": HALVES}, of_x(named(name)))
    case("softplus.scaled", "softplus_of_2_and_3", {"x": draw("softplus.scaled", (2, 6), -4, 4)}, lambda x: F.softplus(x, 2, 3))
    case("threshold", "threshold_of_1_and_2", {"x": draw("threshold", (2, 6), -4, 4)}, lambda x: F.threshold(x, 1, 2))
    case("prelu", "prelu", {"x": draw("prelu.x", (2, 6), -4, 4), "w": draw("prelu.w", (6,))}, lambda x, w: torch.where(x > 0, x, w * x))
    odd = np.asarray([1.5, np.nan, np.inf, -np.inf], dtype=np.float32)
    case("nan_to_num", "nan_to_num_of_1_2_3", {"x": odd}, lambda x: torch.nan_to_num(x, 1, 2, -3))

    a, b = draw("pair.a", (3, 4), -4, 4), draw("pair.b", (4,), 0.3, 3)
    for name in ("atan2", "fmod", "remainder", "hypot", "copysign", "logaddexp", "maximum", "minimum"):
        case(f"{name}.pair", name, {"a": a, "b": b}, of_pair(getattr(torch, name)))
    signed = np.asarray(b * np.asarray([1, -1, 1, -1]), dtype=np.float32)
    case("remainder.signed", "remainder", {"a": a, "b": signed}, of_pair(torch.remainder))
    case("fmod.signed", "fmod", {"a": a, "b": signed}, of_pair(torch.fmod))
    case("floor_divide.signed", "floor_divide", {"a": a, "b": signed}, of_pair(torch.floor_divide), fixed=("a", "b"))
    positive = draw("pair.positive", (3, 4), 0.1, 3)
    case("pow.pair", "tensor_pow", {"a": positive, "b": draw("pair.exponents", (4,))}, lambda a, b: a ** b)
    case("xlogy.pair", "xlogy", {"a": np.asarray(positive * (positive > 1), dtype=np.float32), "b": b}, of_pair(torch.xlogy))
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"):
        case(f"{name}.floats", name, {"a": np.round(a), "b": np.round(b)}, of_pair(getattr(torch, name)), fixed=("a", "b"))

    i, j = draw_integers("whole.i", (3, 4), -9, 10), draw_integers("whole.j", (4,), 1, 5) * np.asarray([1, -1, 1, -1])
    for name in ("add", "sub", "mul", "floor_divide", "remainder", "fmod", "maximum", "minimum", "eq", "lt", "bitwise_and",
                 "bitwise_or", "bitwise_xor"):
        case(f"{name}.whole", name, {"a": i, "b": j}, of_pair(getattr(torch, name)))
    shifts = np.asarray([0, 1, 2, 3])
    case("bitwise_left_shift.whole", "bitwise_left_shift", {"a": i, "b": shifts}, of_pair(torch.bitwise_left_shift))
    case("bitwise_right_shift.whole", "bitwise_right_shift", {"a": i, "b": shifts}, of_pair(torch.bitwise_right_shift))
    case("add.mixed", "add", {"a": i, "b": b}, lambda a, b: a + b)
    case("mul.mixed", "mul", {"a": i, "b": b}, lambda a, b: a * b)

    x = draw("folds", (3, 4, 2))
    for name, f in {"prod": lambda x: x.prod(1), "var": lambda x: x.var(1), "stddev": lambda x: x.std(1), "min": lambda x: x.amin(1),
                    "logsumexp": lambda x: x.logsumexp(1), "norm": lambda x: x.norm(dim=1), "norm_of_1": lambda x: x.norm(1, dim=1),
                    "norm_of_3": lambda x: x.norm(3, dim=1), "norm_of_inf": lambda x: x.norm(float("inf"), dim=1)}.items():
        case(f"{name}.middle", f"{name}_along", {"x": x}, f)
    zeros = np.asarray(x * (np.abs(x) > 0.3), dtype=np.float32)
    case("prod.zeros", "prod_along", {"x": zeros}, lambda x: x.prod(1))
    case("max.positions", "max_along", {"x": x}, lambda x: dict(zip(("y", "at"), x.max(1))))
    case("min.positions", "min_along", {"x": x}, lambda x: dict(zip(("y", "at"), x.min(1))))
    for name in ("argmax", "argmin", "count_nonzero", "any", "all"):
        case(f"{name}.middle", f"{name}_along", {"x": zeros}, lambda x, f=getattr(torch, name): f(x, 1), fixed=("x",))
    case("sum.whole", "sum_along", {"x": draw_integers("sum.whole", (3, 4), -9, 10)}, lambda x: x.sum(1))
    case("sum.truths", "sum_along", {"x": draw("sum.truths", (3, 4)) > 0}, lambda x: x.sum(1))
    case("tril", "tril", {"x": draw("tril", (3, 4))}, of_x(torch.tril))
    case("triu", "triu_of_1", {"x": draw("triu", (3, 4))}, lambda x: torch.triu(x, 1))
    case("diag.matrix", "diag_of_1", {"x": draw("diag", (3, 4))}, lambda x: torch.diag(x, 1))
    case("diag.vector", "diag_of_1", {"x": draw("diag.vector", (3,))}, lambda x: torch.diag(x, 1))
