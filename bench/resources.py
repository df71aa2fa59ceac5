#!/usr/bin/env python3
"""Prints registers, shared memory and local memory of each kernel of the CUDA module. Standard library only.

    bench/resources.py [build/cuda/libbinade_cuda.so] [--all] [--json FILE]

Reads the machine code in the module itself, as `cuobjdump --dump-resource-usage` would (which is not part of every CUDA
installation): the cubins of its fat binaries, unpacked with libzstd if they are compressed, and in them, for each
kernel, the attributes in .nv.info and the size of .nv.shared. `local` is the stack frame of a thread in bytes: spilled registers, and arrays whose elements
are not chosen at compile time. Both cause memory traffic. `threads` is the number of threads that fit on a multiprocessor of Hopper, given
their registers (65536 registers, at most 2048 threads).

Prints the kernels with local memory (--all: every one) and a summary. Exits with 1 if a kernel that is not in COLD has
local memory, or if a kernel contains a trap instruction. Binade's kernels use no traps, but nvcc silently compiles code into a trap if
its behavior is undefined on the device (such as a reference to a static constexpr member, which has an address on the host only).
"""
import argparse
import ctypes
import ctypes.util
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Kernels that may have local memory, with the reason why it hardly slows down a step.
COLD = {r"\bdouble\b": "checks only", r"^conv_elements<": "groups of fewer than 16 channels", r"^forward_rows<\w+, 1, 0>": "rows too wide to keep, not in packs"}
FAT_MAGIC, ELF_KIND = 0xBA55ED50, 2
PACKED_ZSTD = 0x8000
TRAP = 0x95C  # BPT.TRAP: the low 12 bits of a 16-byte instruction of sm_70 and later
FRAME_SIZE, MAX_THREADS, REGISTERS, MIN_STACK = 0x11, 0x05, 0x2F, 0x12


class Unreadable(Exception):
    pass


