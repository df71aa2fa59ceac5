"""Golden state dicts of PyTorch's modules, with an input and the output in evaluation mode, in double from float32 weights.

Roles: in.NAME (channels last, as in Binade), state.NAME (an entry of state_dict(), in PyTorch's layout), out.y.
tests/golden/state_dicts_test.cpp writes the entries to a file, loads the file into Binade's module of the same structure,
and compares the outputs, and the state dict that Binade writes.
"""
import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrizations

from golden_ops import draw


def last_to_second(t):
    return t.movedim(-1, 1) if t.dim() > 2 else t


def second_to_last(t):
    return t.movedim(1, -1) if t.dim() > 2 else t


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(7, 5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, i):
        return self.head(self.tokens(i))


def fill(name, module):
    """Sets every parameter and buffer to random values with few digits; variances are positive. u and v keep their values."""
    with torch.no_grad():
        for key, value in list(module.named_parameters()) + list(module.named_buffers()):
            if key.endswith(("running_var", "weight_g", "original0")):
                value.copy_(torch.from_numpy(draw(f"{name}.{key}", tuple(value.shape), 0.5, 1.5)))
            elif value.is_floating_point() and not key.endswith(("weight_u", "_u", "_v")) or key.endswith("weight_v") and value.dim() > 1:
                value.copy_(torch.from_numpy(draw(f"{name}.{key}", tuple(value.shape), -0.8, 0.8)))
            elif key.endswith("num_batches_tracked"):
                value.fill_(3)


def write(file):
    torch.manual_seed(0)
    integers = np.asarray([[0, 6, 2], [3, 3, 1]], dtype=np.int64)
    channels = (last_to_second, second_to_last)
    equal = (lambda t: t, lambda t: t)
    layer = dict(d_model=8, nhead=2, dim_feedforward=6, batch_first=True)
    # name: module, shapes of the inputs (or arrays), changes of layout
    cases = {
        "conv1d": (nn.Sequential(nn.Conv1d(3, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ConvTranspose1d(4, 2, 2, stride=2)), [(2, 5, 3)], channels),
        "conv2d": (nn.Sequential(nn.Conv2d(4, 6, (3, 2), stride=2, groups=2), nn.BatchNorm2d(6), nn.ReLU(),
                                 nn.ConvTranspose2d(6, 4, (2, 3), stride=2, groups=2)), [(2, 7, 6, 4)], channels),
        "conv3d": (nn.Sequential(nn.Conv3d(2, 3, (1, 2, 3)), nn.BatchNorm3d(3), nn.ConvTranspose3d(3, 2, 2)), [(1, 3, 4, 5, 2)], channels),
        "flatten": (nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(3 * 2 * 3, 4)), [(2, 3, 4, 2)], channels),
        "linear": (nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 4), nn.LayerNorm(4)), [integers], equal),
        "tied": (Tied(), [integers], equal),
        "lstm": (nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), [(2, 5, 3)], equal),
        "gru": (nn.GRU(3, 4, batch_first=True), [(2, 5, 3)], equal),
        "attention": (nn.MultiheadAttention(8, 2, batch_first=True), [(2, 3, 8)] * 1, equal),
        "attention_cross": (nn.MultiheadAttention(8, 2, kdim=5, vdim=6, batch_first=True), [(2, 3, 8), (2, 4, 5), (2, 4, 6)], equal),
        "encoder_layer": (nn.TransformerEncoderLayer(**layer), [(2, 3, 8)], equal),
        "decoder_layer": (nn.TransformerDecoderLayer(**layer), [(2, 3, 8), (2, 4, 8)], equal),
        "weight_norm": (nn.utils.weight_norm(nn.Conv2d(2, 3, (2, 3))), [(1, 4, 5, 2)], channels),
        "weight_norm_parametrized": (parametrizations.weight_norm(nn.Conv2d(2, 3, (2, 3))), [(1, 4, 5, 2)], channels),
        "spectral_norm": (nn.utils.spectral_norm(nn.Conv2d(2, 3, (2, 3))), [(1, 4, 5, 2)], channels),
        "spectral_norm_parametrized": (parametrizations.spectral_norm(nn.Conv2d(2, 3, (2, 3))), [(1, 4, 5, 2)], channels),
        "spectral_norm_transposed": (nn.utils.spectral_norm(nn.ConvTranspose2d(2, 3, (2, 3))), [(1, 4, 5, 2)], channels),
    }
    for name, (module, shapes, (to_theirs, to_ours)) in cases.items():
        fill(name, module)
        state = {k: v.detach().clone() for k, v in module.state_dict().items()}
        module.double().eval()
        arrays = [s if isinstance(s, np.ndarray) else draw(f"{name}.x{i}", s) for i, s in enumerate(shapes)]
        inputs = [torch.from_numpy(a) if a.dtype == np.int64 else to_theirs(torch.from_numpy(a).double()) for a in arrays]
        if name == "attention":
            inputs = inputs * 3
        with torch.no_grad():
            y = module(*inputs)
        y = y[0] if isinstance(y, tuple) else y
        file.case(name, name, {}, [(f"in.x{i}", a) for i, a in enumerate(arrays)] +
                  [(f"state.{k}", v.numpy()) for k, v in state.items()] + [("out.y", to_ours(y).numpy())])
