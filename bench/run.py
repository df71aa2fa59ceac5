#!/usr/bin/env python3
"""Times training steps of Binade and of PyTorch in turn; called by `./dev bench`. Standard library only.

    bench/run.py [--workloads unet,gpt,gpt-tiny,gpt2] [--precisions fp32,bf16,fp16] [--rounds 7] [--threads 2]

Every contender is a process that has built its model and waits. In each round every contender runs a few steps in turn (the order
rotates), so that other load on the machine affects all alike. After two warm-up turns, the median time over the rounds and the ratio
binade / peer of the same round are printed with their quartiles. Memory is the peak of a process (VmHWM); its ratio compares Binade's
whole process with the memory that the peer's process uses in addition to what it uses after importing PyTorch. Rounds in which other
processes took more than --foreign cores are left out, at most half of them. First losses are compared before timing: those of peers
must agree to 1e-3, and Binade's with theirs within a share that different random weights explain.

A contender speaks this protocol on stdin and stdout, one JSON object per line (see bench/peers/train_step.py):

    on start      {"ready": true, "backend": "binade 0.1.0", "workload": …, "precision": …, "threads": …, "parameters": …}
    step N        {"steps": N, "ms": of one step, "loss": …, "first_loss": …, "peak_mib": VmHWM}
    quit          exits 0

Binade's are `binade-unet bench` and `binade-gpt bench --workload NAME --precision P --threads N --interactive`. PyTorch's:

  binade-base  a build of another commit, named by --baseline
  torch        PyTorch 2.x from PyPI, as installed: --torch PYTHON, or $BINADE_TORCH_PYTHON, or .venv-torch/bin/python
  torch-tuned  Debian's python3-torch (/usr/bin/python3) with OpenBLAS on its own OpenMP threads, freed memory kept, and NHWC for
               images; these settings change its speed most
  floor        an estimate of the least time of a step: its products and convolutions by oneDNN alone, the passes over memory that remain
               after all possible fusion, and one pass of Adam (bench/peers/floor.cpp, needs libdnnl-dev); it trains nothing and has no
               loss
A peer that is not installed is reported and left out. fp16, in which these CPUs do not compute, is compared with Binade in fp32.
The result goes to bench/results/DATE-steps.json, with the machine, versions and commit; the table to stdout.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEER = os.path.join(ROOT, "bench", "peers", "train_step.py")
PARAMETERS = {"unet": 7.76e6, "gpt": 10.8e6, "gpt-tiny": 0.83e6, "gpt2": 124e6}
LOSS_SHARE = {"unet": 0.5, "gpt": 0.03, "gpt-tiny": 0.03, "gpt2": 0.03}
TUNED_BLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"
TUNED = {"LD_LIBRARY_PATH": TUNED_BLAS, "MALLOC_MMAP_THRESHOLD_": "34359738368",
         "MALLOC_TRIM_THRESHOLD_": "34359738368", "MALLOC_TOP_PAD_": "268435456"}
TICKS = os.sysconf("SC_CLK_TCK")


class Contender:
    """One process that waits for `step N`."""

    def __init__(self, name, command, env, log):
        self.name, self.ms, self.foreign, self.answers = name, [], [], []
        self.process = subprocess.Popen(command, env={**os.environ, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, text=True, bufsize=1)
        self.about = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        try:
            fields = json.loads(line)
        except ValueError:
            fields = {"error": f"answered {line.strip()!r}" if line else f"ended with {self.process.wait()}"}
        if "error" in fields:
            raise RuntimeError(f"{self.name}: {fields['error']}")
        return fields

    def step(self, count):
        self.process.stdin.write(f"step {count}\n")
        self.process.stdin.flush()
        return self.answer()

    def timed(self, count):
        start, busy, own = time.perf_counter(), busy_seconds(), process_seconds(self.process.pid)
        self.answers.append(self.step(count))
        wall = time.perf_counter() - start
        self.ms.append(self.answers[-1]["ms"])
        self.foreign.append(max(0.0, (busy_seconds() - busy) - (process_seconds(self.process.pid) - own)) / wall)

    def quit(self):
        try:
            self.process.communicate("quit\n", timeout=30)
        except (subprocess.TimeoutExpired, BrokenPipeError, ValueError):
            self.process.kill()
            self.process.wait()


def busy_seconds():
    """CPU time used on the whole machine: user, nice, system, irq, softirq, steal."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    return (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / TICKS


def process_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def has_torch(python):
    if not python or not os.path.exists(python):
        return None
    seen = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return seen.stdout.strip() if seen.returncode == 0 else None


