"""Golden values of linear algebra, forward and backward (golden_ops.py has the form). The signs that PyTorch
leaves to LAPACK are changed to those of Binade's rule by constant factors, which do not change the derivatives."""
import numpy as np
import torch

from golden_ops import draw


def near_identity(name, shape):
    """Random matrices with distinct singular values around 1.5 and condition numbers below about 10."""
    x = draw(name, shape, -0.5, 0.5)
    return np.asarray(x + 1.5 * np.eye(shape[-2], shape[-1], dtype=np.float32) * (1 + 0.3 * np.arange(shape[-1])), dtype=np.float32)


def symmetric(x):
    return (x + x.mT) / 2


def signs(columns):
    """The factors (1 or -1) that make the leading element of each column positive: the first element with at least 0.99 of the
    largest magnitude."""
    size = columns.detach().abs()
    leading = (size >= 0.99 * size.amax(-2, keepdim=True)).double().argmax(-2, keepdim=True)
    return columns.detach().gather(-2, leading).sign()


def qr(x, mode="reduced"):
    q, r = torch.linalg.qr(x, mode)
    sign = torch.ones(q.shape[-1], dtype=x.dtype)
    d = r.detach().diagonal(dim1=-2, dim2=-1).sign()
    sign = torch.cat([d, torch.ones(d.shape[:-1] + (q.shape[-1] - d.shape[-1],), dtype=x.dtype)], -1)
    return {"q": q * sign.unsqueeze(-2), "r": r * sign.unsqueeze(-1)}


def eigh(x):
    w, v = torch.linalg.eigh(symmetric(x))
    return {"w": w, "v": v * signs(v)}


def svd(x):
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    sign = signs(u)
    return {"u": u * sign, "s": s, "vh": vh * sign.mT}


def slogdet(x):
    sign, logabsdet = torch.linalg.slogdet(x)
    return {"sign": sign.detach(), "y": logabsdet}


def factors(x):
    p, l, u = torch.linalg.lu(x)
    return {"p": p.detach(), "l": l, "u": u}


def lstsq(a, b):
    x = torch.linalg.lstsq(a, b, driver="gelsd").solution
    return {"y": x, "rest": ((a @ x - b) ** 2).sum(-2)}


def decompositions(case):
    square, batch = near_identity("linalg.square", (4, 4)), near_identity("linalg.batch", (2, 3, 3))
    tall, wide = near_identity("linalg.tall", (5, 3)), near_identity("linalg.wide", (2, 3, 5))
    swapped = np.ascontiguousarray(square[::-1])
    for name, x in (("square", square), ("batch", batch)):
        case(f"cholesky.{name}", "cholesky", {"x": x}, lambda x: torch.linalg.cholesky(x @ x.mT))
        case(f"cholesky_upper.{name}", "cholesky_upper", {"x": x}, lambda x: torch.linalg.cholesky(x @ x.mT, upper=True))
        case(f"eigh.{name}", "eigh", {"x": x}, eigh)
        case(f"eigvalsh.{name}", "eigvalsh", {"x": x}, lambda x: torch.linalg.eigvalsh(symmetric(x)))
    for name, x in (("square", square), ("batch", batch), ("swapped", swapped)):
        case(f"inverse.{name}", "inverse", {"x": x}, lambda x: torch.linalg.inv(x))
        case(f"det.{name}", "det", {"x": x}, lambda x: torch.linalg.det(x))
        case(f"slogdet.{name}", "slogdet", {"x": x}, slogdet)
        case(f"matrix_exp.{name}", "matrix_exp", {"x": x}, lambda x: torch.linalg.matrix_exp(x))
        for power in (0, 1, 5, -2):
            case(f"matrix_power.{power}.{name}", f"matrix_power_{power}", {"x": x},
                 lambda x, n=power: torch.linalg.matrix_power(x, n), fixed=("x",) if power == 0 else ())
    for name, x in (("square", square), ("swapped", swapped), ("tall", tall), ("wide", wide)):
        case(f"lu.{name}", "lu", {"x": x}, factors)
        case(f"qr.{name}", "qr", {"x": x}, qr)
        case(f"svd.{name}", "svd", {"x": x}, svd)
        case(f"svdvals.{name}", "svdvals", {"x": x}, lambda x: torch.linalg.svdvals(x))
        case(f"pinv.{name}", "pinv", {"x": x}, lambda x: torch.linalg.pinv(x))
        case(f"matrix_rank.{name}", "matrix_rank", {"x": x}, lambda x: torch.linalg.matrix_rank(x), fixed=("x",))
        for which in ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")):
            case(f"matrix_norm.{which}.{name}", f"matrix_norm_{which}", {"x": x},
                 lambda x, which=which: torch.linalg.matrix_norm(x, which))
    case("qr.complete", "qr_complete", {"x": wide}, lambda x: qr(x, "complete"))
    low_rank = np.asarray(np.outer([1, 2, 3], [1, -1, 2]), dtype=np.float32)
    case("matrix_rank.one", "matrix_rank", {"x": low_rank}, lambda x: torch.linalg.matrix_rank(x), fixed=("x",))
    case("pinv.one", "pinv", {"x": low_rank}, lambda x: torch.linalg.pinv(x))
    for which in (2, -2):
        case(f"cond.{which}", f"cond_{which}", {"x": square}, lambda x, which=which: torch.linalg.cond(x, which))
    norm = torch.linalg.matrix_norm  # PyTorch cannot differentiate its other condition numbers
    case("cond.1", "cond_1", {"x": square}, lambda x: norm(x, 1) * norm(torch.linalg.inv(x), 1))


