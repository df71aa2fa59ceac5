"""compare.py --python PYTHON --build BUILD [NAME …]: compares each model with its twin in PyTorch, which PYTHON must have.

Runs both programs in turn, and prints the ratios of time per step and of peak memory, and the numbers that both learned
for several seeds. Memory is compared as a whole, and minus that of a program that only prints its flags, because
PyTorch's libraries alone take more than 200 MB. Ratios below 1 are in favor of Binade.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def run(command):
    """Runs a program. Returns its metrics, with `memory`, the peak of its resident memory in MiB."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"exit code {process.returncode}: {' '.join(command)}")
        output.seek(0)
        lines = [line.split() for line in output if line.startswith("metric ")]
    return {**{name: float(value) for _, name, value in lines}, "memory": usage.ru_maxrss / 1024}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="a Python that has PyTorch")
    parser.add_argument("--build", required=True, help="the build folder of Binade")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each program; round N has seed N")
    parser.add_argument("--policy", choices=["fp32", "bf16", "fp16"], default="fp32")
    parser.add_argument("--steps", type=int, help="default: that of each program")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    flags = ["--policy", args.policy, "--threads", "1"] + (["--steps", str(args.steps)] if args.steps else [])

    print("model            ms/step  PyTorch ratio      MiB  PyTorch ratio beyond start  learned | PyTorch")
    for name in args.names or sorted(path.stem for path in HERE.glob("*.cpp")):
        ours = [f"{args.build}/examples/models/model_{name}"]
        twin = [args.python, str(HERE / "pytorch" / f"{name}.py")]
        start = [run(program + ["--help"])["memory"] for program in (ours, twin)]
        seeds = [[*flags, "--seed", str(seed)] for seed in range(1, args.rounds + 1)]
        rounds = [(run(ours + seed), run(twin + seed)) for seed in seeds]
        line = f"{name:<14}"
        for number in ("step_ms", "memory"):
            values = [statistics.median(both[side][number] for both in rounds) for side in (0, 1)]
            line += f"{values[0]:10.2f}{values[1]:9.2f}{values[0] / values[1]:6.2f}"
        beyond = [max(0.1, value - before) for value, before in zip(values, start)]
        learned = [", ".join(f"{key} " + " ".join(f"{both[side][key]:.3g}" for both in rounds)
                             for key in rounds[0][side] if key not in ("step_ms", "memory")) for side in (0, 1)]
        print(f"{line}{beyond[0] / beyond[1]:13.2f}  {' | '.join(learned)}", flush=True)


main()
