"""Golden values of the functions that docs/from-pytorch.md added by name: special functions, elementwise compositions,
statistics, differences, pieces of tensors, linear algebra, and modules, forward and backward (golden_ops.py has the form)."""
import numpy as np
import torch
import torch.nn.functional as F

from torch.func import functional_call

from golden_modules import layer_inputs, norm_inputs, torch_layer
from golden_ops import draw, draw_integers, nchw, nhwc


def of_x(f):
    return lambda x: f(x)


def of_pair(f):
    return lambda a, b: f(a, b)


def elementwise(case):
    x = draw("names.x", (2, 7), -3, 3)
    case("erfc", "erfc", {"x": x}, of_x(torch.special.erfc))
    case("erfc.far", "erfc", {"x": np.asarray([3, 4.5, 6, 8, -4], dtype=np.float32)}, of_x(torch.special.erfc))
    # Not near 0: there, the terms of PyTorch's gradient of sinc() cancel.
    case("sinc", "sinc", {"x": np.asarray(np.round(x + np.sign(x) * 0.3, 4), dtype=np.float32)}, of_x(torch.sinc))
    case("sinc.whole", "sinc", {"x": np.asarray([0, 1, -2, 3], dtype=np.float32)}, of_x(torch.sinc), fixed=("x",))
    case("i0", "i0", {"x": x}, of_x(torch.special.i0))
    case("i0.far", "i0", {"x": np.asarray([9, 19.5, 21, -40], dtype=np.float32)}, of_x(torch.special.i0))
    case("i1", "i1", {"x": x}, of_x(torch.special.i1))
    case("i1.far", "i1", {"x": np.asarray([9, 19.5, 21, -40], dtype=np.float32)}, of_x(torch.special.i1))
    positive = draw("names.positive", (2, 5), 0.2, 9)
    for n in (0, 1, 2, 4):
        case(f"polygamma.{n}", f"polygamma_{n}", {"x": positive}, lambda x, n=n: torch.polygamma(n, x))
    case("mvlgamma", "mvlgamma_3", {"x": np.asarray(positive + 1, dtype=np.float32)}, lambda x: torch.mvlgamma(x, 3))
    inside = draw("names.inside", (2, 5), 0.02, 0.98)
    case("logit", "logit", {"x": inside}, of_x(torch.logit))
    case("logit.eps", "logit_eps", {"x": np.asarray([-1, 0.001, 0.3, 0.999, 2], dtype=np.float32)}, lambda x: torch.logit(x, 0.05))
    case("deg2rad", "deg2rad", {"x": x}, of_x(torch.deg2rad))
    case("rad2deg", "rad2deg", {"x": x}, of_x(torch.rad2deg))
    case("signbit", "signbit", {"x": np.asarray([1, -1, 0.0, np.inf, -np.inf], dtype=np.float32)}, of_x(torch.signbit), fixed=("x",))
    a, b = draw("names.a", (3, 4)), draw("names.b", (4,))
    weight = draw("names.weight", (3, 1), -0.5, 1.5)
    case("lerp", "lerp", {"a": a, "b": b, "w": weight}, lambda a, b, w: torch.lerp(a, b.expand(3, 4), w))
    case("lerp.number", "lerp_03", {"a": a, "b": b}, lambda a, b: torch.lerp(a, b, 0.3))
    case("addcmul", "addcmul", {"x": a, "a": b, "b": weight}, lambda x, a, b: torch.addcmul(x, a, b, value=0.5))
    case("addcdiv", "addcdiv", {"x": a, "a": b, "b": np.asarray(weight + 2, dtype=np.float32)},
         lambda x, a, b: torch.addcdiv(x, a, b, value=0.5))
    odd = np.asarray([[1, np.nan, 3, np.inf], [np.nan, 2, -1, 0]], dtype=np.float32)
    case("fmax", "fmax", {"a": odd, "b": odd[::-1].copy()}, of_pair(torch.fmax), fixed=("a", "b"))
    case("fmin", "fmin", {"a": odd, "b": odd[::-1].copy()}, of_pair(torch.fmin), fixed=("a", "b"))
    case("fmax.slopes", "fmax", {"a": a, "b": b}, of_pair(torch.fmax))
    case("fmin.slopes", "fmin", {"a": a, "b": b}, of_pair(torch.fmin))
    coarse = np.asarray(np.round(a), dtype=np.float32)
    case("heaviside", "heaviside", {"a": coarse, "b": b}, of_pair(torch.heaviside), fixed=("a", "b"))
    case("logaddexp2", "logaddexp2", {"a": a, "b": b}, of_pair(torch.logaddexp2))
    near = np.asarray(a * np.float32(1.00002), dtype=np.float32)
    near[0, 0], near[1] = np.nan, a[1]
    case("isclose", "isclose", {"a": a, "b": near}, lambda a, b: torch.isclose(a, b), fixed=("a", "b"))
    i, j = draw_integers("names.i", (3, 4), -40, 41), draw_integers("names.j", (4,), -30, 31)
    case("gcd", "gcd", {"a": i, "b": j}, of_pair(torch.gcd))
    case("lcm", "lcm", {"a": i, "b": j}, of_pair(torch.lcm))
    case("isin", "isin", {"a": coarse, "b": np.asarray([1, -2, 1], dtype=np.float32)}, lambda a, b: torch.isin(a, b), fixed=("a", "b"))
    case("isin.whole", "isin", {"a": i, "b": i[1, :3].copy()}, lambda a, b: torch.isin(a, b))


