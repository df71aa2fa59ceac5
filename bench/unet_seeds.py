#!/usr/bin/env python3
"""Measures how a U-Net's held-out Dice depends on the seed: trains binade-unet once per seed on a folder of images. Standard library only.

    bench/unet_seeds.py FOLDER [--mean 0.5] [--least 0.35] [--seeds 1,2,3] [--build build] [-- FLAGS OF binade-unet train]

The setting: base 8, depth 3, crops of 128, batch 4, 200 steps, fp32; the last fifth of the images is held out. Prints the processor,
the kernels and the date, one line per seed, and the mean and the minimum; exits 1 if one of them is below --mean or --least.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile

SETTING = ["--base", "8", "--depth", "3", "--size", "128", "--batch", "4", "--steps", "200", "--precision", "fp32"]


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unnamed processor")


def environment(build):
    """Returns the processor, threads and kernel level (from `binade-doctor env`), and the date."""
    text = subprocess.run([os.path.join(build, "doctor", "binade-doctor"), "env"], check=True, capture_output=True, text=True).stdout
    fields = dict(line.split(None, 1) for line in text.splitlines())
    kernels = fields["kernels"].split()[0]
    return f"{processor()}, kernels {kernels}, {fields['threads'].strip()} threads, {datetime.date.today().isoformat()}"


def dice(build, folder, seed, flags):
    """Trains one U-Net. Returns the Dice of the foreground on the held-out images after the last step."""
    program = os.path.join(build, "examples", "unet", "binade-unet")
    with tempfile.TemporaryDirectory() as scratch:
        run = os.path.join(scratch, "run")
        done = subprocess.run([program, "train", "--data", folder, "--run", run, "--seed", str(seed), *SETTING, *flags],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"unet_seeds: seed {seed} ended with {done.returncode}:\n{done.stderr}")
        with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as lines:
            found = [json.loads(line) for line in lines if '"val_dice"' in line]
    return found[-1]["val_dice"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="with images/ and masks/")
    parser.add_argument("--seeds", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--mean", type=float, default=0, help="what the mean must reach")
    parser.add_argument("--least", type=float, default=0, help="what every seed must reach")
    parser.add_argument("--build", default=os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build"))
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    a = parser.parse_args(sys.argv[1:cut])
    a.flags = sys.argv[cut + 1:]
    print(environment(a.build), flush=True)
    values = []
    for seed in a.seeds.split(","):
        values.append(dice(a.build, a.folder, seed, a.flags))
        print(f"seed {seed}: Dice {values[-1]:.4f}", flush=True)
    mean, least = sum(values) / len(values), min(values)
    print(f"mean {mean:.3f}, least {least:.3f} of {len(values)} seeds")
    if mean < a.mean or least < a.least:
        sys.exit(f"unet_seeds: wanted a mean of at least {a.mean:g} and every seed at {a.least:g} or above")


if __name__ == "__main__":
    main()