def contenders(a, workload, precision, log):
    program = os.path.join("examples", "unet/binade-unet" if workload == "unet" else "transformer/binade-gpt")

    def binade(p, build=a.build):
        return [os.path.join(build, program), "bench", "--workload", workload, "--precision", p, "--threads", str(a.threads), "--interactive"]

    threads = {"OMP_NUM_THREADS": str(a.threads)}
    peer = [PEER, workload, "--precision", precision, "--threads", str(a.threads)]
    wanted = []
    if "binade" not in a.without:
        wanted.append(("binade", binade(precision), {}))
    if a.baseline:
        wanted.append(("binade-base", binade(precision, a.baseline), {}))
    if precision == "fp16":
        wanted.append(("binade-fp32", binade("fp32"), {}))
    else:
        if "torch" in a.peers:
            wanted.append(("torch", [a.torch, *peer], threads))
        if "torch-tuned" in a.peers:
            wanted.append(("torch-tuned", [a.debian_python, *peer, "--channels-last"], {**threads, **TUNED}))
        if "floor" in a.peers:
            wanted.append(("floor", [os.path.join(a.build, "bench", "floor"), workload, precision], threads))
    started = []
    for name, command, env in wanted:
        try:
            started.append(Contender(name, command, env, log))
        except (OSError, RuntimeError) as e:
            print(f"{workload} {precision}: {name} is left out: {e}", file=sys.stderr)
    return started


def check_losses(workload, found):
    """Returns a line for each disagreement of losses or numbers of parameters, which show that contenders compute different things."""
    faults = []
    found = [c for c in found if c.first is not None]
    losses = {c.name: c.first for c in found}
    for c in found:
        off = abs(c.about["parameters"] / PARAMETERS[workload] - 1)
        if off > 0.01:
            faults.append(f"{c.name} has {c.about['parameters']} parameters, wanted about {PARAMETERS[workload]:.3g}")
        for other in found:
            allowed = 1e-3 if "binade" not in c.name + other.name else LOSS_SHARE[workload]
            if not abs(losses[c.name] - losses[other.name]) <= allowed * abs(losses[other.name]) and c.name < other.name:
                faults.append(f"first losses differ: {c.name} {losses[c.name]}, {other.name} {losses[other.name]}")
    return faults


def quiet_rounds(found, foreign):
    """Returns the rounds to keep: those that other processes did not disturb, but at least the least disturbed half."""
    worst = [max(c.foreign[r] for c in found) for r in range(len(found[0].ms))]
    order = sorted(range(len(worst)), key=lambda r: worst[r])
    kept = [r for r in order if worst[r] <= foreign]
    return kept if len(kept) * 2 >= len(order) else order[:(len(order) + 1) // 2]


def quartiles(values):
    values = sorted(values)
    return [round(values[int(q * (len(values) - 1) + 0.5)], 4) for q in (0.25, 0.75)]


def measure(a, workload, precision, log):
    found = contenders(a, workload, precision, log)
    try:
        if not found:
            return []
        for c in found:
            c.first = c.step(1).get("first_loss")
        faults = check_losses(workload, found)
        if faults:
            for fault in faults:
                print(f"{workload} {precision}: {fault}", file=sys.stderr)
            return [dict(workload=workload, precision=precision, fault="; ".join(faults))]
        once = {c.name: c.step(1)["ms"] for c in found}
        counts = {name: max(1, min(50, round(a.turn_ms / ms))) for name, ms in once.items()}
        for r in range(a.rounds):
            turn = r % len(found)
            for c in found[turn:] + found[:turn]:
                c.timed(counts[c.name])
        kept = quiet_rounds(found, a.foreign)
        rows = []
        for c in found:
            ms = [c.ms[r] for r in kept]
            row = dict(workload=workload, precision=precision, contender=c.name, backend=c.about["backend"], threads=c.about["threads"],
                       parameters=c.about["parameters"], median_ms=round(statistics.median(ms), 3), quartiles_ms=quartiles(ms),
                       min_ms=min(c.ms), rounds=len(c.ms), kept=len(kept), steps_per_round=counts[c.name], first_loss=c.first,
                       foreign_cores=round(statistics.median(c.foreign[r] for r in kept), 3), peak_mib=c.answers[-1]["peak_mib"])
            if "passing_ms" in c.answers[-1]:
                row["passing_ms"] = round(statistics.median(c.answers[r]["passing_ms"] for r in kept), 3)
            if "base_mib" in c.about:
                row["base_mib"] = c.about["base_mib"]
            if found[0].name == "binade" and c is not found[0]:
                ratios = [found[0].ms[r] / c.ms[r] for r in kept]
                row["binade_over_this"] = round(statistics.median(ratios), 4)
                row["binade_over_this_quartiles"] = quartiles(ratios)
                added = c.answers[-1]["peak_mib"] - c.about.get("base_mib", 0)
                if c.first is not None:
                    row["binade_memory_over_this"] = round(found[0].answers[-1]["peak_mib"] / added, 4)
            rows.append(row)
        return rows
    finally:
        for c in found:
            c.quit()


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    return dict(date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), cpu=model, cores=len(os.sched_getaffinity(0)),
                kernel=platform.release(), load=[round(x, 2) for x in os.getloadavg()], commit=commit or "unknown")


