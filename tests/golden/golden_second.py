"""Golden values of second derivatives: gradient penalties of small networks and the penalties' parameter gradients."""
import torch
import torch.nn.functional as F

from golden_ops import draw, gelu_exact, nchw, nhwc


def slope_of(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def mlp(x, w1, b1, w2, b2, w3):
    h = gelu_exact(F.linear(x, w1, b1))
    return F.linear(torch.tanh(F.linear(h, w2, b2)), w3)


def mlp_penalty(x, **weights):
    slope = slope_of(mlp(x, **weights), x)
    return {"y": ((slope.pow(2).sum(1).sqrt() - 1) ** 2).mean(), "slope": slope}


def conv_penalty(x, w1, b1, weight, bias, w2):
    h = nhwc(F.conv2d(nchw(x), nchw(w1), b1, stride=2, padding=1))
    h = F.silu(nhwc(F.group_norm(nchw(h), 2, weight, bias, eps=1e-5)))
    y = nhwc(F.conv2d(nchw(h), nchw(w2)))
    slope = slope_of(y.pow(2), x)
    return {"y": slope.pow(2).sum((1, 2, 3)).mean(), "slope": slope}


def second(case):
    shapes = {"x": (4, 3), "w1": (6, 3), "b1": (6,), "w2": (5, 6), "b2": (5,), "w3": (1, 5)}
    case("gradient_penalty.mlp", "mlp_penalty", {k: draw(f"second.mlp.{k}", s) for k, s in shapes.items()}, mlp_penalty)
    shapes = {"x": (2, 5, 6, 2), "w1": (4, 3, 3, 2), "b1": (4,), "weight": (4,), "bias": (4,), "w2": (1, 2, 2, 4)}
    case("gradient_penalty.conv", "conv_penalty", {k: draw(f"second.conv.{k}", s) for k, s in shapes.items()}, conv_penalty)
