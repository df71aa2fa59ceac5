#!/usr/bin/env python3
"""Runs training steps in PyTorch 2.x on a GPU with its fastest settings, at the request of a benchmark (protocol: train_step.py).

    gpu_step.py gpt2-1024|unet-gpu|gpt-dry|unet-dry --batch N --precision fp32|tf32|bf16|fp16
                [--mode eager|default|reduce-overhead|max-autotune] [--device cuda|cpu]

  gpt2-1024  12 layers, 768 wide, 12 heads, 1024 tokens; table and logits padded to 50304 rows; query, key and value as one product, tanh GELU, tied head;
             attention by cuDNN if this PyTorch can select it; AdamW
  unet-gpu   512 x 512 x 3, base 64, depth 4 (unet_model.py), channels_last, BCE with logits, Adam
  *-dry      tiny models that only test the benchmark

bf16 and fp16 use autocast, fp16 also GradScaler. In bf16, fp16 and tf32, ops in f32 may use TF32; in fp32 they may not. The optimizer
is fused, cudnn.benchmark is on. --mode compiles the forward pass with the loss (and so the backward pass). `ms` is the wall
time between two synchronizations, divided by the number of steps; nothing is read from the device in between. `device_peak_mib` is
the peak memory of tensors, `device_reserved_mib` the memory that the allocator holds. It answers `profile N` with the kernels of a
step.
"""
import argparse
import contextlib
import json
import sys
import time
import traceback
import warnings

import torch
import torch.nn.functional as F

from train_step import Gpt, status_mib
from unet_model import UNet

GPTS = {"gpt2-1024": (12, 768, 12, 1024, 50304, 50257), "gpt-dry": (1, 16, 2, 8, 32, 29)}  # layers, dim, heads, T, table, vocabulary
UNETS = {"unet-gpu": (64, 4, 512), "unet-dry": (4, 1, 8)}  # base, depth, side


def print_json(**fields):
    print(json.dumps(fields), flush=True)


def attention_by_cudnn(device):
    """Returns a scope in which scaled_dot_product_attention prefers cuDNN's kernels."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        return sdpa_kernel(order, set_priority=True) if device == "cuda" else contextlib.nullcontext()
    except (ImportError, TypeError, AttributeError):
        return contextlib.nullcontext()


def build(a):
    torch.manual_seed(1)
    if a.workload in UNETS:
        base, depth, side = UNETS[a.workload]
        model = UNet(base, depth, inputs=3).to(a.device, memory_format=torch.channels_last)
        x = torch.randn(a.batch, 3, side, side).to(a.device, memory_format=torch.channels_last)
        y = (torch.rand(a.batch, 1, side, side) > 0.5).float().to(a.device, memory_format=torch.channels_last)
        return model, x, y, lambda z, t: F.binary_cross_entropy_with_logits(z.float(), t), torch.optim.Adam
    layers, dim, heads, length, table, vocabulary = GPTS[a.workload]
    model = Gpt(layers, dim, heads, length, length, table, "tanh").to(a.device)
    x = torch.randint(0, vocabulary, (a.batch, length)).to(a.device)
    y = torch.randint(0, vocabulary, (a.batch * length,)).to(a.device)
    return model, x, y, lambda z, t: F.cross_entropy(z.float().view(-1, table), t), torch.optim.AdamW


class Trainer:
    def __init__(self, a):
        self.a, self.cuda = a, a.device == "cuda"
        low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(a.precision)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a.precision != "fp32"
        torch.backends.cudnn.benchmark = True
        self.model, self.x, self.y, loss_of, optimizer = build(a)
        options = {"weight_decay": 0.01} if optimizer is torch.optim.AdamW else {}
        self.optimizer = optimizer(self.model.parameters(), lr=1e-4, fused=self.cuda, **options)
        self.scaler = torch.amp.GradScaler(a.device, enabled=a.precision == "fp16" and self.cuda)

        def loss(x, y):
            with torch.autocast(a.device, dtype=low) if low else contextlib.nullcontext():
                return loss_of(self.model(x), y)

        self.loss = loss if a.mode == "eager" else torch.compile(loss, mode=None if a.mode == "default" else a.mode)

    def step(self):
        if self.a.mode == "reduce-overhead" or self.a.mode == "max-autotune":
            torch.compiler.cudagraph_mark_step_begin()
        self.optimizer.zero_grad(set_to_none=True)
        with attention_by_cudnn(self.a.device):
            loss = self.loss(self.x, self.y)
            self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()


def kernels(trainer, count):
    """Returns [{"kernel", "us", "calls", "share"}] of one step from PyTorch's profiler; empty without a GPU."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA] if trainer.cuda else [ProfilerActivity.CPU]) as seen:
        for _ in range(count):
            trainer.step()
        trainer.wait()
    found = {}
    for event in seen.events():
        annotation = getattr(event, "is_user_annotation", False) or event.name.startswith(("##", "ProfilerStep", "Torch-Compiled", "Optimizer."))
        if str(event.device_type).endswith("CUDA") and not annotation:
            row = found.setdefault(event.name, {"kernel": event.name[:120], "us": 0.0, "calls": 0.0})
            row["us"] += event.time_range.elapsed_us() / count
            row["calls"] += 1 / count
    total = sum(row["us"] for row in found.values())
    return sorted(({**row, "share": row["us"] / total} for row in found.values()), key=lambda row: -row["us"])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("workload", choices=[*GPTS, *UNETS])
    ap.add_argument("--batch", type=int, required=True)
    ap.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], default="bf16")
    ap.add_argument("--mode", choices=["eager", "default", "reduce-overhead", "max-autotune"], default="eager")
    ap.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    a = ap.parse_args()
    warnings.filterwarnings("ignore")
    trainer = Trainer(a)
    first = None
    print_json(ready=True, backend="torch " + torch.__version__, workload=a.workload, precision=a.precision, mode=a.mode, device=a.device,
         parameters=sum(p.numel() for p in trainer.model.parameters()), cuda=torch.version.cuda,
         cudnn=torch.backends.cudnn.version() if trainer.cuda else None)
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        if len(words) == 2 and words[0] == "profile" and words[1].isdigit() and int(words[1]) > 0:
            print_json(kernels=kernels(trainer, int(words[1])))
            continue
        if len(words) != 2 or words[0] != "step" or not words[1].isdigit() or int(words[1]) < 1:
            print_json(error=f"wanted 'step N' or 'quit', got {line.strip()!r}")
            continue
        count = int(words[1])
        trainer.wait()
        start = time.perf_counter()
        for i in range(count):
            loss = trainer.step()
            if first is None:
                first = loss.item()
        trainer.wait()
        ms = (time.perf_counter() - start) / count * 1e3
        fields = dict(steps=count, ms=round(ms, 4), loss=loss.item(), first_loss=first, peak_mib=round(status_mib("VmHWM"), 1))
        if trainer.cuda:
            fields.update(device_peak_mib=round(torch.cuda.max_memory_allocated() / 2**20, 1),
                          device_reserved_mib=round(torch.cuda.max_memory_reserved() / 2**20, 1))
        print_json(**fields)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # the benchmark reads errors from stdout, as JSON
        traceback.print_exc()
        print_json(error=f"{type(error).__name__}: {str(error)[:300]}")
        sys.exit(1)
