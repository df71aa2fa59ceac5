"""Golden values of modules and of functions for them, forward and backward (golden_ops.py has the form). Inputs that are
parameters have Binade's names ("attention.query.weight"). Layers that PyTorch has are computed by it; rotary positions,
ALiBi, windows, soft caps and LoRA are written out here."""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch.func import functional_call

from golden_ops import draw, draw_integers, nchw, nhwc


def linear_inputs(name, inputs, outputs):
    return {f"{name}.weight": draw(f"{name}.w", (outputs, inputs)) * np.float32(0.5), f"{name}.bias": draw(f"{name}.b", (outputs,))}


def norm_inputs(name, dim):
    return {f"{name}.weight": draw(f"{name}.w", (dim,), 0.5, 1.5), f"{name}.bias": draw(f"{name}.b", (dim,))}


def attention_inputs(prefix, dim, key_dim=None, value_dim=None, key_width=None, value_width=None, out=None, query_width=None):
    """Parameters of MultiHeadAttention."""
    return {**linear_inputs(prefix + "query", dim, query_width or dim), **linear_inputs(prefix + "key", key_dim or dim, key_width or dim),
            **linear_inputs(prefix + "value", value_dim or dim, value_width or dim), **linear_inputs(prefix + "out", out or dim, dim)}


def torch_attention(p, prefix, separate=False):
    """The parameters of torch.nn.MultiheadAttention from Binade's."""
    q, k, v = (p[f"{prefix}{part}.weight"] for part in ("query", "key", "value"))
    weights = {"q_proj_weight": q, "k_proj_weight": k, "v_proj_weight": v} if separate else {"in_proj_weight": torch.cat([q, k, v])}
    return {**weights, "in_proj_bias": torch.cat([p[f"{prefix}{part}.bias"] for part in ("query", "key", "value")]),
            "out_proj.weight": p[prefix + "out.weight"], "out_proj.bias": p[prefix + "out.bias"]}