def layers(case):
    x = draw("names.layers", (2, 3, 6))
    for p in (1, 2, 3):
        case(f"normalize.{p}", f"normalize_{p}", {"x": x}, lambda x, p=p: F.normalize(x, p, dim=-1))
    case("normalize.zeros", "normalize_2", {"x": np.zeros((2, 3), dtype=np.float32)}, lambda x: F.normalize(x, dim=-1), fixed=("x",))
    case("softmin", "softmin", {"x": x}, lambda x: F.softmin(x, -1))
    case("channel_shuffle", "channel_shuffle", {"x": x},
         lambda x: F.channel_shuffle(x.permute(0, 2, 1), 3).permute(0, 2, 1))
    rows = {name: draw(f"names.{name}", (4, 5)) for name in ("a", "p", "n")}

    def squared(a, b):
        return ((a - b) ** 2).sum(-1)

    case("triplet", "triplet", rows, lambda a, p, n: F.triplet_margin_with_distance_loss(a, p, n, distance_function=squared, margin=2))
    case("triplet.swap", "triplet_swap", rows,
         lambda a, p, n: F.triplet_margin_with_distance_loss(a, p, n, distance_function=squared, margin=2, swap=True, reduction="none"))


def statistics(case):
    x = draw("names.statistics", (3, 8, 2))
    odd = x.copy()
    odd[0, 1, 0] = odd[2, 3, 1] = odd[2, 4, 1] = np.nan
    for name in ("nansum", "nanmean"):
        f = getattr(torch, name)
        case(name, f"{name}_along", {"x": odd}, lambda x, f=f: f(x, 1))
        case(f"{name}.all", name, {"x": odd}, lambda x, f=f: f(x))
    pair = lambda r: dict(zip(("y", "at"), r))
    case("nanmedian", "nanmedian_along", {"x": odd}, lambda x: pair(torch.nanmedian(x, 1)))
    case("nanmedian.all", "nanmedian", {"x": odd}, lambda x: torch.nanmedian(x))
    for how in ("linear", "lower", "higher", "nearest", "midpoint"):
        case(f"quantile.{how}", f"quantile_{how}", {"x": x}, lambda x, how=how: torch.quantile(x, 0.3, 1, interpolation=how))
        case(f"nanquantile.{how}", f"nanquantile_{how}", {"x": odd}, lambda x, how=how: torch.nanquantile(x, 0.3, 1, interpolation=how))
    case("quantile.all", "quantile_several", {"x": x}, lambda x: torch.quantile(x, torch.tensor([0, 0.25, 1], dtype=x.dtype)))
    case("quantile.nan", "quantile_linear", {"x": odd}, lambda x: torch.quantile(x, 0.3, 1), fixed=("x",))
    case("quantile.keepdim", "quantile_keepdim", {"x": x}, lambda x: torch.quantile(x, 0.75, 1, keepdim=True))
    case("mode", "mode", {"x": draw_integers("names.mode", (4, 9), 0, 4)}, lambda x: {"y": x.mode(1).values})
    case("aminmax", "aminmax", {"x": x}, lambda x: dict(zip(("low", "high"), torch.aminmax(x, dim=1))))
    case("var_mean", "var_mean", {"x": x}, lambda x: dict(zip(("y", "m"), torch.var_mean(x, 1))))
    case("std_mean", "std_mean", {"x": x}, lambda x: dict(zip(("y", "m"), torch.std_mean(x, 1, correction=0))))
    rows = draw("names.rows", (3, 7))
    counts, weights = draw_integers("names.counts", (7,), 0, 4), draw("names.weights", (7,), 0.1, 2)
    case("cov", "cov", {"x": rows}, lambda x: torch.cov(x))
    case("cov.vector", "cov", {"x": rows[0]}, lambda x: torch.cov(x))
    case("cov.weighted", "cov_weighted", {"x": rows, "f": counts, "w": weights},
         lambda x, f, w: torch.cov(x, fweights=f, aweights=w), fixed=("w",))
    case("cov.counts", "cov_counts", {"x": rows, "f": counts}, lambda x, f: torch.cov(x, correction=0, fweights=f))
    case("corrcoef", "corrcoef", {"x": rows}, lambda x: torch.corrcoef(x))
    named = lambda r: {"y": r.hist, "e": r.bin_edges}
    case("histogram", "histogram_5", {"x": x}, lambda x: named(torch.histogram(x.detach(), 5)), fixed=("x",))
    case("histogram.range", "histogram_range", {"x": x}, lambda x: named(torch.histogram(x.detach(), 4, range=(-1, 1))), fixed=("x",))
    edges = np.asarray([-2, -0.5, 0, 0.25, 3], dtype=np.float32)
    case("histogram.edges", "histogram_density", {"x": x, "e": edges, "w": draw("names.histogram", x.shape, 0, 2)},
         lambda x, e, w: named(torch.histogram(x, e, weight=w, density=True)), fixed=("x", "e", "w"))