def solutions(case):
    a, b = near_identity("linalg.a", (2, 4, 4)), draw("linalg.b", (2, 4, 3))
    case("solve", "solve", {"a": a, "b": b}, lambda a, b: torch.linalg.solve(a, b))
    case("solve.broadcast", "solve", {"a": a, "b": b[0]}, lambda a, b: torch.linalg.solve(a, b))
    case("solve.vectors", "solve", {"a": a, "b": b[:, :, 0]}, lambda a, b: torch.linalg.solve(a, b))
    case("solve.vector", "solve", {"a": a[0], "b": b[0, :, 0]}, lambda a, b: torch.linalg.solve(a, b))
    for upper in (False, True):
        for unit in (False, True):
            case(f"triangular_solve.{upper}.{unit}", f"triangular_solve_{'upper' if upper else 'lower'}{'_unit' if unit else ''}",
                 {"a": a, "b": b}, lambda a, b, u=upper, i=unit: torch.linalg.solve_triangular(a, b, upper=u, unitriangular=i))
    case("triangular_solve.right", "triangular_solve_right", {"a": a, "b": np.ascontiguousarray(b.transpose(0, 2, 1))},
         lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, left=False))
    case("cholesky_solve", "cholesky_solve", {"a": a, "b": b}, lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a @ a.mT)))
    case("lstsq.square", "lstsq_solution", {"a": a, "b": b}, lambda a, b: lstsq(a, b)["y"])
    tall = near_identity("linalg.lstsq", (6, 3))
    case("lstsq.tall", "lstsq", {"a": tall, "b": draw("linalg.lstsq.b", (6, 2))}, lambda a, b: lstsq(a, b))
    case("lstsq.wide", "lstsq_solution", {"a": np.ascontiguousarray(tall.T), "b": draw("linalg.lstsq.c", (3, 2))},
         lambda a, b: lstsq(a, b)["y"])


