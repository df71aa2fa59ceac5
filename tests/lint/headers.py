"""Compiles each header alone, included twice: headers.py ROOT COMPILER [flags...]. Exits with 1 if one does not compile.

Headers NAME.h beside a NAME.cpp are skipped: NAME.cpp includes its header first (lint rule own_header_first), so the build
already checks it. The others compile in well under a minute.
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

FOLDERS = ("core", "autograd", "nn", "optim", "io", "amp", "run", "doctor", "tests", "examples", "bench")


def headers_to_compile(root):
    yield from (name for name in ("binade.h", "inference.h") if os.path.exists(os.path.join(root, name)))
    for top in FOLDERS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(".h") and name[:-2] + ".cpp" not in names:
                    yield os.path.relpath(os.path.join(folder, name), root)


def failures(root, compiler):
    """Yields (header, compiler's complaint)."""
    public = tempfile.TemporaryDirectory()  # has a link by which "binade/core/tensor.h" is core/tensor.h
    os.symlink(os.path.abspath(root), public.name + "/binade")

    def compile_alone(header):
        name = header if header.split("/")[0] in ("binade.h", "tests", "examples", "bench") else "binade/" + header
        unit = f'#include "{name}"\n#include "{name}"\n'
        # From `root`: a source on standard input resolves quoted includes in the working folder first.
        done = subprocess.run([*compiler, "-I" + public.name, "-I" + os.path.abspath(root), "-fsyntax-only", "-x", "c++", "-"], input=unit, capture_output=True,
                              text=True, cwd=root)
        return header, done.returncode, done.stderr

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, code, complaint in pool.map(compile_alone, headers_to_compile(root)):
            if code:
                yield header, complaint


def main():
    root, compiler = sys.argv[1], sys.argv[2:]
    found = list(failures(root, compiler))
    for header, complaint in found:
        print(f"{header} does not compile alone:\n{complaint}")
    print(f"{len(list(headers_to_compile(root)))} headers compiled alone, {len(found)} failures")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
