#!/usr/bin/env python3
"""state_hashes.py [--build DIR] [--steps N]: trains both programs in every policy, at every kernel level of this machine
and on the emulated device, and prints the final state hash of each run.

To check that a change keeps every bit, compare it with the commit before it:

    tests/programs/state_hashes.py > before        (then the change, ./dev build)
    tests/programs/state_hashes.py | diff before -

The runs are short (20 steps) and small, with everything that changes state: dropout, clipping, batch norm, averaged weights,
evaluations. The hashes depend on the compiler and the C library, so they are not golden values.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

POLICIES = ["fp32", "fp16", "bf16", "fp8", "pure-fp16", "pure-bf16"]
PROGRAMS = {
    "gpt": ("examples/transformer/binade-gpt",
            ["--layers", "2", "--heads", "2", "--dim", "32", "--context", "24", "--batch", "4", "--tokenizer", "char", "--dropout", "0.1"]),
    "unet": ("examples/unet/binade-unet", ["--base", "4", "--depth", "2", "--size", "32", "--batch", "2"]),
}
SHARED = ["--lr", "0.003", "--clip", "1", "--ema", "0.9", "--eval-every", "10", "--seed", "5", "--threads", "2"]


def call(command, **environment):
    done = subprocess.run([str(word) for word in command], env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def levels(build):
    """The kernel levels that were built and that this processor supports."""
    environment = call([build / "doctor/binade-doctor", "env"])
    built = re.search(r"\(built:([^)]*)\)", environment)[1].split()
    best = re.search(r"^kernels +(\S+)", environment, re.MULTILINE)[1]
    return built[:built.index(best) + 1]


def state_hash(build, program, policy, steps, device, **environment):
    path, flags = PROGRAMS[program]
    with tempfile.TemporaryDirectory() as folder:
        run = folder + "/run"
        call([build / path, "train", "--run", run, "--steps", steps, "--precision", policy, "--device", device, *SHARED, *flags], **environment)
        return call([build / "doctor/binade-doctor", "hash", run]).split()[0]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", type=pathlib.Path, default="build", help="build folder (build)")
    ap.add_argument("--steps", type=int, default=20)
    a = ap.parse_args()
    build = a.build.resolve()
    places = [(level, "cpu", {"BINADE_ISA": level}) for level in levels(build)]
    emulated = build / "tests/cuda/libbinade_simt.so"
    if emulated.exists():
        places.append(("emulated", "cuda", {"BINADE_CUDA_MODULE": str(emulated)}))
    else:
        print(f"without {emulated}, no run on the emulated device", file=sys.stderr)
    for program in PROGRAMS:
        for policy in POLICIES:
            for place, device, environment in places:
                print(program, policy, place, state_hash(build, program, policy, a.steps, device, **environment), flush=True)


if __name__ == "__main__":
    main()
