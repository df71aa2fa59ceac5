"""Reads the weights that `binade-unet init` and `binade-gpt init` write into the same networks in PyTorch, so that both frameworks train
from the same start. Standard library and PyTorch only.
"""
import json
import struct

import torch

DTYPES = {"F32": torch.float32, "I64": torch.int64}


def read(path):
    """Reads the tensors of a safetensors file by name; the file holds only f32 tensors and counts."""
    with open(path, "rb") as file:
        content = file.read()
    size, = struct.unpack("<Q", content[:8])
    tensors = {}
    for name, entry in json.loads(content[8:8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in DTYPES:
            raise SystemExit(f"{path}: wanted F32 or I64, {name} is {entry['dtype']}")
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(content[begin:end]), dtype=DTYPES[entry["dtype"]]).view(entry["shape"])
    return tensors


def load_unet(model, path):
    """Loads a U-Net. Binade stores filters as (K, R, S, C), PyTorch as (K, C, R, S)."""
    tensors = {name: t.permute(0, 3, 1, 2) if t.dim() == 4 else t for name, t in read(path).items()}
    shapes = {name: t.shape for name, t in model.state_dict().items()}  # num_batches_tracked has shape (1) in Binade and () in PyTorch
    model.load_state_dict({name: t.view(shapes[name]) if t.numel() == 1 else t for name, t in tensors.items()})


def load_gpt(model, path):
    """Loads a GPT. PyTorch's blocks store query, key and value as one matrix; Binade's token table may end with unused rows."""
    ours = {name.replace(".attention.", ".").replace(".mlp.", "."): t for name, t in read(path).items()}
    for name in [name for name in ours if ".query." in name]:
        parts = [ours.pop(name.replace(".query.", f".{part}.")) for part in ("query", "key", "value")]
        ours[name.replace(".query.", ".qkv.")] = torch.cat(parts)
    ours["tokens.weight"] = ours["tokens.weight"][:model.tokens.num_embeddings]
    model.load_state_dict(ours)
