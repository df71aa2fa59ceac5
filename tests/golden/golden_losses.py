"""Golden values of the losses of docs/functions.md: every loss with every reduction, with weights, and with its edge cases,
forward and backward (golden_ops.py has the form; golden_ops.losses has the older cases)."""
import numpy as np
import torch
import torch.nn.functional as F

from golden_ops import draw, draw_integers

REDUCTIONS = ("none", "sum", "mean")


def signs(name, shape):
    return np.asarray(np.sign(draw(name, shape)), dtype=np.float32)


def each(case, name, op, inputs, function, params=None, fixed=(), reductions=REDUCTIONS):
    """One case for each reduction; `function` takes it as an argument."""
    for reduction in reductions:
        case(f"{name}.{reduction}", op, inputs, lambda _r=reduction, **t: function(reduction=_r, **t),
             {**(params or {}), "reduction": reduction}, fixed=fixed)


def classes_last(x):
    return x.movedim(-1, 1)


def cross_entropies(case):
    x, t = draw("losses.ce.x", (2, 3, 5)) * np.float32(2), draw_integers("losses.ce.t", (2, 3), 0, 5)
    partly = t.copy()
    partly[0, 1] = partly[1, 2] = -100
    w = draw("losses.ce.w", (5,), 0.2, 2)
    for kind, target, weight, smoothing in (("plain", t, None, 0.0), ("ignore", partly, None, 0.1), ("weight", partly, w, 0.0),
                                            ("weight_smooth", partly, w, 0.2)):
        inputs = {"x": x, "target": target} | ({} if weight is None else {"weight": weight})
        each(case, f"cross_entropy.{kind}", "cross_entropy", inputs,
             lambda x, target, reduction, weight=None, s=smoothing: F.cross_entropy(
                 classes_last(x), target, weight, reduction=reduction, label_smoothing=s),
             {"label_smoothing": smoothing}, fixed=("weight",))
    shares = np.asarray(torch.softmax(torch.from_numpy(draw("losses.ce.shares", (2, 3, 5))).double(), -1).numpy(), dtype=np.float32)
    for kind, weight, smoothing in (("soft", None, 0.0), ("soft_weight", w, 0.1)):
        inputs = {"x": x, "target": shares} | ({} if weight is None else {"weight": weight})
        each(case, f"cross_entropy.{kind}", "cross_entropy", inputs,
             lambda x, target, reduction, weight=None, s=smoothing: F.cross_entropy(
                 classes_last(x), classes_last(target), weight, reduction=reduction, label_smoothing=s),
             {"label_smoothing": smoothing}, fixed=("weight",))
    logp = np.asarray(np.round(torch.log_softmax(torch.from_numpy(x), -1).numpy(), 4), dtype=np.float32)
    for kind, weight in (("plain", None), ("weight", w)):
        inputs = {"x": logp, "target": partly} | ({} if weight is None else {"weight": weight})
        each(case, f"nll.{kind}", "nll", inputs,
             lambda x, target, reduction, weight=None: F.nll_loss(classes_last(x), target, weight, reduction=reduction), fixed=("weight",))


