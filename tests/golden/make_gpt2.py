#!/usr/bin/env python3
"""Makes the fixtures of the import tests in tests/golden/data: models saved by other programs, an input, and the output that
those programs compute. Needs PyTorch, transformers and safetensors. Needed only to change the fixtures, not to build or test.

gpt2_lm.safetensors.b64      GPT2LMHeadModel.save_pretrained: names begin with "transformer.", the tied head is left out
gpt2_hub.safetensors.b64     the older format of GPT-2's public weights: no prefix, and each block's causal mask
                         (h.N.attn.bias) among the weights
unet_torch.safetensors   state_dict() of bench/peers/unet_model.py: PyTorch's layouts and batch norm's num_batches_tracked
imports.txt              case gpt2_lm, gpt2_hub: in.tokens -> out.logits; case unet_torch: in.x -> out.y in evaluation mode,
                         images (N, H, W, C). Format: golden_text.py
All weights, biases and statistics are random, so that the test fails if one of them is not imported.
"""
import base64
import os
import sys
import textwrap

import numpy as np
import torch
import transformers
from safetensors.torch import save

from golden_text import FOLDER, GoldenFile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peers"))
from unet_model import UNet  # noqa: E402


def gpt2(seed, layers, dim, heads, vocabulary, context):
    torch.manual_seed(seed)
    config = transformers.GPT2Config(n_layer=layers, n_embd=dim, n_head=heads, vocab_size=vocabulary, n_positions=context,
                                     initializer_range=0.15, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(0.1 * torch.randn_like(p))
    return model


def save_as_text(tensors, name):
    """Writes a safetensors file in base64, because the repository has only text files."""
    body = base64.b64encode(save(tensors, metadata={"format": "pt"})).decode()
    with open(os.path.join(FOLDER, name + ".safetensors.b64"), "w") as out:
        out.write("\n".join(textwrap.wrap(body, 120)) + "\n")


def gpt2_case(file, name, model, batch):
    config = model.config
    tokens = torch.randint(0, config.vocab_size, (batch, config.n_positions))
    with torch.no_grad():
        logits = model(tokens).logits
    params = {"layers": config.n_layer, "dim": config.n_embd, "heads": config.n_head, "vocabulary": config.vocab_size,
              "context": config.n_positions, "eps": config.layer_norm_epsilon, "gelu": "tanh", "file": name + ".safetensors.b64"}
    file.case(name, "gpt2", params, [("in.tokens", tokens.numpy()), ("out.logits", logits.double().numpy())])


def main():
    transformers.logging.set_verbosity_error()
    file = GoldenFile("imports.txt", "make_gpt2.py", f"PyTorch {torch.__version__}, transformers {transformers.__version__}")
    model = gpt2(1, layers=2, dim=32, heads=4, vocabulary=50, context=16)
    state = {k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    save_as_text(state, "gpt2_lm")
    gpt2_case(file, "gpt2_lm", model, 2)

    model = gpt2(2, layers=1, dim=12, heads=3, vocabulary=20, context=8)
    state = {k.removeprefix("transformer."): v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    for n in range(model.config.n_layer):
        state[f"h.{n}.attn.bias"] = torch.ones(8, 8).tril().view(1, 1, 8, 8)
    save_as_text(state, "gpt2_hub")
    gpt2_case(file, "gpt2_hub", model, 1)

    torch.manual_seed(3)
    net = UNet(base=4, depth=2)
    with torch.no_grad():
        for name, t in list(net.named_parameters()) + list(net.named_buffers()):
            if t.dim() == 1:
                t.add_(0.2 * torch.rand_like(t))
    net.eval()
    save_as_text({k: v.contiguous() for k, v in net.state_dict().items()}, "unet_torch")
    x = np.round(np.random.default_rng(4).standard_normal((2, 8, 12, 1)), 2).astype(np.float32)
    with torch.no_grad():
        y = net(torch.from_numpy(x).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    file.case("unet_torch", "unet", {"base": 4, "depth": 2, "file": "unet_torch.safetensors.b64"}, [("in.x", x), ("out.y", y.double().numpy())])
    file.write()


if __name__ == "__main__":
    main()