def differences(case):
    x = draw("names.differences", (3, 6, 2))
    case("diff", "diff", {"x": x}, lambda x: torch.diff(x, dim=1))
    case("diff.twice", "diff_twice", {"x": x, "p": draw("names.prepend", (3, 2, 2)), "a": draw("names.append", (3, 1, 2))},
         lambda x, p, a: torch.diff(x, 2, 1, p, a))
    case("diff.bool", "diff", {"x": x > 0}, lambda x: torch.diff(x, dim=1))
    for order in (1, 2):
        case(f"gradient.{order}", f"gradient_{order}", {"x": x}, lambda x, o=order: torch.gradient(x, spacing=0.5, dim=1, edge_order=o)[0])
        points = np.asarray([-1, -0.5, 0.25, 2, 2.5, 4], dtype=np.float32)
        case(f"gradient.points.{order}", f"gradient_points_{order}", {"x": x, "p": points},
             lambda x, p, o=order: torch.gradient(x, spacing=(p.detach(),), dim=1, edge_order=o)[0], fixed=("p",))
    case("trapezoid", "trapezoid", {"x": x}, lambda x: torch.trapezoid(x, dx=0.5, dim=1))
    points = np.sort(draw("names.points", (6,)))
    case("trapezoid.points", "trapezoid_points", {"x": x, "p": points},
         lambda x, p: torch.trapezoid(x, p.reshape(6, 1).expand(3, 6, 2), dim=1))
    case("cumulative_trapezoid", "cumulative_trapezoid", {"x": x}, lambda x: torch.cumulative_trapezoid(x, dx=0.5, dim=1))
    case("cumulative_trapezoid.points", "cumulative_trapezoid_points", {"x": x, "p": np.sort(draw("names.of_x", (3, 6, 2)), axis=1)},
         lambda x, p: torch.cumulative_trapezoid(x, p, dim=1))


