"""Writes golden files: plain text that tests/golden/golden_file.h reads.

    # anything                                   comment, empty lines too
    case NAME                                    opens a case; names are unique in a file
    op OPNAME                                    the op under test
    param KEY VALUE                              any number of them; VALUE is one word
    tensor ROLE DTYPE DIMS : v v v ...           row-major; DIMS are `2,3,4`, or `-` for a scalar; one line a tensor
    end                                          closes the case

DTYPE is f32, f16, bf16, f64, i32, i64, u8 or bool (0 and 1). Floats are decimals, `inf`, `-inf` or `nan`. Inputs are f32
in their shortest decimal form, which reads back to the same bits. Expected values are f64 with 10 significant digits.

ROLE is one of
    in.NAME      an input                        out.NAME     an expected output
    gout.NAME    the cotangent of that output    gin.NAME     the expected gradient of that input

The first line of a file names the script, the PyTorch version and the date.
"""
import datetime
import os

import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
NAMES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "bool",
         "float16": "f16", "bfloat16": "bf16"}


def word(v, dtype):
    if dtype in ("float16", "bfloat16"):
        v, dtype = np.float32(v), "float32"
    if dtype in ("float32", "float64"):
        if np.isnan(v):
            return "nan"
        if np.isinf(v):
            return "inf" if v > 0 else "-inf"
        if v == 0:
            return "0"
        text = np.format_float_scientific(v, trim="-") if dtype == "float32" and abs(v) < 1e-4 else \
            np.format_float_positional(v, trim="-") if dtype == "float32" else f"{v:.10g}"
        return text
    return str(int(v))


class GoldenFile:
    def __init__(self, name, about, version):
        self.path = os.path.join(FOLDER, name)
        self.lines = [f"# {about}; {version}; {datetime.date.today().isoformat()}"]
        self.names = set()

    def case(self, name, op, params, tensors):
        """tensors: list of (role, numpy array)."""
        assert name not in self.names, name
        self.names.add(name)
        self.lines += ["", f"case {name}", f"op {op}"]
        self.lines += [f"param {k} {str(v).lower() if isinstance(v, bool) else v}" for k, v in params.items()]
        for role, value in tensors:
            value = np.asarray(value)
            dims = ",".join(str(d) for d in value.shape) or "-"
            kind = str(value.dtype)
            self.lines.append(f"tensor {role} {NAMES[kind]} {dims} : " + " ".join(word(v, kind) for v in value.ravel()))
        self.lines.append("end")

    def write(self):
        os.makedirs(FOLDER, exist_ok=True)
        with open(self.path, "w") as f:
            f.write("\n".join(self.lines) + "\n")
        print(f"{self.path}: {len(self.names)} cases, {os.path.getsize(self.path)} bytes")
