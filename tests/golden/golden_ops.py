"""Golden values of every op, forward and backward, in double precision from float32 inputs: the exact answers.

Layout is Binade's: images (N, H, W, C), filters (K, R, S, C / groups), transposed filters (C, R, S, K / groups) with C the
input channels, linear weights (out, in), attention operands (B, T, H, D). Cotangents are random and not symmetric, so that a
transposed or summed gradient cannot pass. Formulas that lose digits even in double (the tails of GELU) are written in a stable
form.
"""
import math
import zlib

import numpy as np
import torch
import torch.nn.functional as F


def draw(name, shape, low=None, high=None, digits=4):
    """Random float32 values, keyed by name; normal, or uniform in [low, high]; few digits, so that the text is short."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    x = rng.standard_normal(shape) if low is None else rng.uniform(low, high, shape)
    return np.asarray(np.round(x, digits), dtype=np.float32)


def draw_integers(name, shape, low, high):
    return np.asarray(np.random.default_rng(zlib.crc32(name.encode())).integers(low, high, shape), dtype=np.int64)


class Writer:
    """Runs a PyTorch function on named inputs, differentiates it and writes the case."""

    def __init__(self, file):
        self.file = file

    def __call__(self, name, op, inputs, function, params=None, fixed=()):
        """inputs: {name: array}; function: keyword tensors -> tensor or {name: tensor}; `fixed` inputs get no gradient."""
        tensors = {}
        for key, value in inputs.items():
            t = torch.from_numpy(np.array(value))
            if t.dtype == torch.float32:
                t = t.double()
            tensors[key] = t.requires_grad_(t.is_floating_point() and key not in fixed)
        out = function(**tensors)
        out = out if isinstance(out, dict) else {"y": out}
        wanted = {k: t for k, t in tensors.items() if t.requires_grad}
        cotangents = {k: np.asarray(draw(f"{name}/gout.{k}", tuple(y.shape)) + np.float32(0.25)) for k, y in out.items() if y.requires_grad}
        roles = [(f"in.{k}", v) for k, v in inputs.items()]
        roles += [(f"out.{k}", y.detach().numpy()) for k, y in out.items()]
        roles += [(f"gout.{k}", g) for k, g in cotangents.items()]
        if cotangents and wanted:
            total = sum((out[k] * torch.from_numpy(g).double()).sum() for k, g in cotangents.items())
            grads = torch.autograd.grad(total, list(wanted.values()))
            roles += [(f"gin.{k}", g.numpy()) for k, g in zip(wanted, grads)]
        self.file.case(name, op, params or {}, roles)


def nchw(t):
    return t.permute(0, 3, 1, 2)


def nhwc(t):
    return t.permute(0, 2, 3, 1)


def gelu_exact(x):
    return 0.5 * x * torch.special.erfc(-x / math.sqrt(2))


def gelu_tanh(x):
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))


ACTIVATIONS = {"none": lambda x: x, "relu": torch.relu, "gelu": gelu_exact, "gelu_tanh": gelu_tanh}


def elementwise(case):
    shapes = {"same": ((2, 3, 4), (2, 3, 4)), "row": ((2, 3, 4), (4,)), "column": ((3, 1), (3, 5)), "outer": ((3, 1), (1, 4)),
              "scalar": ((), (2, 3)), "middle": ((2, 1, 4), (3, 1)), "batch": ((1, 3, 2), (4, 3, 2))}
    for op, f in {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}.items():
        for kind, (sa, sb) in shapes.items():
            b = draw(f"{op}.{kind}.b", sb)
            if op == "div":
                b = np.asarray(np.sign(b) * (np.abs(b) + np.float32(0.5)), dtype=np.float32)
            case(f"{op}.{kind}", op, {"a": draw(f"{op}.{kind}.a", sa), "b": b}, lambda a, b, f=f: f(a, b))
    wide = np.asarray([-30, -12, -9.5, -6, -4.25, -3, -2, -1.5, -1, -0.75, -0.5, -0.1, -0.001, 0.001, 0.1, 0.5, 0.75, 1, 1.5, 2, 3, 4.25, 6, 9.5, 12, 30],
                      dtype=np.float32).reshape(2, 13)
    positive = np.asarray([1e-6, 0.001, 0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1, 1.01, 1.5, 2, 3, 7.5, 20, 1000], dtype=np.float32).reshape(4, 4)
    for op, f in {"relu": torch.relu, "gelu": gelu_exact, "gelu_tanh": gelu_tanh, "silu": lambda x: x * torch.sigmoid(x),
                  "sigmoid": torch.sigmoid, "tanh": torch.tanh, "exp": torch.exp}.items():
        case(f"{op}.wide", op, {"x": wide}, f)
        case(f"{op}.random", op, {"x": draw(f"{op}.random", (2, 3, 5))}, f)
    for op, f in {"log": torch.log, "sqrt": torch.sqrt}.items():
        case(f"{op}.positive", op, {"x": positive}, f)
    for exponent in (2.0, 3.0, 0.5, -1.5, 1.0):
        case(f"pow.{exponent}", "pow", {"x": positive}, lambda x, e=exponent: x ** e, {"exponent": exponent})
    case("pow.2.negative_base", "pow", {"x": wide}, lambda x: x ** 2, {"exponent": 2.0})
    case("pow.3.negative_base", "pow", {"x": wide}, lambda x: x ** 3, {"exponent": 3.0})
    case("clamp.both", "clamp", {"x": draw("clamp", (3, 7))}, lambda x: x.clamp(-0.5, 0.8), {"low": -0.5, "high": 0.8})
    case("clamp.low", "clamp", {"x": draw("clamp", (3, 7))}, lambda x: x.clamp(min=0.1), {"low": 0.1, "high": "inf"})
    for kind, (sc, sa, sb) in {"same": ((2, 3, 4),) * 3, "broadcast": ((3, 1), (2, 3, 4), (4,)), "scalar": ((2, 5), (), (2, 5))}.items():
        case(f"where.{kind}", "where", {"condition": draw(f"where.{kind}.c", sc) > 0, "a": draw(f"where.{kind}.a", sa),
                                        "b": draw(f"where.{kind}.b", sb)}, lambda condition, a, b: torch.where(condition, a, b))


def reductions(case):
    x = draw("reductions", (2, 3, 4, 5))
    variants = {"all": ((0, 1, 2, 3), False), "last": ((3,), False), "first": ((0,), False), "middle": ((1, 2), False),
                "keep": ((1, 3), True), "outer": ((0, 1, 2), False)}
    for op, f in {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}.items():
        for kind, (axes, keep) in variants.items():
            case(f"{op}.{kind}", op, {"x": x}, lambda x, f=f: f(x, dim=axes, keepdim=keep),
                 {"axes": ",".join(map(str, axes)), "keep": keep})
        case(f"{op}.vector", op, {"x": draw(f"{op}.vector", (37,))}, lambda x, f=f: f(x, dim=(0,)), {"axes": "0", "keep": False})


def products(case):
    for ta in (False, True):
        for tb in (False, True):
            for kind, batch in {"plain": (), "batched": (2,), "deep": (2, 3)}.items():
                name = f"matmul.{kind}.{'t' if ta else 'n'}{'t' if tb else 'n'}"
                a = draw(name + ".a", batch + ((5, 3) if ta else (3, 5)))
                b = draw(name + ".b", batch + ((4, 5) if tb else (5, 4)))
                case(name, "matmul", {"a": a, "b": b}, lambda a, b: (a.mT if ta else a) @ (b.mT if tb else b),
                     {"transpose_a": ta, "transpose_b": tb})
    case("matmul.long", "matmul", {"a": draw("matmul.long.a", (2, 70)), "b": draw("matmul.long.b", (70, 3))}, lambda a, b: a @ b,
         {"transpose_a": False, "transpose_b": False})
    for act, f in ACTIVATIONS.items():
        for bias in (True, False):
            name = f"linear.{act}.{'bias' if bias else 'plain'}"
            inputs = {"x": draw(name + ".x", (2, 3, 6)), "w": draw(name + ".w", (5, 6))}
            if bias:
                inputs["b"] = draw(name + ".b", (5,))
            case(name, "linear", inputs, lambda x, w, b=None, f=f: f(F.linear(x, w, b)), {"activation": act, "bias": bias})


def convolutions(case):
    configs = {  # (N, H, W, C), K, (R, S), stride, padding, dilation, groups, bias
        "3x3": ((2, 6, 5, 3), 4, (3, 3), (1, 1), (1, 1), (1, 1), 1, False),
        "3x3_bias": ((1, 5, 6, 2), 3, (3, 3), (1, 1), (1, 1), (1, 1), 1, True),
        "valid": ((1, 6, 6, 2), 3, (3, 3), (1, 1), (0, 0), (1, 1), 1, True),
        "1x1": ((2, 4, 3, 5), 4, (1, 1), (1, 1), (0, 0), (1, 1), 1, True),
        "stride2": ((1, 7, 6, 3), 4, (3, 3), (2, 2), (1, 1), (1, 1), 1, True),
        "uneven": ((1, 8, 7, 2), 3, (2, 3), (2, 1), (0, 1), (1, 1), 1, False),
        "dilation2": ((1, 8, 8, 2), 3, (3, 3), (1, 1), (2, 2), (2, 2), 1, True),
        "groups2": ((2, 5, 5, 4), 6, (3, 3), (1, 1), (1, 1), (1, 1), 2, True),
        "depthwise": ((1, 6, 6, 4), 4, (3, 3), (1, 1), (1, 1), (1, 1), 4, False),
        "5x5_stride3": ((1, 9, 9, 1), 2, (5, 5), (3, 3), (2, 2), (1, 1), 1, True),
        "one_pixel": ((2, 1, 1, 3), 2, (3, 3), (1, 1), (1, 1), (1, 1), 1, True),
    }
    for kind, (xs, k, (r, s), stride, padding, dilation, groups, bias) in configs.items():
        name = f"conv2d.{kind}"
        inputs = {"x": draw(name + ".x", xs, digits=3), "w": draw(name + ".w", (k, r, s, xs[3] // groups), digits=3)}
        if bias:
            inputs["b"] = draw(name + ".b", (k,))

        def conv(x, w, b=None):
            return nhwc(F.conv2d(nchw(x), nchw(w), b, stride, padding, dilation, groups))
        case(name, "conv2d", inputs, conv, {"stride": "%d,%d" % stride, "padding": "%d,%d" % padding,
                                            "dilation": "%d,%d" % dilation, "groups": groups})
    configs = {  # (N, H, W, C), K, (R, S), stride, padding, output padding, groups, bias
        "up2": ((2, 3, 4, 4), 3, (2, 2), (2, 2), (0, 0), (0, 0), 1, True),
        "up2_plain": ((1, 2, 3, 2), 2, (2, 2), (2, 2), (0, 0), (0, 0), 1, False),
        "overlap": ((1, 4, 3, 2), 3, (3, 3), (2, 2), (1, 1), (0, 0), 1, True),
        "output_padding": ((1, 3, 3, 2), 3, (3, 3), (2, 2), (1, 1), (1, 1), 1, True),
        "stride1": ((1, 4, 4, 2), 2, (3, 3), (1, 1), (0, 0), (0, 0), 1, True),
    }
    for kind, (xs, k, (r, s), stride, padding, extra, groups, bias) in configs.items():
        name = f"conv_transpose2d.{kind}"
        inputs = {"x": draw(name + ".x", xs, digits=3), "w": draw(name + ".w", (xs[3], r, s, k // groups), digits=3)}
        if bias:
            inputs["b"] = draw(name + ".b", (k,))

        def up(x, w, b=None):
            return nhwc(F.conv_transpose2d(nchw(x), nchw(w), b, stride, padding, extra, groups))
        case(name, "conv_transpose2d", inputs, up, {"stride": "%d,%d" % stride, "padding": "%d,%d" % padding,
                                                    "output_padding": "%d,%d" % extra, "groups": groups})


def pooling(case):
    for kind, (xs, kernel, stride, padding) in {"2x2": ((2, 6, 4, 3), 2, 2, 0), "overlap": ((1, 7, 7, 2), 3, 2, 1), "odd": ((1, 5, 7, 2), 2, 2, 0)}.items():
        params = {"kernel": f"{kernel},{kernel}", "stride": f"{stride},{stride}", "padding": f"{padding},{padding}"}
        x = draw(f"pool.{kind}", xs)
        case(f"max_pool2d.{kind}", "max_pool2d", {"x": x}, lambda x: nhwc(F.max_pool2d(nchw(x), kernel, stride, padding)), params)
        case(f"avg_pool2d.{kind}", "avg_pool2d", {"x": x},
             lambda x: nhwc(F.avg_pool2d(nchw(x), kernel, stride, padding, count_include_pad=True)), {**params, "count_include_pad": True})
    for mode in ("nearest", "bilinear"):
        for scale in (2, 3):
            x = draw(f"upsample.{mode}.{scale}", (2, 3, 4, 2))
            more = {} if mode == "nearest" else {"align_corners": False}
            case(f"upsample.{mode}.{scale}", f"upsample_{mode}", {"x": x},
                 lambda x: nhwc(F.interpolate(nchw(x), scale_factor=scale, mode=mode, **more)), {"scale": scale})


def norms(case):
    for kind, shape in {"image": (2, 3, 4, 5), "rows": (6, 3)}.items():
        c = shape[-1]
        base = {"x": draw(f"bn.{kind}.x", shape) * np.float32(2) + np.float32(1), "w": draw(f"bn.{kind}.w", (c,), 0.5, 1.5), "b": draw(f"bn.{kind}.b", (c,)),
                "running_mean": draw(f"bn.{kind}.m", (c,)), "running_var": draw(f"bn.{kind}.v", (c,), 0.5, 2)}
        for relu in (False, True):
            for train in (True, False):
                def bn(x, w, b, running_mean, running_var):
                    mean, var = running_mean.clone(), running_var.clone()
                    flat = x.reshape(-1, c)
                    y = F.batch_norm(flat, mean, var, w, b, train, 0.1, 1e-5).reshape(x.shape)
                    out = {"y": torch.relu(y) if relu else y}
                    return {**out, "running_mean": mean, "running_var": var} if train else out
                case(f"batch_norm.{kind}.{'train' if train else 'eval'}{'.relu' if relu else ''}", "batch_norm", base, bn,
                     {"training": train, "momentum": 0.1, "eps": 1e-5, "relu": relu}, fixed=("running_mean", "running_var"))
    x = draw("norm.x", (2, 3, 6)) * np.float32(1.5) + np.float32(0.5)
    r = draw("norm.r", (2, 3, 6))
    w, b = draw("norm.w", (6,), 0.5, 1.5), draw("norm.b", (6,))

    def rms(x, w, eps=1e-5):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w
    params = {"eps": 1e-5}
    case("layer_norm.affine", "layer_norm", {"x": x, "w": w, "b": b}, lambda x, w, b: F.layer_norm(x, (6,), w, b, 1e-5), params)
    case("layer_norm.weight_only", "layer_norm", {"x": x, "w": w}, lambda x, w: F.layer_norm(x, (6,), w, None, 1e-5), params)
    case("layer_norm.residual", "layer_norm_residual", {"x": x, "residual": r, "w": w, "b": b},
         lambda x, residual, w, b: {"y": F.layer_norm(x + residual, (6,), w, b, 1e-5), "sum": x + residual}, params)
    far = draw("norm.far", (3, 8)) + np.float32(30)  # far from 0: a one-pass variance would lose four digits, a mean in f32 one and a half
    case("layer_norm.large_mean", "layer_norm", {"x": far, "w": draw("norm.far.w", (8,)), "b": draw("norm.far.b", (8,))},
         lambda x, w, b: F.layer_norm(x, (8,), w, b, 1e-5), params)
    case("rms_norm.weight", "rms_norm", {"x": x, "w": w}, rms, params)
    case("rms_norm.residual", "rms_norm_residual", {"x": x, "residual": r, "w": w},
         lambda x, residual, w: {"y": rms(x + residual, w), "sum": x + residual}, params)
    for groups in (1, 2, 6):
        xg = draw(f"group_norm.{groups}", (2, 3, 2, 6))
        case(f"group_norm.{groups}", "group_norm", {"x": xg, "w": w, "b": b},
             lambda x, w, b: nhwc(F.group_norm(nchw(x), groups, w, b, 1e-5)), {"groups": groups, "eps": 1e-5})


def attention_ops(case):
    for op, f in {"softmax": torch.softmax, "log_softmax": torch.log_softmax}.items():
        for kind, (shape, axis) in {"rows": ((2, 3, 5), 2), "middle": ((2, 4, 3), 1), "wide": ((2, 40), 1)}.items():
            case(f"{op}.{kind}", op, {"x": draw(f"{op}.{kind}", shape) * np.float32(3)}, lambda x, f=f: f(x, axis), {"axis": axis})

    def attention(q, k, v, mask=None, causal=False, scale=None):
        q, k, v = (z.transpose(1, 2) for z in (q, k, v))
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        logits = (q @ k.mT) * (scale or q.shape[-1] ** -0.5)
        if causal:
            t, s = logits.shape[-2:]
            logits = logits.masked_fill(torch.ones(t, s, dtype=torch.bool).triu(1 + s - t), -math.inf)
        if mask is not None:
            logits = logits.masked_fill(~mask[:, None, None, :], -math.inf)
        return (torch.softmax(logits, -1) @ v).transpose(1, 2)
    configs = {  # B, T, S, heads, key-value heads, D, causal, valid keys of each batch row
        "plain": (2, 5, 5, 2, 2, 4, False, None), "causal": (2, 6, 6, 2, 2, 4, True, None), "cross": (1, 3, 7, 2, 2, 4, False, None),
        "padding": (3, 4, 6, 2, 2, 3, False, (6, 4, 1)), "causal_padding": (2, 5, 5, 2, 2, 4, True, (5, 3)),
        "grouped": (2, 5, 5, 4, 2, 3, True, None), "multi_query": (1, 6, 6, 4, 1, 4, True, None), "one_token": (2, 1, 1, 2, 2, 4, True, None),
        "causal_tail": (1, 2, 6, 2, 2, 4, True, None),
    }
    for kind, (b, t, s, h, hk, d, causal, valid) in configs.items():
        name = f"attention.{kind}"
        inputs = {"q": draw(name + ".q", (b, t, h, d)), "k": draw(name + ".k", (b, s, hk, d)), "v": draw(name + ".v", (b, s, hk, d))}
        if valid:
            inputs["mask"] = np.arange(s)[None, :] < np.asarray(valid)[:, None]
        case(name, "attention", inputs, lambda q, k, v, mask=None: attention(q, k, v, mask, causal), {"causal": causal})


def shapes(case):
    indices = draw_integers("embedding", (2, 5), 0, 7)
    case("embedding.repeats", "embedding", {"indices": indices, "w": draw("embedding.w", (7, 4))}, lambda indices, w: F.embedding(indices, w))
    a, b, c = draw("concat.a", (2, 3, 2)), draw("concat.b", (2, 3, 3)), draw("concat.c", (2, 3, 1))
    case("concat.last", "concat", {"a": a, "b": b, "c": c}, lambda a, b, c: torch.cat([a, b, c], -1), {"axis": 2})
    case("concat.first", "concat", {"a": a, "b": draw("concat.d", (3, 3, 2))}, lambda a, b: torch.cat([a, b], 0), {"axis": 0})
    case("concat.middle", "concat", {"a": a, "b": draw("concat.e", (2, 1, 2))}, lambda a, b: torch.cat([a, b], 1), {"axis": 1})
    x = draw("shape.x", (3, 4, 5))
    for axis, begin, end in ((0, 1, 3), (1, 0, 2), (2, 1, 4), (2, 4, 5)):
        case(f"slice.{axis}.{begin}", "slice", {"x": x}, lambda x: x.narrow(axis, begin, end - begin), {"axis": axis, "begin": begin, "end": end})
    case("reshape", "reshape", {"x": x}, lambda x: x.reshape(6, 10), {"shape": "6,10"})
    for order in ((0, 2, 1), (2, 0, 1), (1, 0, 2), (2, 1, 0)):
        case("transpose." + "".join(map(str, order)), "transpose", {"x": x}, lambda x: x.permute(order), {"order": "%d,%d,%d" % order})


def losses(case):
    logits, classes = draw("ce.x", (6, 5)) * np.float32(2), draw_integers("ce.t", (6,), 0, 5)
    partly = classes.copy()
    partly[[1, 4]] = -100
    for kind, (target, smoothing) in {"plain": (classes, 0.0), "ignore": (partly, 0.0), "smooth": (classes, 0.1), "smooth_ignore": (partly, 0.1)}.items():
        case(f"cross_entropy.{kind}", "cross_entropy", {"x": logits, "target": target},
             lambda x, target: F.cross_entropy(x, target, ignore_index=-100, label_smoothing=smoothing), {"ignore_index": -100, "label_smoothing": smoothing})
    sequence, tokens = draw("ce.sequence", (2, 3, 7)), draw_integers("ce.tokens", (2, 3), 0, 7)
    case("cross_entropy.sequence", "cross_entropy", {"x": sequence, "target": tokens},
         lambda x, target: F.cross_entropy(x.flatten(0, 1), target.flatten()), {"ignore_index": -100, "label_smoothing": 0.0})
    shape = (2, 3, 4, 1)
    x = draw("bce.x", shape) * np.float32(3)
    hard = (draw("bce.t", shape) > 0.3).astype(np.float32)
    soft = draw("bce.s", shape, 0, 1)
    p = draw("bce.p", shape, 0.02, 0.98)
    for kind, target in {"hard": hard, "soft": soft}.items():
        case(f"bce_with_logits.{kind}", "bce_with_logits", {"x": x, "target": target},
             lambda x, target: F.binary_cross_entropy_with_logits(x, target), fixed=("target",))
        case(f"bce.{kind}", "bce", {"x": p, "target": target}, lambda x, target: F.binary_cross_entropy(x, target), fixed=("target",))
    case("dice.pooled", "dice", {"x": p, "target": hard},
         lambda x, target: 1 - (2 * (x * target).sum() + 1) / (x.sum() + target.sum() + 1), {"smooth": 1.0}, fixed=("target",))
    case("dice_with_logits.pooled", "dice_with_logits", {"x": x, "target": hard},
         lambda x, target: 1 - (2 * (torch.sigmoid(x) * target).sum() + 1) / (torch.sigmoid(x).sum() + target.sum() + 1), {"smooth": 1.0}, fixed=("target",))
    a, b = draw("regression.x", (3, 5)), draw("regression.t", (3, 5))
    case("mse", "mse", {"x": a, "target": b}, lambda x, target: F.mse_loss(x, target), fixed=("target",))
    case("l1", "l1", {"x": a, "target": b}, lambda x, target: F.l1_loss(x, target), fixed=("target",))
    for delta in (1.0, 0.4):
        case(f"huber.{delta}", "huber", {"x": a, "target": b}, lambda x, target: F.huber_loss(x, target, delta=delta), {"delta": delta}, fixed=("target",))
    raw = torch.from_numpy(draw("kl.t", (4, 6))).double()
    q = np.asarray(torch.softmax(raw, -1).numpy(), dtype=np.float32)
    logp = np.asarray(np.round(torch.log_softmax(torch.from_numpy(draw("kl.x", (4, 6))), -1).numpy(), 5), dtype=np.float32)
    case("kl_div.batchmean", "kl_div", {"x": logp, "target": q}, lambda x, target: F.kl_div(x, target, reduction="batchmean"), fixed=("target",))


FAMILIES = {"elementwise": elementwise, "reductions": reductions, "products": products, "convolutions": convolutions, "pooling": pooling,
            "norms": norms, "attention": attention_ops, "shapes": shapes, "losses": losses}
