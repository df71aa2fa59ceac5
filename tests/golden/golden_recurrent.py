"""Golden values of torch.nn.RNN, LSTM and GRU, forward and backward: inputs and parameters have PyTorch's names, the batch
comes first (golden_ops.py has the form)."""
import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from golden_ops import draw


def recurrent(case):
    # name: layer, options, (B, T, in, hidden), lengths, whether initial states are given
    configs = {
        "rnn.tanh": ("RNN", {}, (2, 4, 3, 5), None, True),
        "rnn.relu": ("RNN", {"nonlinearity": "relu"}, (2, 3, 3, 4), None, True),
        "rnn.stacked": ("RNN", {"num_layers": 2, "bidirectional": True}, (2, 3, 3, 2), None, True),
        "lstm.plain": ("LSTM", {}, (3, 4, 3, 5), None, True),
        "lstm.zeros": ("LSTM", {"bias": False}, (2, 3, 2, 4), None, False),
        "lstm.stacked": ("LSTM", {"num_layers": 2}, (2, 4, 3, 4), None, True),
        "lstm.bidirectional": ("LSTM", {"num_layers": 2, "bidirectional": True}, (2, 4, 3, 3), None, True),
        "lstm.lengths": ("LSTM", {"bidirectional": True}, (3, 5, 2, 3), (3, 5, 1), True),
        "gru.plain": ("GRU", {}, (3, 4, 3, 5), None, True),
        "gru.zeros": ("GRU", {"bias": False}, (2, 3, 2, 4), None, False),
        "gru.bidirectional": ("GRU", {"num_layers": 2, "bidirectional": True}, (2, 4, 3, 3), None, True),
        "gru.lengths": ("GRU", {"num_layers": 2}, (3, 4, 2, 3), (2, 4, 1), True),
    }
    for name, (kind, options, (batch, steps, inputs, hidden), lengths, starts) in configs.items():
        module = getattr(torch.nn, kind)(inputs, hidden, batch_first=True, dtype=torch.float64, **options)
        arrays = {"x": draw(f"{name}.x", (batch, steps, inputs))}
        states = [f"{s}0" for s in ("hc" if kind == "LSTM" else "h")] if starts else []
        parts = module.num_layers * (2 if module.bidirectional else 1)
        for state in states:
            arrays[state] = draw(f"{name}.{state}", (parts, batch, hidden), -1, 1)
        for key, value in module.named_parameters():
            arrays[key] = draw(f"{name}.{key}", tuple(value.shape), -0.8, 0.8)
        if lengths:
            arrays["lengths"] = np.asarray(lengths, dtype=np.int64)

        def run(x, h0=None, c0=None, lengths=None, module=module, kind=kind, steps=steps, **weights):
            start = h0 if kind != "LSTM" or h0 is None else (h0, c0)
            if lengths is not None:
                x = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            y, end = torch.func.functional_call(module, weights, (x, start))
            if lengths is not None:
                y, _ = pad_packed_sequence(y, batch_first=True, total_length=steps)
            return {"y": y, "h": end[0], "c": end[1]} if kind == "LSTM" else {"y": y, "h": end}

        params = {"hidden": hidden, "layers": module.num_layers, "bidirectional": module.bidirectional, "bias": module.bias,
                  "relu": options.get("nonlinearity") == "relu"}
        case(name, kind, arrays, run, params)
