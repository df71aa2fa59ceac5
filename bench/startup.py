#!/usr/bin/env python3
"""Measures how much the CUDA backend delays the start of a program on a machine without a GPU. Standard library only.

    meson setup build-nocuda -Ddebug=false -Dcuda=disabled && ninja -C build-nocuda doctor/binade-doctor
    bench/startup.py --baseline build-nocuda [--build build] [--rounds 31]

Runs `binade-doctor env`, which looks for a GPU, from a build with the CUDA module and from one without, alternately and in changing
order. Prints both medians, the median difference of the pairs with its 95 % interval, and the CUDA libraries that the programs of --build
link (there must be none). Exits with 1 if the difference is above 10 ms or if a program links a CUDA library.
"""
import argparse
import math
import os
import pathlib
import platform
import subprocess
import sys
import time

GOAL_MS = 10
PROGRAM = "doctor/binade-doctor"
OF_CUDA = ("cuda", "cublas", "cudnn", "nvrtc", "nvidia")


def milliseconds(program, env):
    begin = time.perf_counter()
    text = subprocess.run([program, "env"], env=env, capture_output=True, check=True, text=True).stdout
    return (time.perf_counter() - begin) * 1e3, text


def interval_of_median(values):
    """Returns two order statistics between which the median is with a probability of 95 % (binomial)."""
    ordered, n = sorted(values), len(values)
    low = max(0, math.floor(n / 2 - 0.98 * math.sqrt(n)))
    return ordered[low], ordered[n - 1 - low]


def median(values):
    return sorted(values)[len(values) // 2]


def cuda_libraries(program):
    text = subprocess.run(["ldd", program], capture_output=True, check=True, text=True).stdout
    return sorted(line.split()[0] for line in text.splitlines() if any(word in line.lower() for word in OF_CUDA))


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = {line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")}
    return f"{', '.join(sorted(names)) or platform.processor()}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--baseline", type=pathlib.Path, required=True, help="a build configured with -Dcuda=disabled")
    parser.add_argument("--rounds", type=int, default=31)
    a = parser.parse_args()
    module, unwanted = a.build / "cuda/libbinade_cuda.so", a.baseline / "cuda/libbinade_cuda.so"
    if not module.exists() or unwanted.exists():
        sys.exit(f"wanted {module}, and no {unwanted}")
    env = {name: value for name, value in os.environ.items() if name != "BINADE_CUDA_MODULE"}
    programs = (a.build / PROGRAM, a.baseline / PROGRAM)
    for program in programs:  # an untimed run, because the first one reads from the disk
        text = milliseconds(program, env)[1]
        if "no NVIDIA driver" not in text:
            sys.exit(f"this machine has a driver: start-up without one is to be measured; {program} said\n{text}")
    rounds = []
    for i in range(a.rounds):
        times = {p: milliseconds(p, env)[0] for p in (programs if i % 2 == 0 else programs[::-1])}
        rounds.append(tuple(times[p] for p in programs))
    differences = [ours - theirs for ours, theirs in rounds]
    low, high = interval_of_median(differences)
    found = cuda_libraries(a.build / PROGRAM)
    print(f"{processor()}; {a.rounds} rounds of `binade-doctor env` without a driver")
    print(f"with the CUDA module {median([r[0] for r in rounds]):.2f} ms, CPU only {median([r[1] for r in rounds]):.2f} ms, "
          f"difference {median(differences):+.2f} ms [{low:+.2f}, {high:+.2f}], goal {GOAL_MS} ms")
    print(f"CUDA libraries that the loader takes: {', '.join(found) or 'none'}")
    return 1 if found or median(differences) > GOAL_MS else 0


if __name__ == "__main__":
    sys.exit(main())
