#!/usr/bin/env python3
"""Tests and times Binade on a GPU with one command, and prints one short table and one JSON file. Standard library only.

    ./run-gpu test                 in a bundle (`./dev bundle` makes it), on a machine with a GPU
    ./run-gpu bench [--quick]      times Binade and PyTorch, and compares the results with the goals of docs/performance-gpu.md
    ./run-gpu first-light          the most important tests and timings, within 540 seconds (gpu/first_light.py)
    bench/run_gpu.py test --build build --emulated --quick      tests the script without a GPU

`test` runs these, each as a line of the table: `binade-doctor env`; the tests of the backend; the conformance suite (every op on the
device; on a GPU also cuSOLVER's decompositions); captured steps, also submitted ahead; both models in 16 bits; library plans stored with a run; twenty training steps compared with
PyTorch's; training, resuming, fault injection and lost devices in the programs; and, if it is installed, compute-sanitizer on the
backend, the ops and whole steps (memcheck, racecheck, initcheck, synccheck). --quick leaves out the parts that take minutes.

--emulated uses the device of tests/cuda/simt. If the loader does not find cuBLASLt and cuDNN, they are taken from the NVIDIA
packages of the Python that runs this script, or from /usr/local/cuda. All parts of cuDNN must come from one folder.
The exit status is the number of lines that failed.

`bench` measures the rate of copies and products; whole steps of gpt2-1024 and unet-gpu in all precisions, in turn with PyTorch's; ops
of both frameworks; the cost of telemetry and checkpoints; and kernels, if nsys or ncu is installed. First losses are compared before
anything is timed. Each framework draws its own initial weights, so the first loss of a language model must be within 3 % of the logarithm
of its number of logits, contenders of one framework must be within 2 % of each other, and every loss must fall. PyTorch: --torch PYTHON, $BINADE_TORCH_PYTHON, .venv-torch, or the Python that
runs this. --quick takes less than four minutes; --workloads, --batches, --precisions, --modes and --parts select what to measure. The
exit status is the number of missed goals; a goal that could not be measured is not counted.
"""
import argparse
import datetime
import glob
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

from gpu import bench, first_light

HERE = pathlib.Path(__file__).resolve().parent
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Filter for runs under a sanitizer, which makes tests a hundred times slower: one case of every family.
SLICE = "LinearAlgebraSizes.*Block*:LinearAlgebraSizes.AreNot*:*channel_slice*:*odd_tiles*:*causal*:*Gpu*-*Exhaustive*:*EveryHalf*"


class Folder:
    """The folder of the programs and tests: a bundle (bin/) or a build folder."""

    def __init__(self, root):
        self.root = root
        self.bundle = (root / "bin").is_dir()

    def program(self, path):
        return self.root / "bin" / pathlib.PurePath(path).name if self.bundle else self.root / path

    def module(self, emulated):
        name = "libbinade_simt.so" if emulated else "libbinade_cuda.so"
        place = ("cuda" if emulated else "lib") if self.bundle else ("tests/cuda" if emulated else "cuda")
        return self.root / place / name

    def golden(self):
        return self.root / "golden" if self.bundle else HERE.parent / "tests/golden/data"

    def scripts(self):
        return self.root / "tests/programs" if self.bundle else HERE.parent / "tests/programs"


def library_folders(python=None):
    """Returns the folders of cuBLASLt, cuDNN and cuSOLVER that the loader may not search, including those of the packages of `python`."""
    sites, folders = [sysconfig.get_paths()["purelib"]], []
    if python:
        sites += glob.glob(str(pathlib.Path(python).parent.parent / "lib/python*/site-packages"))
    for name in ("libcublasLt.so.13", "libcudnn.so.9", "libcusolver.so.12"):
        found = [path for site in sites for path in glob.glob(f"{site}/nvidia/**/lib/{name}", recursive=True)]
        found += glob.glob(f"/usr/local/cuda/lib64/{name}")
        if found and os.path.dirname(found[0]) not in folders:
            folders.append(os.path.dirname(found[0]))
    return folders


