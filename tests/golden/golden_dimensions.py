"""Golden values of convolutions and pooling of sequences (N, L, C) and volumes (N, D, H, W, C), forward and backward
(golden_ops.py has the form)."""
import numpy as np
import torch
import torch.nn.functional as F

from golden_ops import draw


def first(t):
    """Moves the channels from the last axis to the second."""
    return t.movedim(-1, 1)


def last(t):
    return t.movedim(1, -1)


def text(numbers):
    return ",".join(str(n) for n in numbers)


def convolutions(case):
    # (N, …, C), K, kernel, stride, padding, dilation, groups, bias
    configs = {
        "conv1d.plain": ((2, 7, 3), 4, (3,), (1,), (1,), (1,), 1, True),
        "conv1d.stride": ((1, 9, 4), 6, (4,), (2,), (1,), (2,), 2, False),
        "conv3d.plain": ((1, 4, 4, 3, 2), 3, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1, True),
        "conv3d.stride": ((2, 5, 4, 4, 2), 2, (2, 2, 3), (2, 1, 2), (0, 0, 1), (1, 1, 1), 1, True),
        "conv3d.groups": ((1, 6, 3, 3, 4), 4, (3, 1, 2), (2, 1, 1), (2, 0, 1), (2, 1, 1), 2, True),
        "conv3d.plane": ((1, 3, 3, 3, 2), 2, (1, 2, 2), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, False),
    }
    for name, (xs, k, kernel, stride, padding, dilation, groups, bias) in configs.items():
        f = F.conv1d if len(kernel) == 1 else F.conv3d
        inputs = {"x": draw(name + ".x", xs, digits=3), "w": draw(name + ".w", (k, *kernel, xs[-1] // groups), digits=3)}
        if bias:
            inputs["b"] = draw(name + ".b", (k,))
        case(name, name.split(".")[0], inputs,
             lambda x, w, b=None, f=f, o=(stride, padding, dilation, groups): last(f(first(x), first(w), b, *o)),
             {"stride": text(stride), "padding": text(padding), "dilation": text(dilation), "groups": groups})
    # (N, …, C), K, kernel, stride, padding, output padding, groups, bias, dilation
    configs = {
        "conv_transpose1d.up": ((2, 4, 3), 2, (2,), (2,), (0,), (0,), 1, True, (1,)),
        "conv_transpose1d.overlap": ((1, 5, 4), 6, (3,), (2,), (1,), (1,), 2, True, (1,)),
        "conv_transpose3d.up": ((2, 2, 3, 2, 4), 6, (2, 2, 2), (2, 2, 2), (0, 0, 0), (0, 0, 0), 2, True, (1, 1, 1)),
        "conv_transpose3d.overlap": ((1, 3, 2, 2, 2), 3, (3, 3, 3), (2, 2, 1), (1, 1, 0), (1, 0, 0), 1, True, (1, 1, 1)),
        "conv_transpose3d.groups": ((1, 2, 2, 2, 4), 2, (2, 2, 1), (1, 1, 1), (0, 0, 0), (0, 0, 0), 2, False, (2, 1, 1)),
        "conv_transpose3d.cut": ((1, 4, 2, 2, 2), 2, (2, 1, 1), (3, 1, 1), (2, 0, 0), (2, 0, 0), 1, True, (1, 1, 1)),
    }
    for name, (xs, k, kernel, stride, padding, extra, groups, bias, dilation) in configs.items():
        f = F.conv_transpose1d if len(kernel) == 1 else F.conv_transpose3d
        inputs = {"x": draw(name + ".x", xs, digits=3), "w": draw(name + ".w", (xs[-1], *kernel, k // groups), digits=3)}
        if bias:
            inputs["b"] = draw(name + ".b", (k,))
        case(name, name.split(".")[0], inputs,
             lambda x, w, b=None, f=f, o=(stride, padding, extra, groups, dilation): last(f(first(x), first(w), b, *o)),
             {"stride": text(stride), "padding": text(padding), "output_padding": text(extra), "groups": groups, "dilation": text(dilation)})


def pooling(case):
    sequence, volume = draw("pool.sequence", (2, 7, 3)), draw("pool.volume", (1, 5, 4, 6, 2))
    coarse = lambda x: np.asarray(np.round(x * 2), dtype=np.float32)  # with equal elements
    for kind, x, kernel, stride, padding in [("1d", sequence, (2,), (2,), (0,)), ("1d.overlap", sequence, (3,), (2,), (1,)),
                                             ("3d", volume, (2, 2, 2), (2, 2, 2), (0, 0, 0)), ("3d.overlap", volume, (3, 2, 3), (1, 2, 2), (1, 0, 1))]:
        dimensions = kind[:2]
        params = {"kernel": text(kernel), "stride": text(stride), "padding": text(padding)}
        of_max, of_avg = (F.max_pool1d, F.avg_pool1d) if dimensions == "1d" else (F.max_pool3d, F.avg_pool3d)
        case(f"max_pool{kind}", f"max_pool{dimensions}", {"x": coarse(x)},
             lambda x, f=of_max, o=(kernel, stride, padding): last(f(first(x), *o)), params)
        for include in (True, False):
            case(f"avg_pool{kind}.{'all' if include else 'inside'}", f"avg_pool{dimensions}", {"x": x},
                 lambda x, f=of_avg, o=(kernel, stride, padding), i=include: last(f(first(x), *o, count_include_pad=i)),
                 {**params, "include": int(include)})
    for kind, x, size in [("1d", sequence, (3,)), ("3d", volume, (2, 4, 4)), ("3d.global", volume, (1, 1, 1))]:
        dimensions = kind[:2]
        of_max, of_avg = ((F.adaptive_max_pool1d, F.adaptive_avg_pool1d) if dimensions == "1d" else
                          (F.adaptive_max_pool3d, F.adaptive_avg_pool3d))
        case(f"adaptive_max_pool{kind}", f"adaptive_max_pool{dimensions}", {"x": coarse(x)},
             lambda x, f=of_max, s=size: last(f(first(x), s if len(s) > 1 else s[0])), {"size": text(size)})
        case(f"adaptive_avg_pool{kind}", f"adaptive_avg_pool{dimensions}", {"x": x},
             lambda x, f=of_avg, s=size: last(f(first(x), s if len(s) > 1 else s[0])), {"size": text(size)})


def norms(case):
    for kind, shape in {"1d": (2, 5, 3), "3d": (2, 2, 3, 2, 3)}.items():
        x, weight, bias = draw("norm." + kind, shape), draw("norm.w" + kind, (3,)), draw("norm.b" + kind, (3,))
        inputs = {"x": x, "weight": weight, "bias": bias}
        case(f"batch_norm{kind}", f"batch_norm{kind}", inputs,
             lambda x, weight, bias: last(F.batch_norm(first(x), None, None, weight, bias, training=True)))
        case(f"instance_norm{kind}", f"instance_norm{kind}", inputs,
             lambda x, weight, bias: last(F.instance_norm(first(x), weight=weight, bias=bias)))


def dimensions(case):
    for write in (convolutions, pooling, norms):
        write(case)
