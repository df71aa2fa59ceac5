"""Golden values of the functions that index, scan, sort and rearrange, forward and backward (golden_ops.py has the form)."""
import numpy as np
import torch
import torch.nn.functional as F

from golden_ops import draw, draw_integers


def indexing(case):
    x, source = draw("index.x", (4, 5, 3)), draw("index.source", (4, 7, 3))
    index = draw_integers("index.index", (4, 7, 3), 0, 5)
    case("gather", "gather", {"x": x, "i": index}, lambda x, i: x.gather(1, i))
    case("gather.part", "gather", {"x": x, "i": index[:2, :, :2]}, lambda x, i: x.gather(1, i))
    case("scatter_add", "scatter_add", {"x": x, "i": index, "s": source}, lambda x, i, s: x.scatter_add(1, i, s))
    case("scatter_add.part", "scatter_add", {"x": x, "i": index[:2, :3], "s": source[:2, :3]},
         lambda x, i, s: x.scatter_add(1, i, s))
    for name in ("sum", "mean", "prod", "amax", "amin"):
        for self in (True, False):
            case(f"scatter_{name}.{self}", f"scatter_{name}_{'with' if self else 'without'}_self", {"x": x, "i": index, "s": source},
                 lambda x, i, s, name=name, self=self: x.scatter_reduce(1, i, s, name, include_self=self))
    unique = np.asarray([np.random.default_rng(k).permutation(5)[:3] for k in range(4)], dtype=np.int64)
    case("scatter", "scatter_last", {"x": draw("scatter.x", (4, 5)), "i": unique, "s": draw("scatter.s", (4, 3))},
         lambda x, i, s: x.scatter(1, i, s))
    row, part = np.asarray([4, 0, 4, 2]), draw("index.rows", (4, 4, 3))
    case("index_select", "index_select", {"x": x, "i": row}, lambda x, i: x.index_select(1, i))
    case("index_add", "index_add_2", {"x": x, "i": row, "s": part}, lambda x, i, s: x.index_add(1, i, s, alpha=2))
    case("index_copy", "index_copy", {"x": x, "i": row[1:], "s": part[:, 1:]}, lambda x, i, s: x.index_copy(1, i, s))
    case("index_fill", "index_fill", {"x": x, "i": row}, lambda x, i: x.index_fill(1, i, 1.5))
    case("take", "take", {"x": x, "i": np.asarray([[0, -1], [7, 7]])}, lambda x, i: x.take(i))
    case("take_along_dim", "take_along_dim", {"x": draw("along.x", (4, 1, 5)), "i": draw_integers("along.i", (1, 3, 2), 0, 5)},
         lambda x, i: x.take_along_dim(i, 2))
    pairs = {"x": x, "i": np.asarray([[3], [-1], [0]]), "j": np.asarray([1, -2])}
    case("index", "index", pairs, lambda x, i, j: x[i, j])
    case("index_put", "index_put", {**pairs, "i": np.asarray([[3], [1], [0]]), "s": draw("put.s", (2, 3))},
         lambda x, i, j, s: x.index_put((i, j), s))
    case("index_put.accumulate", "index_put_accumulate", {**pairs, "s": draw("put.s", (2, 3))},
         lambda x, i, j, s: x.index_put((i, j), s, accumulate=True))
    mask = draw("mask", (5, 3)) > 0
    case("masked_select", "masked_select", {"x": x, "m": mask}, lambda x, m: x.masked_select(m))
    case("masked_fill", "masked_fill", {"x": x, "m": mask}, lambda x, m: x.masked_fill(m, -1.5))
    case("nonzero", "nonzero", {"x": np.round(x)}, lambda x: x.nonzero(), fixed=("x",))
    bag = {"x": draw("bag.x", (6, 4)), "i": draw_integers("bag.i", (9,), 0, 6), "o": np.asarray([0, 3, 3, 8])}
    for mode in ("sum", "mean", "max"):
        case(f"embedding_bag.{mode}", f"embedding_bag_{mode}", bag, lambda x, i, o, mode=mode: F.embedding_bag(i, x, o, mode=mode))


def cumulative(case):
    x = draw("scan", (3, 6, 2))
    for name in ("cumsum", "cumprod", "logcumsumexp"):
        case(name, name, {"x": x}, lambda x, f=getattr(torch, name): f(x, 1))
    case("cumprod.zeros", "cumprod", {"x": np.asarray(x * (np.abs(x) > 0.4), dtype=np.float32)}, lambda x: x.cumprod(1))
    case("cumsum.whole", "cumsum", {"x": draw_integers("scan.whole", (3, 6), -9, 10)}, lambda x: x.cumsum(1))
    coarse = np.asarray(np.round(x * 2), dtype=np.float32)  # with equal elements
    for name in ("cummax", "cummin"):
        case(name, name, {"x": coarse}, lambda x, f=getattr(torch, name): dict(zip(("y", "at"), f(x, 1))))


