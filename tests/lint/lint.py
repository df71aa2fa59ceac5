"""Checks rules that the compiler does not check: lint.py [ROOT] prints a line per violation, and exits with 1 if there is any.

Each rule is a generator `rule(tree)` of (file, line, what is wrong and what to do), listed in RULES at the end. lint_test.py
plants a violation of each in a small tree.
"""
import os
import re
import sys

LIBRARY = ("core", "autograd", "nn", "optim", "io", "cuda", "mpi", "amp", "run", "doctor")
ABOVE = ("tests", "examples", "bench")
EVERY_FLOOR = {"core", "autograd", "nn", "optim", "io", "amp", "run"}

# The folders whose headers each folder may include, besides its own.
FLOORS = {
    "core": set(),
    "autograd": {"core"},
    "io": {"core"},
    "cuda": {"core"},
    "mpi": {"core"},
    "io/onnx": {"core", "autograd", "io", "nn"},  # a separate library
    "nn": {"autograd", "core"},
    "optim": {"autograd", "core"},
    "amp": {"nn", "optim", "io", "autograd", "core"},
    "run": EVERY_FLOOR,
    "run/model_files": {"core", "autograd", "io", "nn", "run"},  # part of the library for inference
    "doctor": EVERY_FLOOR,
    "tests": EVERY_FLOOR | {"doctor", "examples", "bench"},
    "examples": EVERY_FLOOR,
    "bench": EVERY_FLOOR | {"examples"},
}

# The subfolders ("rooms") of a folder; "" is the folder itself. A room may include itself and the rooms before it.
ROOMS = {
    "amp": ("", "watch", "warnings", "incident", "preflight", "ranks", "step"),
    "run": ("model_files", ""),
    "io": ("", "files", "text", "terminal", "checkpoint", "data", "records", "exchange", "onnx"),
}

# Third-party headers: (include, regular expression of the files that may have it, in words).
THIRD_PARTY = (
    (r"cuda|cublas|cudnn|cufft|cusolver|curand|nccl|cub/|thrust/|driver_types", r"(tests/)?cuda/", "cuda/"),
    (r"mpi\.h", r"mpi/engine\.cpp", "mpi/engine.cpp"),
    (r"hdf5\.h|H5", r"(tests/)?io/", "io/"),
    (r"Eigen/|unsupported/Eigen", r"tests/|core/kernels/eigen/.*\.cpp", "the .cpp files of core/kernels/eigen/ and tests/"),
    (r"kissfft/", r"core/kernels/cpu/fft\.cpp", "core/kernels/cpu/fft.cpp"),
    (r"onnx/|google/protobuf/", r"(io|tests)/onnx/.*\.cpp", "the .cpp files of io/onnx/ and tests/onnx/"),
    (r"omp\.h", r"core/.*\.cpp", "the .cpp files of core/"),
    (r"immintrin\.h|x86intrin\.h", r"core/(kernels/.*|.*\.cpp)|bench/", "core/kernels/, the .cpp files of core/ and bench/"),
    (r"openssl/", r"core/.*\.cpp", "the .cpp files of core/"),
    (r"zip\.h", r"io/files/zip\.cpp", "io/files/zip.cpp"),
    (r"png\.h", r"(tests/)?io/.*\.cpp", "the .cpp files of io/"),
    (r"turbojpeg\.h|jpeglib\.h", r"(tests/)?io/.*\.cpp", "the .cpp files of io/"),
    (r"sndfile\.h", r"io/data/audio\.cpp", "io/data/audio.cpp"),
    (r"CLI/", r"(run|doctor|examples|bench|tests)/.*\.cpp", "the programs' .cpp files"),
    (r"nlohmann/", r"(io|amp|run|doctor|examples|bench|tests)/.*\.cpp", ".cpp files above core/"),
    (r"fmt/(?!core\.h)", r".*\.cpp", ".cpp files (headers take fmt/core.h)"),
    (r"spdlog/", r".*\.cpp", ".cpp files"),
    (r"gtest/|gmock/", r"tests/", "tests/"),
)