def pieces(case):
    x, y = draw("names.pieces", (3, 4)), draw("names.piece", (3,))
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        f = getattr(torch, name)
        case(f"{name}.vector", name, {"x": y}, of_x(f))
        case(f"{name}.matrix", name, {"x": x}, of_x(f))
    case("column_stack", "column_stack", {"a": x, "b": y}, lambda a, b: torch.column_stack((a, b)))
    case("dstack", "dstack", {"a": y, "b": draw("names.other", (1, 3))}, lambda a, b: torch.dstack((a, b)))
    case("broadcast_tensors", "broadcast_tensors", {"a": x, "b": draw("names.row", (4,))},
         lambda a, b: dict(zip("yz", torch.broadcast_tensors(a, b))))
    case("pad_sequence", "pad_sequence", {"a": x, "b": draw("names.longer", (5, 4)), "c": draw("names.shorter", (1, 4))},
         lambda a, b, c: torch.nn.utils.rnn.pad_sequence([a, b, c], True, 0.5))
    case("select_scatter", "select_scatter", {"x": x, "s": y}, lambda x, s: torch.select_scatter(x, s, 1, -2))
    case("slice_scatter", "slice_scatter", {"x": x, "s": draw("names.slice", (3, 2))}, lambda x, s: torch.slice_scatter(x, s, 1, 1, 4, 2))
    case("diagonal_scatter", "diagonal_scatter", {"x": x, "s": y}, lambda x, s: torch.diagonal_scatter(x, s, 1))
    case("masked_scatter", "masked_scatter", {"x": x, "m": draw("names.mask", (4,)) > 0, "s": draw("names.source", (12,))},
         lambda x, m, s: torch.masked_scatter(x, m.expand(3, 4), s))
    case("cartesian_prod", "cartesian_prod", {"a": y, "b": draw("names.second", (2,))}, lambda a, b: torch.cartesian_prod(a, b))
    vector = draw("names.vector", (5,))
    case("combinations", "combinations_3", {"x": vector}, lambda x: torch.combinations(x, 3))
    case("combinations.again", "combinations_again", {"x": vector}, lambda x: torch.combinations(x, 3, True))


def algebra(case):
    x = draw("names.algebra", (5, 3))
    for p in (0.5, 1, 2, 3):
        case(f"pdist.{p}", f"pdist_{p}", {"x": x}, lambda x, p=p: F.pdist(x, p))
    case("renorm", "renorm", {"x": draw("names.renorm", (3, 4, 2))}, lambda x: torch.renorm(x, 3, 1, 1.5))
    m = draw("names.matrix", (2, 4, 4))
    definite = np.asarray(np.round(m @ m.transpose(0, 2, 1) + 2 * np.eye(4), 4), dtype=np.float32)
    case("logdet", "logdet", {"x": definite}, of_x(torch.logdet))
    case("logdet.negative", "logdet", {"x": np.asarray([[0, 1], [1, 0]], dtype=np.float32)}, of_x(torch.logdet), fixed=("x",))
    factor = np.asarray(np.round(np.linalg.cholesky(definite.astype(np.float64)), 4), dtype=np.float32)
    case("cholesky_inverse", "cholesky_inverse", {"x": factor}, lambda x: torch.cholesky_inverse(x.tril()))
    case("cholesky_inverse.upper", "cholesky_inverse_upper", {"x": factor.transpose(0, 2, 1).copy()},
         lambda x: torch.cholesky_inverse(x.triu(), upper=True))
    square, right = np.asarray(m + 2 * np.eye(4), dtype=np.float32), draw("names.right", (2, 4, 3))
    case("lu_solve", "lu_solve", {"a": square, "b": right}, lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b))
    case("lu_solve.shared", "lu_solve", {"a": square[0], "b": right},
         lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b))
    tensor = np.asarray(np.round(draw("names.tensor", (6, 6)) + 3 * np.eye(6), 4), dtype=np.float32)
    case("tensorinv", "tensorinv_1", {"x": tensor.reshape(6, 2, 3)}, lambda x: torch.linalg.tensorinv(x, 1))
    case("tensorsolve", "tensorsolve", {"a": tensor.reshape(2, 3, 6), "b": draw("names.b23", (2, 3))},
         lambda a, b: torch.linalg.tensorsolve(a, b))
    case("tensorsolve.axes", "tensorsolve_axes", {"a": tensor.reshape(2, 3, 6), "b": draw("names.b6", (6,))},
         lambda a, b: torch.linalg.tensorsolve(a, b, (0, 1)))
    reflectors, tau = draw("names.reflectors", (2, 5, 3)), draw("names.tau", (2, 3))
    case("householder", "householder", {"a": reflectors, "t": tau}, lambda a, t: torch.linalg.householder_product(a, t))


