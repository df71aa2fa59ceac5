"""symbols.py NM LIBRARY...: fails if a shared library exports a foreign symbol, or if no library exports a symbol that programs need.

A foreign symbol is an instantiation of another library's template, or a C function with a common name. If a program or
another library defines the same name, one definition replaces the other. packaging/symbols.map lists what is exported.
"""
import subprocess
import sys

# Without these, programs cannot catch Binade's exceptions, derive from its classes or call it.
NEEDED = ("typeinfo for binade::Error", "typeinfo name for binade::Error", "typeinfo for binade::ShapeError",
          "vtable for binade::nn::Linear", "typeinfo for binade::nn::Module", "binade::Runtime::Runtime(",
          "binade::optim::Optimizer::step(")


def own(mangled):
    """Whether a mangled name belongs to an entity in namespace binade: a nested name (N, after qualifiers) that begins with it.

    The demangled name does not show it: for a template it begins with the result type, and a type of Binade may be the result or
    an argument.
    """
    for prefix in ("_ZTV", "_ZTT", "_ZTI", "_ZTS", "_ZTH", "_ZTW", "_ZGV", "_ZGR", "_ZZ", "_ZGVZ", "_Z"):
        rest = mangled.removeprefix(prefix)
        if rest != mangled and rest.startswith("N") and rest[1:].lstrip("KVRO").startswith("6binade"):
            return True
    # A thunk: an offset (h or v) before the function's name.
    return mangled.startswith(("_ZTh", "_ZTv", "_ZTc")) and "_N6binade" in mangled


def exported(nm, library, *flags):
    """The names of the defined dynamic symbols; with -C, demangled."""
    listing = subprocess.run([nm, "-D", "--defined-only", *flags, library], check=True, capture_output=True, text=True).stdout
    return [line.split(" ", 2)[2] for line in listing.splitlines()]


def self_check():
    for name in ("_ZN6binade4fillERNS_6TensorE", "_ZNK6binade5Shape4rankEv", "_ZTIN6binade5ErrorE", "_ZZN6binade3getEvE1x",
                 "_ZGVZN6binade3getEvE1x", "_ZThn16_N6binade2io4FileD1Ev"):
        assert own(name), name
    for name in ("read_bytes", "_ZN3fmt2v96detail5writeEv", "_ZNSt6vectorIN6binade6TensorESaIS1_EE9push_backERKS1_",
                 "_ZTISt8functionIFvN6binade5ShapeEE", "_ZN8nlohmann10basic_jsonEv", "_ZTIZN6binade3getEvEUlvE_"):
        assert not own(name), name


def main():
    self_check()
    nm, *libraries = sys.argv[1:]
    mangled, names = ([name for library in libraries for name in exported(nm, library, *flags)] for flags in ((), ("-C",)))
    foreign = [name for symbol, name in zip(mangled, names) if not own(symbol)]
    missing = [name for name in NEEDED if not any(exports.startswith(name) for exports in names)]
    print(f"{len(names)} exported symbols, {len(foreign)} of them foreign")
    for name in foreign[:40]:
        print(f"foreign: {name}")
    for name in missing:
        print(f"not exported: {name}")
    return 1 if foreign or missing else 0


if __name__ == "__main__":
    sys.exit(main())