GENERATED = {"core/build_config.h", "core/version_text.h", "cuda/abi.h", "doctor/page_assets.h", "io/optional_formats.h", "io/unicode_ranges.h"}
MAX_LINES = 600
BANNED_WORDS = {"fast", "optimized", "new", "v2", "helper", "helpers", "util", "utils", "manager", "misc"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b|\bnot (yet )?implemented\b|\bstub(bed)?\b", re.IGNORECASE)
BRITISH = re.compile(r"\w*(?:[a-z](?:al|ial|mal|mar|imi|uan|tor|ten|ron|ect|ogn)is(?:e[ds]?|ing|ation)\b|colour|behaviour|neighbour|labelled)(?!-pole)\w*",
                     re.IGNORECASE)
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


class Tree:
    """The source files under a root: path (relative, with /) -> text."""

    def __init__(self, root):
        self.root = root
        self.files = {}
        self.pages = {}  # *.md at the root and in docs/ and all folders
        for top in LIBRARY + ABOVE + ("binade.h", "inference.h"):
            start = os.path.join(root, top)
            if os.path.isfile(start):
                self._read(top)
            for folder, _, names in os.walk(start):
                for name in names:
                    if name.endswith((".h", ".cpp", ".cu", ".cuh", ".py", ".build")):
                        self._read(os.path.relpath(os.path.join(folder, name), root))
        for top in ("docs",) + LIBRARY + ABOVE:
            for folder, _, names in os.walk(os.path.join(root, top)):
                self._read_pages(folder, names)
        self._read_pages(root, os.listdir(root))

    def _read(self, path):
        self.files[path.replace(os.sep, "/")] = self._text(path)

    def _read_pages(self, folder, names):
        for name in names:
            if name.endswith(".md"):
                path = os.path.relpath(os.path.join(folder, name), self.root)
                self.pages[path.replace(os.sep, "/")] = self._text(path)

    def _text(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def cpp(self, *tops):
        """Yields (path, text) of C++ and CUDA files: of the named top folders, or of all."""
        for path, text in sorted(self.files.items()):
            if path.endswith((".h", ".cpp", ".cu", ".cuh")) and (not tops or path.split("/")[0] in tops):
                yield path, text


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def code_only(text):
    """The text with comments and literals replaced by spaces, so that positions stay the same."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())
    literal = r'R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    return re.sub(r"//[^\n]*|/\*(?:.|\n)*?\*/|" + literal, blank, text)


def includes(text):
    """Yields (line, quoted path or None, bracketed path or None). Quoted paths are relative to the root, without "binade/"."""
    for match in INCLUDE.finditer(text):
        quoted = match[1]
        if quoted and quoted.startswith("binade/"):
            quoted = quoted[len("binade/"):]
        elif quoted and quoted.split("/")[0] in LIBRARY and quoted not in GENERATED:
            quoted = "./" + quoted  # an installed header is not found by this path
        yield line_of(text, match.start(1) if match[1] else match.start(2)), quoted, match[2]


def floors(tree):
    for path, text in tree.cpp():
        top = path.split("/")[0]
        if top not in FLOORS:
            continue
        top = next((room for room in FLOORS if path.startswith(room + "/") and "/" in room), top)
        allowed = FLOORS[top] | {top} | ({"cuda"} if path.startswith("tests/cuda/") else set())
        for line, quoted, _ in includes(text):
            floor = quoted.removeprefix("./").split("/")[0] if quoted else top
            if quoted == "binade.h" and top in ABOVE:
                continue
            if floor not in allowed:
                yield path, line, f'{top}/ must not include "{quoted}"; it may include {", ".join(sorted(allowed))}'


def room_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else ""


def rooms(tree):
    """A room includes no later room of its folder."""
    for path, text in tree.cpp(*ROOMS):
        top, room = path.split("/")[0], room_of(path)
        if room not in ROOMS[top]:
            yield path, 1, f"{top}/{room}/ has no place among the rooms of {top}/: add it to ROOMS in tests/lint/lint.py"
            continue
        lower = ROOMS[top][:ROOMS[top].index(room)]
        for line, quoted, _ in includes(text):
            if quoted and quoted.startswith(top + "/") and room_of(quoted) not in lower + (room,):
                allowed = ", ".join(f"{top}/{r}/" if r else f"{top}/" for r in lower) or "no other room"
                yield path, line, f'{top}/{room}/ must not include "{quoted}"; it may include {allowed}'


def rooted_includes(tree):
    for path, text in tree.cpp():
        for line, quoted, _ in () if path.startswith("tests/install/outside/") else includes(text):
            if quoted and quoted not in tree.files and quoted not in GENERATED:
                yield path, line, f'"{quoted}" is no file: write "binade/FOLDER/NAME.h" for the library, the path from the root for the rest'


def ops_and_kernels(tree):
    """Ops include the kernel table and its argument structs; kernels include these and the formulas of elementwise ops."""
    table = "core/kernels/table.h"
    to_ops = {table, "core/kernels/views.h"} | {quoted for _, quoted, _ in includes(tree.files.get(table, ""))}
    for path, text in tree.cpp("core", "cuda"):
        for line, quoted, _ in includes(text):
            if path.startswith("core/ops/") and (quoted or "").startswith("core/kernels/") and quoted not in to_ops:
                yield path, line, f'an op must not include "{quoted}": it calls the table of its device ({table})'
            if path.startswith(("core/kernels/", "cuda/")) and (quoted or "").startswith("core/ops/") and quoted != "core/ops/formulas.h":
                yield path, line, f'kernels must not include "{quoted}": they take the structs of {table}'


def one_source_per_class(tree):
    """A class defines its members in one .cpp, so that a reader knows where to look."""
    member = re.compile(r"^[A-Za-z_][^\n;{}()=]*?\b([A-Z]\w+)::(?:~?\w+|operator[^\s(]+)\(", re.MULTILINE)
    space = re.compile(r"^namespace (binade[\w:]*)", re.MULTILINE)
    first = {}
    for path, text in tree.cpp():
        code = code_only(text)
        if not path.endswith((".cpp", ".cu")) or path.startswith("tests/") or not space.search(code):
            continue
        for match in member.finditer(code):
            name = f"{space.search(code)[1]}::{match[1]}"
            if first.setdefault(name, path) != path:
                yield path, line_of(code, match.start()), f"{name} has members in {first[name]} too: one class, one .cpp"


def third_party_places(tree):
    for path, text in tree.cpp():
        for line, quoted, bracketed in includes(text):
            for header, place, words in THIRD_PARTY:
                if re.match(header, bracketed or "") and not re.match(place, path):
                    yield path, line, f"<{bracketed}> belongs in {words} only"


def own_header_first(tree):
    # So compiling NAME.cpp checks that NAME.h includes what it needs; headers.py compiles the other headers.
    for path, text in tree.cpp():
        own = re.sub(r"\.(cpp|cu)$", ".h", path)
        if own != path and own in tree.files:
            first = next(includes(text), None)
            if not first or (first[1] or "").removeprefix("./") != own:
                yield path, first[0] if first else 1, f'the first include must be that of {own}: it proves that header whole'


def one_policy_reader(tree):
    """Only one file turns the precision policy into a dtype."""
    callers = []
    for path, text in tree.cpp(*LIBRARY):
        if not re.match(r"core/precision\.(h|cpp)$", path):
            callers += [(path, line_of(text, m.start())) for m in re.finditer(r"\bcompute_dtype\s*\(", code_only(text))]
    files = sorted({path for path, _ in callers})
    for path, line in callers:
        if path != "autograd/apply.cpp":
            yield path, line, "compute_dtype() is called by autograd/apply.cpp alone; declare the op's precision instead"
    if tree.files.get("autograd/apply.cpp") and "autograd/apply.cpp" not in files:
        yield "autograd/apply.cpp", 1, "nobody asks compute_dtype() here any more: move this rule with its caller"


# Files that may query the policy themselves, and for what purpose. All others go through apply().
POLICY_READERS = {
    "core/precision.cpp": "keeps it",
    "autograd/apply.cpp": "turns it into dtypes",
    "autograd/recompute.cpp": "installs it again when a segment is run again",
    "autograd/functions/losses.cpp": "bce: whether its probabilities are halves",
    "nn/attention.cpp": "whether three projections may be one product",
    "nn/linear.cpp": "whether a linear layer reads 8 bits",
}


def policy_readers(tree):
    """Only the files listed here and in docs/unorthodox.md query the policy."""
    for path, text in tree.cpp(*LIBRARY):
        if path in POLICY_READERS or path == "core/precision.h":
            continue
        for match in re.finditer(r"\bcurrent_policy\s*\(", code_only(text)):
            yield path, line_of(text, match.start()), ("current_policy() is read in " + ", ".join(sorted(POLICY_READERS)) +
                                                       ": declare the op's precision instead, or add this file to the list")


def named_files_exist(tree):
    """A file that a comment names must exist."""
    places = re.compile(r"\b(?:" + "|".join(LIBRARY + ABOVE + ("docs",)) + r")/[\w/.-]*?\w\.(?:h|cpp|cu|cuh|py|md)\b(?![/*])")
    for path, text in sorted(tree.files.items()):
        if path.startswith("tests/lint/"):
            continue
        for comment in re.finditer(r"//[^\n]*" if not path.endswith((".py", ".build")) else r"#[^\n]*", text):
            for match in places.finditer(comment.group()):
                known = match.group() in tree.files or os.path.exists(os.path.join(tree.root, match.group()))
                if not known and match.group() not in GENERATED:
                    yield path, line_of(text, comment.start() + match.start()), f"there is no file {match.group()}: name the one that is meant"


def page_links(tree):
    """A page links to files that exist; the index of decisions lists every decision."""
    index = tree.pages.get("docs/decisions/README.md", "")
    for path, text in sorted(tree.pages.items()):
        prose = re.sub(r"```.*?```", lambda code: re.sub(r"[^\n]", " ", code.group()), text, flags=re.DOTALL)
        for match in re.finditer(r"\]\(([^()\s#:]+)(?:#[^)]*)?\)", prose):
            if not os.path.exists(os.path.join(tree.root, os.path.dirname(path), match[1])):
                yield path, line_of(text, match.start()), f"there is no file {match[1]}: link to the one that is meant"
        if re.fullmatch(r"docs/decisions/\d{4}-.*\.md", path) and f"({os.path.basename(path)})" not in index:
            yield path, 1, "docs/decisions/README.md does not list this page: add it under its subject"


def one_json_reader(tree):
    """Only one file calls the JSON library's parser: it refuses input that the library wrongly accepts."""
    for path, text in tree.cpp(*LIBRARY, "examples", "bench"):
        if path == "io/text/json_reader.cpp":
            continue
        code = code_only(text)
        for match in re.finditer(r"\b\w*[jJ]son\w*::(parse|accept|sax_parse|from_\w+)\s*[<(]", code):
            yield path, line_of(code, match.start()), f"{match[1]}(): call parse_json() or read_json_events() of io/text/json_reader.h"


def one_way_out(tree):
    """Text for a terminal goes through io/terminal/console.h, which escapes characters that could control the terminal."""
    for path, text in tree.cpp(*LIBRARY, "examples"):
        if path in ("io/terminal/console.cpp", "io/terminal/progress_bar.cpp") or re.match(r"examples/(\d|derivatives/|models/)", path):  # users' programs
            continue
        code = code_only(text)
        for match in re.finditer(r"\b(?:std::)?(v?printf|puts|putchar|perror)\s*\(|\b(stdout|stderr)\b|\bstd::(cout|cerr|clog)\b", code):
            yield path, line_of(code, match.start()), f"{match.group().rstrip('( ')}: call say() or print() of io/terminal/console.h"


def file_size(tree):
    for path, text in tree.files.items():
        lines = text.count("\n")
        if lines > MAX_LINES and not path.endswith(".build"):
            yield path, lines, f"{lines} lines, the limit is {MAX_LINES}: one idea per file"


def names(tree):
    for path, text in tree.cpp():
        words = set(re.split(r"[/_.]", path))
        for word in sorted(words & BANNED_WORDS):
            yield path, 1, f"'{word}' in a file name says nothing: name what it does"
        code = code_only(text)
        for match in re.finditer(r"(?<!std::)\b(?!EVP_|H5|png_|CUBLAS(?:LT)?_)[A-Za-z_]\w*", code):
            name = match.group()
            found = {part.lower() for part in re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])", name)} & BANNED_WORDS
            if found and name != "new":
                yield path, line_of(code, match.start()), f"'{name}': '{found.pop()}' in a name says nothing"


def spelling(tree):
    for path, text in tree.files.items():
        if path.startswith("tests/lint/"):
            continue
        for match in BRITISH.finditer(text):
            yield path, line_of(text, match.start()), f"'{match.group()}': American spelling, please"


def finished(tree):
    for path, text in tree.files.items():
        if path.startswith("tests/lint/"):
            continue
        for match in UNFINISHED.finditer(text):
            yield path, line_of(text, match.start()), f"'{match.group()}': finish it or leave it out"


def macros(tree):
    for path, text in tree.cpp():
        if path == "tests/cuda/simt/cuda_runtime.h":  # defines CUDA's keywords for a compiler without them
            continue
        code = code_only(text)
        for match in re.finditer(r"^\s*#\s*define\s+(\w+)", code, re.MULTILINE):
            name = match[1]
            # Allowed: the list of kernels, and a macro that a file applies to the list and undefines afterwards.
            line_of_list = f"BINADE_KERNELS({name})" in code and f"#undef {name}" in code
            if name not in ("BINADE_HD", "BINADE_KERNELS", "BINADE_DEVICE_KERNELS") and not line_of_list:
                yield path, line_of(code, match.start(1)), f"macro {name}: a constant, function or template does it"


def header_guards(tree):
    for path, text in tree.cpp():
        if path.endswith((".h", ".cuh")) and "#pragma once" not in text:
            yield path, 1, "add #pragma once"


def no_sudden_death(tree):
    """Errors are exceptions; the library never ends the process."""
    for path, text in tree.cpp(*LIBRARY):
        code = code_only(text)
        for match in re.finditer(r"(?<![\w.>])(?:std::)?(assert|abort|exit|quick_exit|terminate)\s*\(", code):
            yield path, line_of(code, match.start(1)), f"{match[1]}(): throw an error of core/error.h instead"


def nan_blind(tree):
    for path, text in tree.cpp("core", "cuda"):
        code = code_only(text)
        for match in re.finditer(r"\b(fmaxf?|fminf?)\s*\(", code):
            yield path, line_of(code, match.start()), f"{match[1]}() swallows NaN: compare so that NaN stays, !(x <= best)"


def unroll_in_a_block(tree):
    """nvcc silently drops the statement after `if constexpr (false) #pragma unroll for (...)`."""
    for path, text in tree.cpp("core", "cuda"):
        for match in re.finditer(r"^[ \t]*(?:\} )?(?:if|else|for|while)\b(?:[^\n]*[^{;\s])?[ \t]*\n[ \t]*#pragma unroll", code_only(text), re.MULTILINE):
            yield path, line_of(text, match.end()), "#pragma unroll begins the body of a statement: give that body braces"


def op_identity(tree):
    """Code identifies an op by `&Op::info` or by members of its OpInfo, not by name: a user's op may have any name."""
    ops = {name for path, text in tree.files.items() if path.startswith("core/ops/") and path.endswith(".h")
           for name in re.findall(r'\bOpInfo info(?: = [\w:]+\(\s*OpInfo)?\{\s*\.name = "(\w+)"', text)}
    if not ops:
        return
    name = '"(?:' + "|".join(sorted(ops)) + ')"(?:sv\\b)?'
    whole = r"(?:std::string(?:_view)?\s*[({]\s*)?" + name
    compared = re.compile(r"[=!]=\s*" + whole + "|" + whole + r"\s*[)}]?\s*[=!]=" +
                          r"|\b(?:is|find|rfind|contains|count|starts_with|ends_with|compare|strcmp|one_of)\s*\((?:[^()\"]*,)?\s*\{?\s*" + whole +
                          r"|\{\s*" + name + r"\s*(?:,\s*" + name + r"\s*)+\}" + r"|\bcase\s+" + name)
    for path, text in tree.cpp(*LIBRARY):
        if path.startswith("io/onnx/nodes/"):
            continue  # words of ONNX's attributes: "max", "tanh"
        code = re.sub(r"//[^\n]*", lambda match: " " * len(match.group()), text)
        for match in compared.finditer(code):
            yield path, line_of(code, match.start()), (f"{' '.join(match.group().split())}: compare &Op::info, or let the op state what "
                                                       "the judgement needs (core/ops/op_info.h)")


def built(tree):
    for path, _ in tree.cpp(*LIBRARY, *ABOVE):
        if not path.endswith(".cpp") or path.startswith("tests/install/outside/"):
            continue
        folder, name = os.path.split(path)
        around = folder
        lists = []
        while around:
            if around + "/meson.build" in tree.files:
                lists.append(tree.files[around + "/meson.build"])
            around = os.path.dirname(around)
        listed = re.compile("'(.*/)?" + re.escape(name[:-4]) + r"(\.cpp)?'")
        if lists and not any(listed.search(text) for text in lists):
            yield path, 1, f"in no list of {folder}/meson.build: it is never compiled"


RULES = (floors, rooms, rooted_includes, ops_and_kernels, one_source_per_class, third_party_places, own_header_first, one_policy_reader,
         policy_readers, named_files_exist, page_links, one_json_reader, one_way_out, file_size, names, spelling,
         finished, macros, header_guards, no_sudden_death, nan_blind, unroll_in_a_block, op_identity,
         built)


def violations(root):
    tree = Tree(root)
    for rule in RULES:
        for path, line, what in rule(tree):
            yield rule.__name__, path, line, what


def main():
    found = list(violations(sys.argv[1] if len(sys.argv) > 1 else "."))
    for rule, path, line, what in found:
        print(f"{path}:{line}: {what} [{rule}]")
    print(f"{len(RULES)} rules, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