def binary(case):
    shape = (2, 3, 4)
    x, soft = draw("losses.bce.x", shape) * np.float32(3), draw("losses.bce.t", shape, 0, 1)
    hard = np.asarray(soft > 0.6, dtype=np.float32)
    p = draw("losses.bce.p", shape, 0.02, 0.98)
    w, pos = draw("losses.bce.w", (3, 1), 0.2, 2), draw("losses.bce.pos", (4,), 0.2, 5)
    each(case, "bce_with_logits.plain", "bce_with_logits", {"x": x, "target": soft},
         lambda x, target, reduction: F.binary_cross_entropy_with_logits(x, target, reduction=reduction))
    each(case, "bce_with_logits.weight", "bce_with_logits", {"x": x, "target": soft, "weight": w},
         lambda x, target, weight, reduction: F.binary_cross_entropy_with_logits(x, target, weight, reduction=reduction), fixed=("weight",))
    each(case, "bce_with_logits.both", "bce_with_logits", {"x": x, "target": soft, "weight": w, "pos_weight": pos},
         lambda x, target, weight, pos_weight, reduction: F.binary_cross_entropy_with_logits(
             x, target, weight, pos_weight=pos_weight, reduction=reduction), fixed=("weight", "pos_weight"))
    each(case, "bce.plain", "bce", {"x": p, "target": soft}, lambda x, target, reduction: F.binary_cross_entropy(x, target, reduction=reduction))
    each(case, "bce.weight", "bce", {"x": p, "target": soft, "weight": w},
         lambda x, target, weight, reduction: F.binary_cross_entropy(x, target, weight.expand(x.shape), reduction=reduction), fixed=("weight",))

    def focal(x, target, reduction, alpha, gamma):  # torchvision.ops.sigmoid_focal_loss
        q = torch.sigmoid(x)
        q = q * target + (1 - q) * (1 - target)
        losses = F.binary_cross_entropy_with_logits(x, target, reduction="none") * (1 - q) ** gamma
        if alpha >= 0:
            losses = (alpha * target + (1 - alpha) * (1 - target)) * losses
        return {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]
    for alpha, gamma in ((0.25, 2.0), (-1.0, 1.5)):
        each(case, f"focal.{gamma}", "focal", {"x": x, "target": hard},
             lambda x, target, reduction, a=alpha, g=gamma: focal(x, target, reduction, a, g), {"alpha": alpha, "gamma": gamma}, fixed=("target",))


def regression(case):
    x, t = draw("losses.x", (3, 5)), draw("losses.t", (3, 5))
    each(case, "mse", "mse", {"x": x, "target": t}, lambda x, target, reduction: F.mse_loss(x, target, reduction=reduction))
    each(case, "l1", "l1", {"x": x, "target": t}, lambda x, target, reduction: F.l1_loss(x, target, reduction=reduction))
    each(case, "huber", "huber", {"x": x, "target": t}, lambda x, target, reduction: F.huber_loss(x, target, delta=0.4, reduction=reduction))
    for beta in (1.0, 0.3, 0.0):
        each(case, f"smooth_l1.{beta}", "smooth_l1", {"x": x, "target": t},
             lambda x, target, reduction, b=beta: F.smooth_l1_loss(x, target, beta=b, reduction=reduction), {"beta": beta})
    q = np.asarray(torch.softmax(torch.from_numpy(draw("losses.kl", (3, 5))).double(), -1).numpy(), dtype=np.float32)
    each(case, "kl_div", "kl_div", {"x": x, "target": q}, lambda x, target, reduction: F.kl_div(x, target, reduction=reduction),
         reductions=(*REDUCTIONS, "batchmean"))
    counts = np.asarray(draw_integers("losses.counts", (3, 5), 0, 6), dtype=np.float32)
    rates = draw("losses.rates", (3, 5), 0.1, 4)
    for full in (False, True):
        kind = "full" if full else "plain"
        each(case, f"poisson_nll.{kind}", "poisson_nll", {"x": x, "target": counts},
             lambda x, target, reduction, f=full: F.poisson_nll_loss(x, target, full=f, reduction=reduction), {"log_input": True, "full": full}, fixed=("target",))
        each(case, f"poisson_nll.rate_{kind}", "poisson_nll", {"x": rates, "target": counts},
             lambda x, target, reduction, f=full: F.poisson_nll_loss(x, target, log_input=False, full=f, reduction=reduction),
             {"log_input": False, "full": full}, fixed=("target",))
        small = draw("losses.variance", (3, 5), 0.1, 2)
        small[0, 1] = small[2, 2] = 0  # below eps
        for shape, v in (("full", small), ("rows", draw("losses.variance.rows", (3,), 0.1, 2)), ("column", draw("losses.variance.column", (3, 1), 0.1, 2))):
            each(case, f"gaussian_nll.{shape}_{kind}", "gaussian_nll", {"x": x, "target": t, "variance": v},
                 lambda x, target, variance, reduction, f=full: F.gaussian_nll_loss(x, target, variance, full=f, eps=0.01, reduction=reduction),
                 {"full": full, "eps": 0.01})


