#!/usr/bin/env python3
"""Compares Binade with PyTorch from the same initial weights: `binade-unet init` or `binade-gpt init` writes them, and both frameworks
train from that file, one after the other. Standard library only; --torch names a Python that has PyTorch (and numpy, pillow).

    bench/peers/shared_start.py unet --data FOLDER [--seeds 1,2,3] [--torch .venv-torch/bin/python] [-- FLAGS]
    bench/peers/shared_start.py gpt --data TEXT.txt [-- FLAGS]

The recipes are those of train_unet.py (the last fifth of the images held out) and train_gpt.py, in fp32. FLAGS go to both trainers,
so both must know them: --steps, --batch, --lr, --min-lr; for a U-Net also --base, --depth, --size. Each framework draws its batches
from its own random numbers. Prints the processor, the kernels and the date, one JSON line per seed, and the means.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.dirname(HERE))
from unet_seeds import environment  # noqa: E402

UNET = ["--val-fraction", "0.2", "--base", "16", "--depth", "3", "--size", "256", "--batch", "4", "--steps", "300", "--optimizer", "adam",
        "--lr", "1e-3", "--min-lr", "1e-5", "--schedule", "cosine", "--loss", "bce+dice"]
GPT = ["--tokenizer", "char", "--preset", "tiny", "--batch", "12", "--steps", "2000", "--dropout", "0", "--bias", "off", "--optimizer",
       "adamw", "--lr", "1e-3", "--warmup", "100", "--schedule", "cosine", "--min-lr", "1e-4", "--beta1", "0.9", "--beta2", "0.99",
       "--weight-decay", "0.1", "--clip", "1"]
# For each model: Binade's program and settings, PyTorch's script and settings, the compared metric.
WORK = {"unet": ("unet/binade-unet", UNET, "train_unet.py", ["--split", "chase"], "val_dice"),
        "gpt": ("transformer/binade-gpt", GPT, "train_gpt.py", [], "val_loss")}


def output(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"shared_start: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def pair(a, seed):
    """Trains both frameworks with `seed`. Returns the compared metric of Binade and of PyTorch."""
    program, settings, script, torch_settings, number = WORK[a.model]
    program = os.path.join(a.build, "examples", program)
    ours = ["--data", a.data, "--seed", str(seed), "--precision", "fp32", *settings, *a.flags]
    with tempfile.TemporaryDirectory() as scratch:
        weights, run = os.path.join(scratch, "first.safetensors"), os.path.join(scratch, "run")
        output([program, "init", weights, *ours])
        output([program, "train", "--init-from", weights, "--run", run, *ours])
        binade = json.loads(output([program, "eval", "--run", run]).splitlines()[-1])[number]
        theirs = [a.torch, os.path.join(HERE, script), "--data", a.data, "--seed", str(seed), "--init-from", weights]
        torch = json.loads(output([*theirs, *torch_settings, *a.flags]).splitlines()[-1])[number]
    return binade, torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=list(WORK))
    parser.add_argument("--data", required=True, help="a folder with images/ and masks/, or a text file")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--torch", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    a = parser.parse_args(sys.argv[1:cut])
    a.flags = sys.argv[cut + 1:]
    number = WORK[a.model][-1]
    print(environment(a.build), flush=True)
    results = []
    for seed in a.seeds.split(","):
        results.append(pair(a, seed))
        print(json.dumps({"seed": int(seed), "number": number, "binade": results[-1][0], "torch": results[-1][1]}), flush=True)
    means = [sum(column) / len(results) for column in zip(*results)]
    print(f"mean {number}: Binade {means[0]:.4f}, PyTorch {means[1]:.4f}")


if __name__ == "__main__":
    main()