def rotate(x, base=10000.0, width=None, neighbors=False, begin=0):
    """Rotary positions of x (B, T, H, D), by complex multiplication."""
    tokens, depth = x.shape[1], x.shape[3]
    width = width or depth
    i = torch.arange(width // 2, dtype=torch.float64)
    angles = torch.arange(begin, begin + tokens, dtype=torch.float64)[:, None] * base ** (-2 * i / width)
    turn = torch.polar(torch.ones_like(angles), angles)[None, :, None, :]
    first, rest = x[..., :width], x[..., width:]
    if neighbors:
        pairs = torch.view_as_complex(first.reshape(*first.shape[:-1], width // 2, 2).contiguous())
        y = torch.view_as_real(pairs * turn).reshape(first.shape)
    else:
        pairs = torch.complex(first[..., :width // 2], first[..., width // 2:]) * turn
        y = torch.cat([pairs.real, pairs.imag], -1)
    return torch.cat([y, rest], -1)


def slopes(heads):
    power = 2 ** int(math.floor(math.log2(heads)))
    of = lambda n: [2 ** (-8 * (i + 1) / n) for i in range(n)]
    return torch.tensor(of(power) + of(2 * power)[0::2][:heads - power], dtype=torch.float64)


def attend(p, x, heads, keys=None, values=None, groups=None, causal=False, rotary=None, alibi=False, window=0, softcap=0.0):
    """Attention written out, with parameters p."""
    keys, values, groups = x if keys is None else keys, x if values is None else values, groups or heads
    part = lambda y, name, n: F.linear(y, p[name + ".weight"], p[name + ".bias"]).reshape(y.shape[0], y.shape[1], n, -1)
    q, k, v = part(x, "query", heads), part(keys, "key", groups), part(values, "value", groups)
    queries, count = q.shape[1], k.shape[1]
    if rotary is not None:
        q, k = rotate(q, begin=max(0, count - queries), **rotary), rotate(k, begin=max(0, queries - count), **rotary)
    k, v = k.repeat_interleave(heads // groups, 2), v.repeat_interleave(heads // groups, 2)
    logits = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[3])
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    position = torch.arange(queries)[:, None] + count - queries
    distance = position - torch.arange(count)[None, :]
    if alibi:
        logits = logits - slopes(heads)[:, None, None] * distance.abs()
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if causal:
        hidden = hidden | (distance < 0)
    if window:
        hidden = hidden | (distance.abs() >= window)
    y = torch.einsum("bhts,bshd->bthd", logits.masked_fill(hidden, -math.inf).softmax(-1), v)
    return F.linear(y.flatten(2), p["out.weight"], p["out.bias"])


def attentions(case):
    keep = np.asarray([[True, True, False, True], [True, False, True, True]])
    mha = torch.nn.MultiheadAttention(8, 2, kdim=5, vdim=6, batch_first=True, dtype=torch.float64)
    case("attention.cross", "attention_cross", {"x": draw("cross.x", (2, 3, 8)), "k": draw("cross.k", (2, 4, 5)), "v": draw("cross.v", (2, 4, 6)),
                                                "keep": keep, **attention_inputs("", 8, 5, 6)},
         lambda x, k, v, keep, **p: functional_call(mha, torch_attention(p, "", True), (x, k, v),
                                                    {"key_padding_mask": ~keep, "need_weights": False})[0])
    own = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    mask = draw("attention.mask", (4, 4))
    case("attention.masks", "attention_masks", {"x": draw("masks.x", (2, 4, 8)), "mask": mask, "keep": keep, **attention_inputs("", 8)},
         lambda x, mask, keep, **p: functional_call(own, torch_attention(p, ""), (x, x, x), {
             "key_padding_mask": torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -math.inf), "attn_mask": mask,
             "need_weights": False})[0], fixed=("mask",))
    x = draw("attention.x", (1, 5, 8))
    plain = attention_inputs("", 8)
    for name, options in {"rotary": {"causal": True, "rotary": {}}, "rotary_neighbors": {"rotary": {"neighbors": True, "base": 100.0}},
                          "rotary_part": {"causal": True, "rotary": {"width": 2}}, "window": {"causal": True, "window": 2},
                          "window_both": {"window": 2, "alibi": True}, "softcap": {"causal": True, "softcap": 1.5}}.items():
        case(f"attention.{name}", f"attention_{name}", {"x": x, **plain}, lambda x, o=options, **p: attend(p, x, 2, **o))
    three = {"x": draw("alibi.x", (1, 5, 6)), **attention_inputs("", 6)}
    for name, options in {"alibi": {"causal": True, "alibi": True}, "alibi_both": {"alibi": True}}.items():
        case(f"attention.{name}", f"attention_{name}", three, lambda x, o=options, **p: attend(p, x, 3, **o))
    grouped = attention_inputs("", 8, key_width=6, value_width=4, query_width=12, out=8)
    case("attention.widths", "attention_widths", {"x": x, **grouped}, lambda x, **p: attend(p, x, 4, groups=2, causal=True))
    case("attention.rotary_cross", "attention_rotary_cross", {"x": draw("rotary.q", (1, 2, 8)), "k": x, **plain},
         lambda x, k, **p: attend(p, x, 2, k, k, causal=True, rotary={}))
    table = {"x": draw("rotary.x", (2, 3, 2, 6))}
    case("rotary", "rotary_halves", table, lambda x: rotate(x, begin=2))
    case("rotary.neighbors", "rotary_neighbors", table, lambda x: rotate(x, base=50.0, width=4, neighbors=True))


def layer_inputs(prefix, dim, hidden, decoder=False):
    inputs = {**attention_inputs(prefix + "attention.", dim), **linear_inputs(prefix + "up", dim, hidden),
              **linear_inputs(prefix + "down", hidden, dim), **norm_inputs(prefix + "norm1", dim), **norm_inputs(prefix + "norm2", dim)}
    if decoder:
        inputs |= {**attention_inputs(prefix + "cross.", dim), **norm_inputs(prefix + "norm3", dim)}
    return inputs


def torch_layer(p, prefix="", decoder=False):
    parts = {"linear1": "up", "linear2": "down", "norm1": "norm1", "norm2": "norm2", **({"norm3": "norm3"} if decoder else {})}
    state = {f"{to}.{kind}": p[f"{prefix}{of}.{kind}"] for to, of in parts.items() for kind in ("weight", "bias")}
    state |= {f"self_attn.{k}": v for k, v in torch_attention(p, prefix + "attention.").items()}
    if decoder:
        state |= {f"multihead_attn.{k}": v for k, v in torch_attention(p, prefix + "cross.").items()}
    return state


def transformers(case):
    make = dict(d_model=8, nhead=2, dim_feedforward=6, dropout=0.0, batch_first=True, dtype=torch.float64)
    x, memory = draw("layer.x", (2, 3, 8)), draw("layer.memory", (2, 4, 8))
    causal = torch.nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
    for name, options in {"post": {}, "pre": {"norm_first": True, "activation": "gelu"}}.items():
        encoder = torch.nn.TransformerEncoderLayer(**make, **options)
        case(f"encoder_layer.{name}", f"encoder_layer_{name}", {"x": x, **layer_inputs("", 8, 6)},
             lambda x, m=encoder, **p: functional_call(m, torch_layer(p), (x,)))
        decoder = torch.nn.TransformerDecoderLayer(**make, **options)
        case(f"decoder_layer.{name}", f"decoder_layer_{name}", {"x": x, "memory": memory, **layer_inputs("", 8, 6, True)},
             lambda x, memory, m=decoder, **p: functional_call(m, torch_layer(p, decoder=True), (x, memory), {"tgt_mask": causal}))
    stack = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(**make, norm_first=True, activation="gelu"), 2, torch.nn.LayerNorm(8, dtype=torch.float64),
                                        enable_nested_tensor=False)
    case("encoder", "encoder", {"x": x, **layer_inputs("layers.0.", 8, 6), **layer_inputs("layers.1.", 8, 6), **norm_inputs("norm", 8)},
         lambda x, **p: functional_call(stack, {**{f"layers.{i}.{k}": v for i in (0, 1) for k, v in torch_layer(p, f"layers.{i}.").items()},
                                                "norm.weight": p["norm.weight"], "norm.bias": p["norm.bias"]}, (x,)))


def wrappers(case):
    x = draw("wrapped.x", (3, 5))
    case("weight_norm", "weight_norm", {"x": x, "weight_g": draw("weight_g", (4, 1)), "weight_v": draw("weight_v", (4, 5)), "bias": draw("wb", (4,))},
         lambda x, weight_g, weight_v, bias: F.linear(x, torch._weight_norm(weight_v, weight_g, 0), bias))
    image = draw("wrapped.image", (1, 3, 3, 2))
    case("weight_norm.transposed", "weight_norm_transposed", {"x": image, "weight_g": draw("gt", (1, 1, 1, 3)), "weight_v": draw("vt", (2, 2, 2, 3))},
         lambda x, weight_g, weight_v: nhwc(F.conv_transpose2d(nchw(x), torch._weight_norm(weight_v.permute(0, 3, 1, 2), weight_g.permute(0, 3, 1, 2), 1))))
    unit = lambda name, n: np.asarray(draw(name, (n,)) / np.linalg.norm(draw(name, (n,))), dtype=np.float32)
    case("spectral_norm", "spectral_norm", {"x": x, "weight_orig": draw("ws", (4, 5)), "bias": draw("bs", (4,)), "weight_u": unit("us", 4),
                                            "weight_v": unit("vs", 5)},
         lambda x, weight_orig, bias, weight_u, weight_v: F.linear(x, weight_orig / (weight_u @ weight_orig @ weight_v), bias),
         fixed=("weight_u", "weight_v"))
    case("lora", "lora", {"x": x, "weight": draw("lw", (4, 5)), "bias": draw("lb", (4,)), "lora_a": draw("la", (2, 5)), "lora_b": draw("lbb", (4, 2))},
         lambda x, weight, bias, lora_a, lora_b: F.linear(x, weight + 3 / 2 * lora_b @ lora_a, bias), fixed=("weight", "bias"))


def images(case):
    x = draw("module.images", (1, 5, 7, 2))
    for name, size in {"uneven": (3, 2), "even": (5, 1), "larger": (8, 4), "global": (1, 1)}.items():
        case(f"adaptive_avg.{name}", f"adaptive_avg_{name}", {"x": x}, lambda x, s=size: nhwc(F.adaptive_avg_pool2d(nchw(x), s)))
        coarse = np.asarray(np.round(x * 2), dtype=np.float32)  # with equal elements
        case(f"adaptive_max.{name}", f"adaptive_max_{name}", {"x": coarse}, lambda x, s=size: nhwc(F.adaptive_max_pool2d(nchw(x), s)))
    case("pixel_shuffle", "pixel_shuffle", {"x": draw("shuffle", (2, 2, 3, 8))}, lambda x: nhwc(F.pixel_shuffle(nchw(x), 2)))
    case("pixel_unshuffle", "pixel_unshuffle", {"x": draw("unshuffle", (2, 4, 6, 2))}, lambda x: nhwc(F.pixel_unshuffle(nchw(x), 2)))
    lrn = np.asarray(draw("lrn", (1, 2, 2, 7)) * 3, dtype=np.float32)
    case("local_response_norm", "local_response_norm", {"x": lrn}, lambda x: nhwc(F.local_response_norm(nchw(x), 5, 0.5, 0.75, 2)))
    case("local_response_norm.even", "local_response_norm_even", {"x": lrn}, lambda x: nhwc(F.local_response_norm(nchw(x), 4)))
    # Written out: the gradient of PyTorch 2.15's F.instance_norm is wrong for the gradient of a permuted result.
    def instance_norm(x, weight=1.0, bias=0.0):
        deviation = x - x.mean((1, 2), keepdim=True)
        return deviation / torch.sqrt(deviation.square().mean((1, 2), keepdim=True) + 1e-5) * weight + bias
    case("instance_norm", "instance_norm", {"x": x, "weight": draw("in.w", (2,)), "bias": draw("in.b", (2,))}, instance_norm)
    case("instance_norm.plain", "instance_norm_plain", {"x": x}, instance_norm)
    case("glu", "glu", {"x": draw("glu", (3, 6, 2))}, lambda x: F.glu(x, 1))
    case("softsign", "softsign", {"x": draw("softsign", (3, 6))}, lambda x: F.softsign(x))
    case("cosine_similarity", "cosine_similarity", {"a": draw("cosine.a", (3, 4, 2)), "b": draw("cosine.b", (3, 4, 2))},
         lambda a, b: F.cosine_similarity(a, b))
    case("embedding_bag.weighted", "embedding_bag_weighted", {"weight": draw("bag.weight", (6, 4)), "i": draw_integers("bag.at", (9,), 0, 6),
                                                               "o": np.asarray([0, 3, 3, 8]), "w": draw("bag.row", (9,))},
         lambda weight, i, o, w: F.embedding_bag(i, weight, o, mode="sum", per_sample_weights=w))


def modules(case):
    for write in (attentions, transformers, wrappers, images):
        write(case)