def table(rows):
    print(f"\n{'workload':9} {'precision':9} {'contender':12} {'ms a step':>10} {'quartiles':>19} {'peak MiB':>9} {'binade/this':>12} {'quartiles':>13} {'memory':>7}")
    for r in rows:
        if "fault" in r:
            print(f"{r['workload']:9} {r['precision']:9} not compared: {r['fault']}")
            continue
        q, p = r["quartiles_ms"], r.get("binade_over_this_quartiles")
        ratio = f"{r['binade_over_this']:12.3f} {p[0]:6.3f}-{p[1]:6.3f}" if p else ""
        ratio += f" {r['binade_memory_over_this']:7.2f}" if "binade_memory_over_this" in r else ""
        print(f"{r['workload']:9} {r['precision']:9} {r['contender']:12} {r['median_ms']:10.1f} {q[0]:9.1f}-{q[1]:9.1f} {r['peak_mib']:9.0f} {ratio}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--workloads", default="unet,gpt,gpt-tiny,gpt2")
    ap.add_argument("--precisions", default="fp32,bf16,fp16")
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--turn-ms", type=float, default=1000, help="about how long one contender's turn in a round takes")
    ap.add_argument("--foreign", type=float, default=0.1, help="cores of other processes' load that a kept round may have")
    ap.add_argument("--build", default=os.path.join(ROOT, "build"))
    ap.add_argument("--baseline", help="build folder of another commit, as one more contender: binade-base")
    ap.add_argument("--torch", default=os.environ.get("BINADE_TORCH_PYTHON", os.path.join(ROOT, ".venv-torch", "bin", "python")))
    ap.add_argument("--debian-python", default="/usr/bin/python3")
    ap.add_argument("--peers", default="torch,torch-tuned,floor", help="which peers; empty for Binade alone")
    ap.add_argument("--without", default="", help="'binade' times the peers alone")
    ap.add_argument("--out", help="result file (bench/results/DATE-steps.json)")
    a = ap.parse_args()
    for name, allowed in (("workloads", list(PARAMETERS)), ("precisions", ["fp32", "bf16", "fp16"]), ("peers", ["torch", "torch-tuned", "floor"])):
        values = [v for v in getattr(a, name).split(",") if v]
        for v in values:
            if v not in allowed:
                ap.error(f"--{name}: '{v}' is not one of {', '.join(allowed)}")
        setattr(a, name, values)
    for name, python, how in (("torch", a.torch, "python3 -m venv .venv-torch && .venv-torch/bin/pip install torch"),
                              ("torch-tuned", a.debian_python, "apt-get install python3-torch libopenblas0-openmp")):
        lacks = "PyTorch" if not has_torch(python) else TUNED_BLAS if name == "torch-tuned" and not os.path.isdir(TUNED_BLAS) else None
        if name in a.peers and lacks:
            print(f"{name} is left out: {python} has no {lacks} ({how})", file=sys.stderr)
            a.peers.remove(name)
    about, rows = machine(), []
    with open(os.path.join(a.build, "bench-stderr.log") if os.path.isdir(a.build) else os.devnull, "w") as log:
        for workload in a.workloads:
            for precision in a.precisions:
                print(f"{workload} {precision}: {a.rounds} rounds", file=sys.stderr)
                rows += measure(a, workload, precision, log)
    table(rows)
    out = a.out or os.path.join(ROOT, "bench", "results", about["date"][:16].replace(":", "").replace("T", "-") + "-steps.json")
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out, "w") as f:
        json.dump({**about, "threads": a.threads, "rows": rows}, f, indent=1)
        f.write("\n")
    print(f"\nwritten to {out}")
    return 1 if any("fault" in r for r in rows) or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