def modules(case):
    sequence, image, volume = draw("pad.x1", (2, 5, 2)), draw("pad.x2", (1, 4, 5, 2)), draw("pad.x3", (1, 3, 4, 3, 1))
    channels = {1: lambda x: x.permute(0, 2, 1), 2: nchw, 3: lambda x: x.permute(0, 4, 1, 2, 3)}
    back = {1: lambda x: x.permute(0, 2, 1), 2: nhwc, 3: lambda x: x.permute(0, 2, 3, 4, 1)}
    for axes, x, sides in ((1, sequence, (1, 2)), (2, image, (1, 2, 3, 0)), (3, volume, (1, 0, 2, 1, 0, 2))):
        for kind in ("Zero", "Reflection", "Replication", "Circular", "Constant"):
            name = f"{kind}Pad{axes}d"
            pad = getattr(torch.nn, name)(*((sides, 0.5) if kind == "Constant" else (sides,)))
            case(name, name, {"x": x}, lambda x, pad=pad, axes=axes: back[axes](pad(channels[axes](x))))
    rows = {"a": draw("bilinear.a", (5, 3)), "b": draw("bilinear.b", (5, 4))}
    case("Bilinear", "Bilinear", {**rows, "weight": draw("bilinear.w", (2, 3, 4)), "bias": draw("bilinear.bias", (2,))},
         lambda a, b, weight, bias: F.bilinear(a, b, weight, bias))
    pair = {"a": draw("distance.a", (4, 3)), "b": draw("distance.b", (4, 3))}
    case("PairwiseDistance", "PairwiseDistance", pair, lambda a, b: F.pairwise_distance(a, b, 3, 1e-3, True))
    make = dict(d_model=8, nhead=2, dim_feedforward=6, dropout=0.0, batch_first=True, dtype=torch.float64)
    model = torch.nn.Transformer(**make, num_encoder_layers=1, num_decoder_layers=1)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
    layers = (("encoder.layers.0.", False), ("decoder.layers.0.", True))
    inputs = {"x": draw("transformer.x", (2, 4, 8)), "target": draw("transformer.target", (2, 3, 8))}
    for prefix, decoder in layers:
        inputs |= layer_inputs(prefix, 8, 6, decoder)
    for part in ("encoder", "decoder"):
        inputs |= norm_inputs(f"{part}.norm", 8)

    def transformer(x, target, **p):
        state = {prefix + k: v for prefix, decoder in layers for k, v in torch_layer(p, prefix, decoder).items()}
        state |= {f"{part}.norm.{k}": p[f"{part}.norm.{k}"] for part in ("encoder", "decoder") for k in ("weight", "bias")}
        return functional_call(model, state, (x, target), {"tgt_mask": causal})

    # No gradients for these inputs: they are 0, or so small compared with their terms that f32 gives few digits. The cases of
    # single layers have them.
    case("Transformer", "Transformer", inputs, transformer, fixed=[n for n in inputs if ".cross.query." in n or ".cross.key." in n or n.endswith("key.bias")])


def names(case):
    for write in (modules, elementwise, layers, statistics, differences, pieces, algebra):
        write(case)
