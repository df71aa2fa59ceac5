"""Writes a header with a hash of all declarations that libbinade and the CUDA module share.

Usage: abi.py ROOT OUTPUT [DEPFILE] [--replace OLD NEW]

The hash covers the headers that declare the lists of ops, their formulas, the kernel table with its argument structs, and
the C functions. Comments and spaces do not count. module.cpp refuses a module with another hash, so nobody has to raise a
version number. `--replace` replaces a text in the lists of ops, for the test that such a module is refused.
"""
import hashlib
import os
import re
import sys

FOLLOWED = ("cuda/api.h", "core/kernels/table.h")  # hashed with all headers that they include, directly or indirectly
NAMED = "core/ops/formulas.h"  # hashed with the headers that it includes directly; the others are for the host only
INCLUDE = re.compile(r'^#include "binade/([^"]+)"', re.MULTILINE)


def abi(root, replace=None):
    """Returns the hash (16 hex digits) and the paths of the hashed headers."""
    texts = {}

    def take(path, follow):
        if path in texts:
            return
        with open(os.path.join(root, path), encoding="utf-8") as file:
            texts[path] = file.read()
        for found in INCLUDE.findall(texts[path]) if follow else ():
            take(found, follow)

    for path in FOLLOWED:
        take(path, True)
    take(NAMED, False)
    for path in INCLUDE.findall(texts[NAMED]) + ["core/math.h", "core/special_math.h"]:
        take(path, False)
    if replace:
        before = texts["core/ops/lists.h"]
        texts["core/ops/lists.h"] = before.replace(*replace)
        assert texts["core/ops/lists.h"] != before, f"lists.h has no {replace[0]!r}"
    digest = hashlib.sha256()
    for path, text in sorted(texts.items()):
        digest.update(path.encode() + b"\0" + re.sub(r"//[^\n]*|\s+", "", text).encode() + b"\0")
    return digest.hexdigest()[:16], sorted(texts)


def main(arguments):
    replace = None
    if "--replace" in arguments:
        at = arguments.index("--replace")
        replace = arguments[at + 1:at + 3]
        del arguments[at:at + 3]
    root, output, *depfile = arguments
    number, headers = abi(root, replace)
    with open(output, "w", encoding="utf-8") as file:
        file.write("#pragma once\n\n#include <cstdint>\n\nnamespace binade::cuda {\n\n"
                   "/// Hash of the declarations that libbinade and the CUDA module share (cuda/abi.py).\n"
                   f"inline constexpr std::uint64_t kAbi = 0x{number};\n\n}}  // namespace binade::cuda\n")
    for path in depfile:
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{output}: {' '.join(os.path.join(root, header) for header in headers)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
