"""Keeps the code of instruction-set levels apart: isa_symbols.py NM LEVEL=ARCHIVE ... exits with 1 if an archive of a level
above `generic` defines a symbol that other code could share.

If several levels compile an inline function out of line, there are several versions with one name, and the linker keeps
one version for all callers. If it keeps the AVX-512 version, `generic` ends with an illegal instruction on a processor
without AVX-512. So every symbol of these archives must be local or have the level in its name (namespace binade::cpu::LEVEL, or a
template over a type from there).
"""
import subprocess
import sys

# Not code, but the address of the personality routine: GCC emits this hidden pointer in each object with exceptions.
HARMLESS = ("DW.ref.",)


def shared_symbols(listing, level):
    """External symbols of `nm --defined-only -P` output that are not the level's own."""
    own = f"3cpu{len(level)}{level}"
    found = []
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) < 2 or len(fields[1]) != 1:  # "archive[object]:" and blank lines
            continue
        name, kind = fields[:2]
        external = kind.isupper() or kind in "uvwi"
        if external and kind not in "UN" and own not in name and not name.startswith(HARMLESS):
            found.append(name)
    return found


def self_check():
    sample = ("lib.a[a.o]:\n_ZN6binade3cpu2v44loopEv T 0 10\n_ZN6binade4math3expEf W 0 8\n_ZL5localv t 0 4\n"
              "_ZN6binade3cpu6v4bf164loopEv W 0 10\n_ZZN1A3getEvE1x u 0 8\nDW.ref.__gxx_personality_v0 V 0 8\n")
    assert shared_symbols(sample, "v4") == ["_ZN6binade4math3expEf", "_ZN6binade3cpu6v4bf164loopEv", "_ZZN1A3getEvE1x"]


def readable(names):
    try:
        return subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.split("\n")
    except OSError:
        return names


def main():
    self_check()
    nm, archives = sys.argv[1], [argument.split("=", 1) for argument in sys.argv[2:]]
    failed = False
    for level, archive in archives:
        listing = subprocess.run([nm, "--defined-only", "-P", archive], capture_output=True, text=True, check=True).stdout
        table = f"_ZN6binade3cpu{len(level)}{level}14loops_of_levelEv"
        if table not in listing:
            print(f"{archive}: no loops_of_level() of level {level}: is this the right archive?")
            failed = True
        for name in readable(sorted(set(shared_symbols(listing, level)))):
            if name:
                print(f"{level}: {name} could serve other levels too: make it BINADE_HD (always inlined), put it into an "
                      "unnamed namespace of the kernel's source, or define it in a .cpp file outside of kernel_sources")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
