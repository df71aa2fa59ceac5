"""Writes a C++ file that includes a .cu file: wrap.py SOURCE TARGET. Meson compiles .cu files as CUDA only."""
import os
import sys

source, target = sys.argv[1:]
with open(target, "w", encoding="utf-8") as file:
    file.write(f'#include "{os.path.abspath(source)}"\n')