def margins(case):
    x, y = draw("losses.m.x", (3, 5)), signs("losses.m.y", (3, 5))
    each(case, "hinge_embedding", "hinge_embedding", {"x": x, "target": y},
         lambda x, target, reduction: F.hinge_embedding_loss(x, target, margin=0.7, reduction=reduction), {"margin": 0.7}, fixed=("target",))
    each(case, "margin_ranking", "margin_ranking", {"a": x, "b": draw("losses.m.b", (3, 5)), "target": y},
         lambda a, b, target, reduction: F.margin_ranking_loss(a, b, target, margin=0.2, reduction=reduction), {"margin": 0.2}, fixed=("target",))
    each(case, "soft_margin", "soft_margin", {"x": x * np.float32(4), "target": y},
         lambda x, target, reduction: F.soft_margin_loss(x, target, reduction=reduction), fixed=("target",))
    labels, w = draw_integers("losses.m.labels", (3,), 0, 5), draw("losses.m.w", (5,), 0.2, 2)
    for p in (1, 2):
        each(case, f"multi_margin.{p}", "multi_margin", {"x": x, "target": labels},
             lambda x, target, reduction, p=p: F.multi_margin_loss(x, target, p=p, margin=0.8, reduction=reduction), {"p": p, "margin": 0.8})
        each(case, f"multi_margin.weight_{p}", "multi_margin", {"x": x, "target": labels, "weight": w},
             lambda x, target, weight, reduction, p=p: F.multi_margin_loss(x, target, p=p, margin=0.8, weight=weight, reduction=reduction),
             {"p": p, "margin": 0.8}, fixed=("weight",))
    lists = np.asarray([[3, 0, -1, 1, 2], [-1, 1, 1, 1, 1], [4, 1, 2, 3, 0]], dtype=np.int64)
    each(case, "multilabel_margin", "multilabel_margin", {"x": x, "target": lists},
         lambda x, target, reduction: F.multilabel_margin_loss(x, target, reduction=reduction))
    hard = np.asarray(y > 0, dtype=np.float32)
    each(case, "multilabel_soft_margin.plain", "multilabel_soft_margin", {"x": x, "target": hard},
         lambda x, target, reduction: F.multilabel_soft_margin_loss(x, target, reduction=reduction), fixed=("target",))
    each(case, "multilabel_soft_margin.weight", "multilabel_soft_margin", {"x": x, "target": hard, "weight": w},
         lambda x, target, weight, reduction: F.multilabel_soft_margin_loss(x, target, weight, reduction=reduction), fixed=("target", "weight"))
    a, b, c = (draw(f"losses.rows.{k}", (4, 3)) for k in "abc")
    each(case, "cosine_embedding", "cosine_embedding", {"a": a, "b": b, "target": np.asarray([1, -1, -1, 1], dtype=np.float32)},
         lambda a, b, target, reduction: F.cosine_embedding_loss(a, b, target, margin=0.1, reduction=reduction), {"margin": 0.1}, fixed=("target",))
    for kind, p, swap in (("plain", 2.0, False), ("swap", 2.0, True), ("p1", 1.0, False)):
        each(case, f"triplet_margin.{kind}", "triplet_margin", {"a": a, "b": b, "c": c},
             lambda a, b, c, reduction, p=p, s=swap: F.triplet_margin_loss(a, b, c, margin=1.5, p=p, swap=s, reduction=reduction),
             {"margin": 1.5, "p": p, "swap": swap})
    for p in (1.0, 2.0, 3.0):
        case(f"pairwise_distance.{p}", "pairwise_distance", {"a": a, "b": b}, lambda a, b, p=p: F.pairwise_distance(a, b, p=p), {"p": p, "keepdim": False})
    case("pairwise_distance.keepdim", "pairwise_distance", {"a": a, "b": b}, lambda a, b: F.pairwise_distance(a, b, keepdim=True), {"p": 2.0, "keepdim": True})
    images, other = draw("losses.images", (2, 3, 4)), draw("losses.images.b", (3, 4))
    for axis in (1, -1):
        case(f"cosine_similarity.{axis}", "cosine_similarity", {"a": images, "b": other}, lambda a, b, axis=axis: F.cosine_similarity(a, b, dim=axis),
             {"axis": axis})