def environment(folder, emulated, python=None):
    env = dict(os.environ, BINADE_TEST_DEVICE="cuda", BINADE_GOLDEN_DIR=str(folder.golden()), BINADE_BUILD=str(folder.root),
               BINADE_SOURCE_DIR=str(HERE.parent if not folder.bundle else folder.root), NO_COLOR="1")
    if emulated or folder.bundle:
        env["BINADE_CUDA_MODULE"] = str(folder.module(emulated))
    if not emulated:
        env["LD_LIBRARY_PATH"] = ":".join([*library_folders(python), *filter(None, [env.get("LD_LIBRARY_PATH")])])
    return env


class Report:
    def __init__(self):
        self.lines = []

    def add(self, name, seconds, status, passed=0, failed=0, skipped=0, text=""):
        line = {"what": name, "ok": status == 0 and failed == 0, "passed": passed, "failed": failed, "skipped": skipped,
                "seconds": round(seconds, 1), "status": status}
        if not line["ok"]:
            line["output"] = text[-4000:]
        self.lines.append(line)
        print(f"{'ok    ' if line['ok'] else 'FAILED'}  {name:<44} {passed:>6} passed {failed:>4} failed {skipped:>4} skipped "
              f"{seconds:8.1f} s", flush=True)
        if not line["ok"]:
            print("        " + "\n        ".join(text.strip().splitlines()[-15:]), flush=True)


def call(command, env, seconds):
    """Runs a command. Returns (status, output, seconds); status 124 if it ran too long."""
    begin = time.monotonic()
    try:
        done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True, errors="replace", timeout=seconds)
        return done.returncode, done.stdout + done.stderr, time.monotonic() - begin
    except subprocess.TimeoutExpired as late:
        return 124, f"{late.stdout or b''}\nstopped after {seconds} s", time.monotonic() - begin
    except OSError as error:
        return 127, str(error), time.monotonic() - begin


def google_tests(report, name, command, env, seconds):
    """Runs a GoogleTest program. Counts tests by the JSON file that it writes at its end, so a program that dies counts no test."""
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "out.json")
        status, text, took = call([*command, f"--gtest_output=json:{out}", "--gtest_brief=1"], env, seconds)
        counts = {"tests": 0, "failures": 0, "errors": 0}
        skipped = 0
        if os.path.exists(out):
            with open(out, encoding="utf-8") as file:
                counts = json.load(file)
            skipped = sum(test.get("result") == "SKIPPED" for suite in counts["testsuites"] for test in suite["testsuite"])
        failed = counts["failures"] + counts["errors"]
        report.add(name, took, status, counts["tests"] - failed - skipped, failed, skipped, text)