def products(case):
    for equation, shapes in (("bhqk,bkhd->bqhd", ((2, 2, 3, 4), (2, 4, 2, 5))), ("...ij,...jk", ((2, 1, 3, 4), (3, 4, 2))),
                             ("ii->i", ((3, 3),)), ("i,ijk,k->j", ((2,), (2, 3, 4), (4,)))):
        names = "abc"[:len(shapes)]
        inputs = {n: draw(f"einsum.{equation}.{n}", s) for n, s in zip(names, shapes)}
        case(f"einsum.{equation}", "einsum", inputs, lambda e=equation, **x: torch.einsum(e, *x.values()), {"equation": equation})
    u, v, m, n = draw("products.u", (3,)), draw("products.v", (3,)), draw("products.m", (3, 4)), draw("products.n", (4, 2))
    case("dot", "dot", {"a": u, "b": v}, lambda a, b: torch.dot(a, b))
    case("outer", "outer", {"a": u, "b": v}, lambda a, b: torch.outer(a, b))
    case("mv", "mv", {"a": m, "b": draw("products.w", (4,))}, lambda a, b: torch.mv(a, b))
    case("vecdot", "vecdot", {"a": m, "b": draw("products.x", (2, 3, 4))}, lambda a, b: torch.linalg.vecdot(a, b))
    three = draw("products.cross", (2, 3, 3))
    case("cross", "cross", {"a": three, "b": u}, lambda a, b: torch.linalg.cross(a, b.expand(2, 3, 3)))
    deep = draw("products.deep", (3, 4, 2))
    case("tensordot", "tensordot_2", {"a": draw("products.c", (5, 3, 4)), "b": deep}, lambda a, b: torch.tensordot(a, b, 2))
    case("tensordot.axes", "tensordot_axes", {"a": draw("products.d", (4, 5, 3)), "b": deep},
         lambda a, b: torch.tensordot(a, b, ([0, 2], [1, 0])))
    case("kron", "kron", {"a": m, "b": n}, lambda a, b: torch.kron(a, b))
    case("kron.ranks", "kron", {"a": u, "b": deep}, lambda a, b: torch.kron(a, b))
    case("multi_dot", "multi_dot", {"a": u, "b": m, "c": n}, lambda a, b, c: torch.linalg.multi_dot([a, b, c]))
    x, batch = draw("products.y", (3, 2)), draw("products.batch", (2, 3, 4))
    case("addmm", "addmm", {"x": x, "a": m, "b": n}, lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=2))
    case("addmv", "addmv", {"x": u, "a": m, "b": draw("products.w", (4,))}, lambda x, a, b: torch.addmv(x, a, b, beta=0.5, alpha=2))
    case("addr", "addr", {"x": draw("products.z", (3, 3)), "a": u, "b": v}, lambda x, a, b: torch.addr(x, a, b, beta=0.5, alpha=2))
    case("baddbmm", "baddbmm", {"x": x, "a": batch, "b": draw("products.f", (2, 4, 2))},
         lambda x, a, b: torch.baddbmm(x, a, b, beta=0.5, alpha=2))
    case("addbmm", "addbmm", {"x": x, "a": batch, "b": draw("products.f", (2, 4, 2))},
         lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=2))
    case("bilinear", "bilinear", {"a": draw("products.g", (2, 5, 3)), "b": draw("products.h", (2, 5, 4)), "w": draw("products.k", (2, 3, 4)),
                                  "bias": draw("products.l", (2,))}, lambda a, b, w, bias: torch.nn.functional.bilinear(a, b, w, bias))
    for p in (1.0, 2.0, 3.0, float("inf")):
        case(f"cdist.{p}", "cdist", {"a": batch, "b": draw("products.o", (5, 4))}, lambda a, b, p=p: torch.cdist(a, b.expand(2, 5, 4), p), {"p": p})
    case("trace", "trace", {"x": m}, lambda x: torch.trace(x))
    case("block_diag", "block_diag", {"a": m, "b": n}, lambda a, b: torch.block_diag(a, b))
    case("vander", "vander", {"x": u}, lambda x: torch.linalg.vander(x))
    case("vander.descending", "vander_descending_4", {"x": u}, lambda x: torch.linalg.vander(x, N=4).flip(-1))


def linalg(case):
    for write in (decompositions, solutions, products):
        write(case)