def overlaps(case):
    p, t = draw("losses.overlap.p", (2, 3, 4), 0, 1), np.asarray(draw("losses.overlap.t", (2, 3, 4)) > 0, dtype=np.float32)

    def tversky(x, target, alpha, beta, smooth):
        hits, fp, fn = (x * target).sum(), (x * (1 - target)).sum(), ((1 - x) * target).sum()
        return 1 - (hits + smooth) / (hits + alpha * fp + beta * fn + smooth)
    for alpha, beta, smooth in ((0.5, 0.5, 1.0), (0.3, 0.7, 0.0)):
        case(f"tversky.{alpha}", "tversky", {"x": p, "target": t}, lambda x, target, a=alpha, b=beta, s=smooth: tversky(x, target, a, b, s),
             {"alpha": alpha, "beta": beta, "smooth": smooth})
    x, labels = draw("losses.dice.x", (2, 3, 4)) * np.float32(2), draw_integers("losses.dice.t", (2, 3), 0, 4)
    labels[0, 2] = -100

    def dice(x, target, background, reduction):
        kept = (target != -100).unsqueeze(-1)
        q, hot = torch.softmax(x, -1) * kept, F.one_hot(target.clamp(min=0), x.shape[-1]) * kept
        losses = 1 - (2 * (q * hot).sum((0, 1)) + 0.5) / (q.sum((0, 1)) + hot.sum((0, 1)) + 0.5)
        losses = losses if background else losses[1:]
        return {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]
    for background in (True, False):
        each(case, f"multiclass_dice.{'all' if background else 'foreground'}", "multiclass_dice", {"x": x, "target": labels},
             lambda x, target, reduction, b=background: dice(x, target, b, reduction), {"background": background})
    w = draw("losses.dice.w", (4,), 0.2, 2)
    case("dice_cross_entropy", "dice_cross_entropy", {"x": x, "target": labels, "weight": w},
         lambda x, target, weight: 0.7 * dice(x, target, False, "mean") + 1.3 * F.cross_entropy(classes_last(x), target, weight, label_smoothing=0.1),
         fixed=("weight",))


def ctc(case):
    """The inputs are logits, which go through log_softmax. PyTorch's gradient by log-probabilities is different (core/ops/ctc.h)."""
    steps, samples, classes = 9, 4, 5
    x = draw("losses.ctc.x", (steps, samples, classes))
    targets = np.asarray([[1, 2, 2, 4], [3, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]], dtype=np.int64)
    inputs, lengths = np.asarray([9, 4, 7, 5], dtype=np.int64), np.asarray([4, 1, 3, 0], dtype=np.int64)
    short = np.asarray([4, 4, 4, 5], dtype=np.int64)  # too short for the first and the third
    last = np.where(targets == 0, 0, targets - 1)

    def loss(x, target, inputs, lengths, reduction, blank=0, zero_infinity=False):
        return F.ctc_loss(torch.log_softmax(x, -1), target, inputs, lengths, blank, reduction, zero_infinity)
    each(case, "ctc.plain", "ctc", {"x": x, "target": targets, "inputs": inputs, "lengths": lengths}, loss, {"blank": 0, "zero_infinity": False})
    each(case, "ctc.last_blank", "ctc", {"x": x, "target": last, "inputs": inputs, "lengths": lengths},
         lambda **t: loss(blank=4, **t), {"blank": 4, "zero_infinity": False})
    flat = np.concatenate([row[:n] for row, n in zip(targets, lengths)])
    each(case, "ctc.concatenated", "ctc", {"x": x, "target": flat, "inputs": inputs, "lengths": lengths}, loss, {"blank": 0, "zero_infinity": False})
    each(case, "ctc.no_path", "ctc", {"x": x, "target": targets, "inputs": short, "lengths": lengths},
         lambda **t: loss(zero_infinity=True, **t), {"blank": 0, "zero_infinity": True})
    one = {"x": x[:, 0], "target": targets[0], "inputs": inputs[0], "lengths": lengths[0]}
    each(case, "ctc.one_sample", "ctc", one, loss, {"blank": 0, "zero_infinity": False})


def losses(case):
    for family in (cross_entropies, binary, regression, margins, overlaps, ctc):
        family(case)