def sorting(case):
    x = draw("sort", (3, 8, 2))
    coarse = np.asarray(np.round(x * 2), dtype=np.float32)
    odd = np.asarray([[1, np.nan, -np.inf, 0.0, np.inf, -1, np.nan]], dtype=np.float32)
    pair = lambda r: dict(zip(("y", "at"), r))
    for name, values in (("floats", x), ("ties", coarse), ("whole", draw_integers("sort.whole", (3, 8), -5, 6)), ("odd", odd)):
        fixed = ("x",) if name == "odd" else ()
        case(f"sort.{name}", "sort", {"x": values}, lambda x: pair(torch.sort(x, dim=1, stable=True)), fixed=fixed)
        case(f"sort.{name}.descending", "sort_descending", {"x": values},
             lambda x: pair(torch.sort(x, dim=1, stable=True, descending=True)), fixed=fixed)
    case("topk", "topk_3", {"x": x}, lambda x: pair(x.topk(3, dim=1)))
    case("topk.smallest", "topk_3_smallest", {"x": x}, lambda x: pair(x.topk(3, dim=1, largest=False)))
    case("kthvalue", "kthvalue_3", {"x": x}, lambda x: pair(x.kthvalue(3, dim=1)))
    case("median", "median", {"x": x}, lambda x: pair(x.median(dim=1)))
    case("median.all", "median_of_all", {"x": x}, lambda x: x.median())
    case("msort", "msort", {"x": x}, lambda x: x.msort())
    case("unique", "unique", {"x": coarse}, lambda x: dict(zip("yic", x.unique(return_inverse=True, return_counts=True))), fixed=("x",))
    case("unique_consecutive", "unique_consecutive", {"x": np.sort(coarse.reshape(-1))},
         lambda x: dict(zip("yic", x.unique_consecutive(return_inverse=True, return_counts=True))), fixed=("x",))
    case("bincount", "bincount", {"x": draw_integers("bincount", (20,), 0, 7)}, lambda x: x.bincount())
    case("histc", "histc", {"x": x}, lambda x: x.histc(5, -1, 1), fixed=("x",))
    edges = np.asarray([-1, 0, 0.5, 2], dtype=np.float32)
    case("bucketize", "bucketize", {"x": coarse, "b": edges}, lambda x, b: torch.bucketize(x, b), fixed=("x", "b"))
    case("bucketize.right", "bucketize_right", {"x": coarse, "b": edges}, lambda x, b: torch.bucketize(x, b, right=True),
         fixed=("x", "b"))
    rows = np.sort(draw("searched", (3, 5)), axis=1)
    case("searchsorted", "searchsorted", {"b": rows, "x": draw("values", (3, 4))}, lambda b, x: torch.searchsorted(b, x), fixed=("x", "b"))


def shapes(case):
    x = draw("shapes", (3, 4, 5))
    for name, f in {"flip": lambda x: x.flip(0, 2), "roll": lambda x: x.roll((2, -1), (1, 2)), "roll_all": lambda x: x.roll(7),
                    "rot90": lambda x: x.rot90(3, (0, 2)), "repeat": lambda x: x.repeat(2, 1, 2, 1), "tile": lambda x: x.tile((2, 1)),
                    "interleave": lambda x: x.repeat_interleave(2, 1), "step": lambda x: x[:, :, 1:5:2],
                    "diagonal": lambda x: x.diagonal(-1, 2, 1), "diag_embed": lambda x: x.diag_embed(1, 0, 2),
                    "unfold": lambda x: x.unfold(2, 3, 2), "movedim": lambda x: x.movedim((0, 1), (2, 0)),
                    "expand": lambda x: x[:, :1].expand(2, 3, 4, 5), "pad_constant": lambda x: F.pad(x, (1, -1, 2, 0), value=0.5),
                    "pad_reflect": lambda x: F.pad(x, (3, 1), mode="reflect"), "pad_replicate": lambda x: F.pad(x, (2, 3), mode="replicate"),
                    "pad_circular": lambda x: F.pad(x, (4, 2), mode="circular")}.items():
        case(name, name, {"x": x}, lambda x, f=f: f(x))
    times = np.asarray([0, 3, 1, 2])
    case("interleave.numbers", "interleave_numbers", {"x": x, "n": times}, lambda x, n: x.repeat_interleave(n, 1))
    image = draw("unfold2d", (2, 5, 6, 3))
    windows = dict(kernel_size=(3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2))

    def unfold2d(x):  # torch: (N, C kernel, windows) of (N, C, H, W)
        y = F.unfold(x.permute(0, 3, 1, 2), **windows)
        return y.reshape(2, 3, 6, 12).permute(0, 3, 2, 1).reshape(2, 12, 18)

    def fold2d(x):
        y = x.reshape(2, 12, 6, 3).permute(0, 3, 2, 1).reshape(2, 18, 12)
        return F.fold(y, (5, 6), **windows).permute(0, 2, 3, 1)

    case("unfold2d", "unfold2d", {"x": image}, unfold2d)
    case("fold2d", "fold2d", {"x": draw("fold2d", (2, 12, 18))}, fold2d)


def movement(case):
    for write in (indexing, cumulative, sorting, shapes):
        write(case)