def test(folder, args, report):
    env = environment(folder, args.emulated)
    status, about, took = call([folder.program("doctor/binade-doctor"), "env"], env, 120)
    on_device = "device    cuda" in about
    report.add("binade-doctor env", took, status if on_device else status or 1, passed=int(on_device), text=about)
    report.about = about.strip().splitlines()

    cuda_tests = folder.program("tests/cuda/cuda_tests")
    conformance = folder.program("tests/conformance/conformance_tests")
    google_tests(report, "the backend", [cuda_tests], env, args.limit)
    chosen = f"--gtest_filter={SLICE}" if args.quick else "--gtest_filter=*"
    google_tests(report, "every op (conformance)", [conformance, chosen], env, args.limit)
    if args.emulated:  # on a GPU, the conformance tests above use cuSOLVER itself
        chosen = "LinearAlgebra*" if not args.quick else "LinearAlgebraSizes.*Block*"
        google_tests(report, "linear algebra by cuSOLVER's stand-in", [conformance, f"--gtest_filter={chosen}"],
                     env | {"BINADE_SIMT_LIBRARY": "1"}, args.limit)
    steps = folder.program("tests/cuda/cuda_step_tests")
    google_tests(report, "whole steps, recorded and sent ahead", [steps], env, args.limit)
    google_tests(report, "both models in halves", [folder.program("tests/cuda/cuda_model_tests")], env, args.limit)
    library = {"BINADE_SIMT_LIBRARY": "1"} if args.emulated else {}
    google_tests(report, "plans that a run keeps", [folder.program("tests/cuda/cuda_run_tests")], env | library, args.limit)
    google_tests(report, "20 steps beside PyTorch's", [folder.program("tests/golden/golden_tests"), "--gtest_filter=GoldenTraces*"], env, args.limit)
    status, text, took = call([sys.executable, folder.scripts() / "device_test.py"], env, args.limit)
    ran, skipped = text.count(" ... "), text.count(" ... skipped")
    failed = text.count("FAIL: ") + text.count("ERROR: ")
    report.add("programs: train, resume, drills, lost devices", took, status, ran - failed - skipped, failed, skipped, text)

    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if args.emulated or not os.path.exists(sanitizer):
        print("        compute-sanitizer: " + ("no use on an emulated device" if args.emulated else "not installed"), flush=True)
        return
    for tool in SANITIZERS:
        for name, program, chosen in (("the backend", cuda_tests, "*-*AFullRingBuffer*:*OutOfMemoryIsAnError*"),
                                      ("ops", conformance, SLICE), ("whole steps", steps, "*RecordedStep.*:*StepsAhead.AfterAStepThat*/1:*StepsAhead.AfterARollback*/1")):
            google_tests(report, f"compute-sanitizer {tool}: {name}",
                         [sanitizer, "--tool", tool, "--error-exitcode", "9", program, f"--gtest_filter={chosen}"], env, args.limit)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["test", "bench", "first-light", "env"],
                        help="test: everything; bench: how long it takes; first-light: what a new card says in minutes; env: what is there")
    parser.add_argument("--build", type=pathlib.Path, default=HERE, help="a bundle or a build folder (default: where this lies)")
    parser.add_argument("--emulated", action="store_true", help="on the emulated device")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    parser.add_argument("--limit", type=int, default=1500, help="seconds for one line of the table")
    parser.add_argument("--out", type=pathlib.Path, help="where the JSON goes (default: DATE-gpu-test.json, DATE-gpu-bench.json in the working folder)")
    timing = parser.add_argument_group("bench")
    timing.add_argument("--seconds", type=float, default=0, help="time for all parts (default: 200 with --quick, else 3300)")
    timing.add_argument("--torch", help="a Python with PyTorch")
    timing.add_argument("--workloads", default="", help="gpt,unet")
    timing.add_argument("--batches", default="", help="for example 8,64")
    timing.add_argument("--precisions", default="", help="bf16,fp16,tf32,fp32; bf16 of Binade always runs")
    timing.add_argument("--modes", default="", help="eager,default,reduce-overhead,max-autotune")
    timing.add_argument("--parts", default="", help="ceilings,gpt2,unet,products,ops,peer,overhead,checkpoint,kernels; all else")
    first = parser.add_argument_group("first-light")
    first.add_argument("--tests-seconds", type=float, default=200, help="time for the tests")
    first.add_argument("--bench-seconds", type=float, default=240, help="time for the timings")
    first.add_argument("--ops", default="*", help="a GoogleTest filter of the conformance suite")
    args = parser.parse_args()
    folder = Folder(args.build.resolve())
    if args.what == "env":
        status, text, _ = call([folder.program("doctor/binade-doctor"), "env"], environment(folder, args.emulated), 120)
        print(text, end="")
        return status
    if args.what == "bench":
        return bench.run(HERE, folder, environment(folder, args.emulated, args.torch or os.environ.get("BINADE_TORCH_PYTHON")), args)
    if args.what == "first-light":
        return first_light.run(HERE, folder, environment(folder, args.emulated, args.torch or os.environ.get("BINADE_TORCH_PYTHON")), args)
    report = Report()
    test(folder, args, report)
    now = datetime.datetime.now(datetime.timezone.utc)
    out = args.out or pathlib.Path(f"{now:%Y-%m-%d-%H%M}-gpu-test.json")
    document = {"date": f"{now:%Y-%m-%dT%H:%M:%SZ}", "emulated": args.emulated, "quick": args.quick, "host": platform.platform(),
                "env": report.about, "results": report.lines}
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    failed = sum(not line["ok"] for line in report.lines)
    print(f"{len(report.lines) - failed} of {len(report.lines)} lines ok; {out}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
