"""public_headers.py [SOURCE]: prints the public headers: those that binade.h includes, directly or through other headers,
and the headers of separate libraries (ONNX).

All other headers are internal: they are not installed, and the manual does not show them (docs/compatibility.md).
"""
import os
import re
import sys


def public_headers(source):
    """Paths relative to SOURCE, sorted."""
    public, waiting = set(), ["binade.h", "inference.h", "io/onnx/export.h", "io/onnx/import.h"]
    while waiting:
        header = waiting.pop()
        if header not in public:
            public.add(header)
            with open(os.path.join(source, header), encoding="utf-8") as file:
                waiting += re.findall(r'^#include "binade/(.*)"$', file.read(), re.MULTILINE)
    return sorted(public)


if __name__ == "__main__":
    print("\n".join(public_headers(sys.argv[1] if len(sys.argv) > 1 else ".")))
