#!/usr/bin/env python3
"""Prints the CPU time that a compiler needs for Binade's header and for README's program: the median of some runs, and the range.

    bench/compile_time.py [COMPILER]   # needs build/include, which the build makes
"""
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/install"))
from outside import readme_program  # noqa: E402

RUNS = 5


def cpu_seconds(*command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    compiler = sys.argv[1] if len(sys.argv) > 1 else "g++"
    with tempfile.TemporaryDirectory() as folder:
        for what, text, flags in (("#include <binade.h>", "#include <binade.h>\n", ["-fsyntax-only"]),
                                  ("README's program, -O0", readme_program(str(ROOT)), ["-O0", "-c", "-o", os.devnull]),
                                  ("README's program, -O2", readme_program(str(ROOT)), ["-O2", "-c", "-o", os.devnull])):
            source = pathlib.Path(folder, "program.cpp")
            source.write_text(text, encoding="utf-8")
            times = sorted(cpu_seconds(compiler, "-std=c++20", f"-I{ROOT}/build/include", *flags, source) for _ in range(RUNS))
            print(f"{what}: {statistics.median(times):.2f} s ({times[0]:.2f} - {times[-1]:.2f})")


if __name__ == "__main__":
    main()
