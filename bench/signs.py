#!/usr/bin/env python3
"""Measures the figures of docs/warnings.md: trains small models with and without planted faults and prints one table.

    bench/signs.py [--steps 2000] [--drills 6] [--text FILE] [--build build] [--only clean,growth,scale,guard]

clean   healthy runs of both programs in several precisions and optimizers: number of steps and of false warnings
growth  runs in which query and key weights of one block grow by 1 % in each step, until they overflow (--on-nan stop): number of
        steps between the first overflow warning and the overflow, whether that warning names the correct op, number of steps
        between the warning of attention collapse and the overflow; then the same runs with remedies: number of incidents
scale   number of attempts that overflow in the first steps, with and without --init-scale auto
guard   number of healthy losses that SpikeGuard's rule would call absurd, and whether it detects a far too large learning rate

Build first: ./dev build, and `ninja -C build bench/spike_guard`. Standard library only. Everything is deterministic: the same build prints the same figures.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

GPT_SHAPE = ["--layers", "3", "--heads", "4", "--dim", "64", "--context", "64", "--batch", "8"]
UNET_SHAPE = ["--base", "8", "--depth", "2", "--size", "64", "--batch", "4"]
SIGN = re.compile(r"^step (\d+): (overflow ahead|pole ahead|attention collapse ahead|divergence|gradients grow|silent underflow|stagnation|swallowed overflow|untrained parameters|evaluation differs): (.*)$", re.MULTILINE)

CLEAN = [
    ("gpt fp16 composed", "gpt", ["--precision", "fp16", "--attention", "composed"]),
    ("gpt fp16, no warm-up, lr 3e-3", "gpt", ["--precision", "fp16", "--warmup", "0", "--lr", "3e-3"]),
    ("gpt fp16 lion", "gpt", ["--precision", "fp16", "--optimizer", "lion", "--lr", "3e-4"]),
    ("gpt bf16 dropout", "gpt", ["--precision", "bf16", "--dropout", "0.1"]),
    ("gpt pure-bf16", "gpt", ["--precision", "pure-bf16"]),
    ("unet fp16", "unet", ["--precision", "fp16", "--lr", "1e-3"]),
    ("unet fp16 sgd", "unet", ["--precision", "fp16", "--optimizer", "sgd", "--lr", "0.05"]),
    ("unet fp32", "unet", ["--precision", "fp32", "--lr", "3e-3"]),
]


class Runs:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.TemporaryDirectory(prefix="binade-signs-")
        self.scratch = pathlib.Path(self.folder.name)
        build = pathlib.Path(options.build).resolve()
        self.guard = build / "bench/spike_guard"
        self.programs = {"gpt": build / "examples/transformer/binade-gpt", "unet": build / "examples/unet/binade-unet"}

    def train(self, program, name, steps, arguments):
        """Trains a model. Returns (the text on the terminal, the attempts in metrics.jsonl)."""
        folder = self.scratch / re.sub(r"\W+", "-", name)
        shape = GPT_SHAPE if program == "gpt" else UNET_SHAPE
        data = ["--data", self.options.text] if program == "gpt" and self.options.text else []
        command = [self.programs[program], "train", "--run", folder, *shape, *data, "--steps", steps, "--threads", "1",
                   "--log-every", steps, *arguments]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 30):
            sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        return done.stderr, [line for line in lines if "attempt" in line]


    def absurd(self, attempts):
        """Returns "STEP LOSS BOUND" for each committed loss that the spike guard would refuse."""
        steps = [f"{a['loss']} {a['grad_norm']}" for a in attempts if a["committed"]]
        done = subprocess.run([str(self.guard)], input="\n".join(steps), capture_output=True, text=True, check=True)
        return done.stdout.splitlines()


def clean(runs, steps):
    total, alarms = 0, 0
    for name, program, arguments in CLEAN:
        length = steps if program == "gpt" else steps // 2
        said, attempts = runs.train(program, name, length, [*arguments, "--on-nan", "stop"])
        signs = SIGN.findall(said)
        absurd = runs.absurd(attempts)
        total += attempts[-1]["step"]
        alarms += len(signs)
        print(f"clean   {name:32} {attempts[-1]['step']:6} steps  {len(signs)} warnings  {len(absurd)} absurd losses", flush=True)
        for line in [*map(" ".join, signs), *absurd]:
            print("         " + line)
    print(f"clean   {total} steps, {alarms} false alarms: {1e4 * alarms / max(total, 1):.2f} in 10,000")


def growth(runs, drills):
    leads, narrowed, named, prevented = [], [], 0, 0
    for k in range(drills):
        block, start = k % 3, 1 + 60 * k
        faults = [a for part in ("query", "key")
                  for a in ("--inject", f"scale-weight@step={start},path=blocks.{block}.attention.{part},factor=1.01,every=1")]
        arguments = ["--precision", "fp16", "--attention", "composed", "--seed", k + 1, "--schedule-steps", 2000, *faults]
        said, attempts = runs.train("gpt", f"growth {k}", 1200, [*arguments, "--on-nan", "stop"])
        signs = [s for s in SIGN.findall(said) if s[1] == "overflow ahead"]
        collapse = [s for s in SIGN.findall(said) if s[1] == "attention collapse ahead" and f"blocks.{block}.attention " in s[2]]
        end = attempts[-1]["step"]
        lead = end - int(signs[0][0]) if signs else 0
        right = bool(signs) and signs[0][2].startswith(f"'matmul' in blocks.{block}.attention ")
        leads.append(lead)
        narrowed.append(end - int(collapse[0][0]) if collapse else 0)
        named += right
        said, attempts = runs.train("gpt", f"growth {k} ladder", end + 50, arguments)
        incidents = said.count("incident in step")
        prevented += incidents == 0
        print(f"growth  block {block} from step {start:4}: overflow in step {end}, named {lead} steps ahead, {'rightly' if right else 'wrongly'}; said to narrow "
              f"{narrowed[-1]} ahead; "
              f"with the ladder {incidents} incidents in {attempts[-1]['step']} steps", flush=True)
    print(f"growth  lead: median {statistics.median(leads)}, least {min(leads)}; named rightly {named} of {drills}; prevented {prevented} of {drills}; "
          f"said to narrow: median {statistics.median(narrowed)}, least {min(narrowed)}")


def scale(runs, steps):
    for program in ("gpt", "unet"):
        for choice in ("65536", "auto"):
            said, attempts = runs.train(program, f"scale {program} {choice}", min(steps, 2000),
                                        ["--precision", "fp16", "--init-scale", choice])
            scales = [a["loss_scale"] for a in attempts]
            print(f"scale   {program:5} --init-scale {choice:6} first {scales[0]:.0f}, last {scales[-1]:.0f}, "
                  f"{sum(not a['committed'] for a in attempts)} skipped in {attempts[-1]['step']} steps", flush=True)


def guard(runs):
    for factor in (30, 100):
        _, attempts = runs.train("gpt", f"guard {factor}", 400, ["--precision", "bf16", "--clip", "0", "--on-nan", "skip",
                                                                 "--inject", f"lr@step=300,factor={factor},every=1"])
        absurd = runs.absurd(attempts)
        print(f"guard   learning rate x{factor} from step 300: {len(absurd)} absurd losses in {attempts[-1]['step']} steps; first (step, loss, bound): "
              f"{absurd[0] if absurd else 'none'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--drills", type=int, default=6)
    parser.add_argument("--text", help="text to train on (the programs' own when left out)")
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="clean,growth,scale,guard")
    options = parser.parse_args()
    runs = Runs(options)
    wanted = options.only.split(",")
    if "clean" in wanted:
        clean(runs, options.steps)
    if "growth" in wanted:
        growth(runs, options.drills)
    if "scale" in wanted:
        scale(runs, options.steps)
    if "guard" in wanted:
        guard(runs)


if __name__ == "__main__":
    main()