def unpack_zstd(data, size):
    name = ctypes.util.find_library("zstd") or "libzstd.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        raise Unreadable("the module's code is packed, and there is no libzstd to unpack it") from None
    library.ZSTD_decompress.restype = ctypes.c_size_t
    into = ctypes.create_string_buffer(size)
    got = library.ZSTD_decompress(into, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    if got != size:
        raise Unreadable(f"a packed cubin unpacks to {got} bytes, wanted {size}")
    return into.raw


def cubins(data):
    """The ELF images in all fat binaries of a file."""
    at = data.find(struct.pack("<I", FAT_MAGIC))
    while at >= 0:
        _, version, header, size = struct.unpack_from("<IHHQ", data, at)
        entry, end = at + header, at + header + size
        if version != 1 or end > len(data):
            at = data.find(struct.pack("<I", FAT_MAGIC), at + 4)
            continue
        while entry < end:
            kind, _, head, length = struct.unpack_from("<HHIQ", data, entry)
            packed, = struct.unpack_from("<I", data, entry + 16)
            flags, unpacked = struct.unpack_from("<Q", data, entry + 40)[0], struct.unpack_from("<Q", data, entry + 56)[0]
            if kind == ELF_KIND:
                image = data[entry + head:entry + head + (packed or length)]
                if not image.startswith(b"\x7fELF"):
                    if not flags & PACKED_ZSTD:
                        raise Unreadable("the module's code is packed in a way that this script does not know")
                    image = unpack_zstd(image, unpacked)
                yield image
            entry += head + length
        at = data.find(struct.pack("<I", FAT_MAGIC), end)


def sections(image):
    """Returns (name, type, content, info) of each section of an ELF64 file, and the names of its symbols by number."""
    table, = struct.unpack_from("<Q", image, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", image, 0x3A)
    heads = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * size) for i in range(count)]
    text = lambda strings, at: image[strings + at:image.index(b"\0", strings + at)].decode()
    names = heads[names_at][4]
    found, symbols = [], {}
    for name, kind, _, _, at, length, link, info, _, _ in heads:
        found.append((text(names, name), kind, b"" if kind == 8 else image[at:at + length], length, info))
        if kind == 2:
            for i in range(length // 24):
                symbols[i] = text(heads[link][4], struct.unpack_from("<I", image, at + i * 24)[0])
    return found, symbols


def attributes(info):
    """Yields (attribute, value bytes) of one .nv.info section."""
    at = 0
    while at + 4 <= len(info):
        form, name, value = struct.unpack_from("<BBH", info, at)
        if form == 4:
            yield name, info[at + 4:at + 4 + value]
            at += 4 + value
        else:
            yield name, struct.pack("<H", value)
            at += 4


def traps(code):
    """Returns the number of trap instructions in the code of one kernel."""
    return sum(low & 0xFFF == TRAP for low, _ in struct.iter_unpack("<QQ", code))


def kernels(image):
    """Returns {mangled name: resources} of one cubin. `stack` includes the frames of the functions that a kernel calls."""
    found, symbols = sections(image)
    entries = {name[len(".nv.info."):] for name, *_ in found if name.startswith(".nv.info.")}
    out = {name: {"registers": 0, "local": 0, "stack": 0, "shared": 0, "traps": 0} for name in entries}
    for name, kind, content, length, _ in found:
        if name.startswith(".nv.shared.") and name[len(".nv.shared."):] in out:
            out[name[len(".nv.shared."):]]["shared"] = length
        if name.startswith(".text.") and name[len(".text."):] in out:
            out[name[len(".text."):]]["traps"] = traps(content)
        if name != ".nv.info":
            continue
        for attribute, value in attributes(content):
            if attribute in (FRAME_SIZE, REGISTERS, MIN_STACK) and len(value) == 8:
                symbol, number = struct.unpack("<II", value)
                kernel = symbols.get(symbol)
                if kernel in out:
                    field = {FRAME_SIZE: "local", REGISTERS: "registers", MIN_STACK: "stack"}[attribute]
                    out[kernel][field] = number
    return out


def readable(names):
    """Returns demangled names without arguments; unchanged names if c++filt is not installed."""
    if not shutil.which("c++filt"):
        return {name: name for name in names}
    text = subprocess.run(["c++filt", "--no-params"], input="\n".join(names), capture_output=True, text=True).stdout.splitlines()
    return {name: re.sub(r"\(anonymous namespace\)::|binade::|cuda::", "", line) for name, line in zip(names, text)}


def resident_threads(registers):
    """Returns the number of threads on a multiprocessor of Hopper, which allocates registers per thread in multiples of 8."""
    each = max(8, -(-registers // 8) * 8)
    return min(2048, 65536 // (each * 32) * 32)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("module", nargs="?", type=pathlib.Path, default=ROOT / "build/cuda/libbinade_cuda.so")
    ap.add_argument("--all", action="store_true", help="every kernel, not those with local memory alone")
    ap.add_argument("--json", type=pathlib.Path, help="writes all of it there")
    a = ap.parse_args()
    try:
        found = {}
        for image in cubins(a.module.read_bytes()):
            found.update(kernels(image))
    except (OSError, Unreadable, struct.error) as error:
        print(f"{a.module}: {error}", file=sys.stderr)
        return 2
    names = readable(list(found))
    rows = sorted(({"kernel": names[name], **r, "threads": resident_threads(r["registers"]), "cold": next((why for pattern, why in COLD.items() if re.search(pattern, names[name])), "")}
                   for name, r in found.items()), key=lambda r: (-r["local"], -r["stack"], -r["registers"], r["kernel"]))
    if not rows:
        print(f"{a.module}: no kernel was found", file=sys.stderr)
        return 2
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"{'registers':>9} {'threads':>7} {'shared':>7} {'local':>6} {'stack':>6}  kernel")
    for r in rows:
        if a.all or r["local"] or r["stack"]:
            print(f"{r['registers']:9} {r['threads']:7} {r['shared']:7} {r['local']:6} {r['stack']:6}  {r['kernel'][:150]}" + (f" ({r['cold']})" if r["cold"] else ""))
    spilled = [r for r in rows if r["local"] or r["stack"]]
    hot = [r for r in spilled if not r["cold"]]
    print(f"{len(rows)} kernels, {len(spilled)} with local memory, {len(hot)} of them hot; registers at most {max(r['registers'] for r in rows)}")
    trapped = [r["kernel"] for r in rows if r["traps"]]
    for kernel in trapped:
        print(f"a trap is compiled into {kernel}: what does it use that the device does not have?")
    return 1 if hot or trapped else 0


if __name__ == "__main__":
    sys.exit(main())
