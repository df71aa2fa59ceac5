#!/usr/bin/env python3
"""Makes the golden files in tests/golden/data with PyTorch. Needed only to change these files, not to build or test.

    pip install torch numpy schedulefree ; python tests/golden/make_golden.py [ops|second|optim|optimizers|state_dicts|traces ...]

ops.FAMILY.txt  every op's forward and backward (golden_ops.py)
ops.second.txt  second derivatives (golden_second.py)
optim.txt       optimizers, clipping, EMA and schedules over 20 steps (golden_optim.py)
optimizers.txt  further optimizers and schedules (golden_optimizers.py)
state_dicts.txt  state dicts of modules, with inputs and outputs (golden_state_dicts.py)
traces.txt      20 training steps of a small U-Net and a small transformer (golden_traces.py)
golden_text.py describes the format; tests/golden/*_test.cpp read the files.
"""
import sys

import torch

import golden_optim
import golden_dimensions
import golden_functions
import golden_linalg
import golden_losses
import golden_modules
import golden_movement
import golden_names
import golden_optimizers
import golden_ops
import golden_recurrent
import golden_second
import golden_signals
import golden_state_dicts
import golden_traces
from golden_text import GoldenFile

torch.manual_seed(0)
torch.set_num_threads(1)
VERSION = f"PyTorch {torch.__version__}"


def main(wanted):
    if "ops" in wanted:
        for family, write in {**golden_ops.FAMILIES, "dimensions": golden_dimensions.dimensions, "functions": golden_functions.functions,
                              "loss_functions": golden_losses.losses, "linalg": golden_linalg.linalg, "movement": golden_movement.movement,
                              "modules": golden_modules.modules, "names": golden_names.names, "recurrent": golden_recurrent.recurrent, "signals": golden_signals.signals}.items():
            file = GoldenFile(f"ops.{family}.txt", "golden_ops.py, in double from float32 inputs", VERSION)
            write(golden_ops.Writer(file))
            file.write()
    if "second" in wanted:
        file = GoldenFile("ops.second.txt", "golden_second.py, in double from float32 inputs", VERSION)
        golden_second.second(golden_ops.Writer(file))
        file.write()
    if "optim" in wanted:
        file = GoldenFile("optim.txt", "golden_optim.py, in double from float32 inputs", VERSION)
        golden_optim.write(file)
        file.write()
    if "optimizers" in wanted:
        file = GoldenFile("optimizers.txt", "golden_optimizers.py, in double from float32 inputs", VERSION)
        golden_optimizers.write(file)
        file.write()
    if "state_dicts" in wanted:
        file = GoldenFile("state_dicts.txt", "golden_state_dicts.py, in double from float32 weights", VERSION)
        golden_state_dicts.write(file)
        file.write()
    if "traces" in wanted:
        file = GoldenFile("traces.txt", "golden_traces.py", VERSION)
        golden_traces.write(file)
        file.write()


if __name__ == "__main__":
    main(sys.argv[1:] or ["ops", "second", "optim", "optimizers", "state_dicts", "traces"])
