#!/usr/bin/env python3
"""Makes the manual: the pages of docs/ and the reference of the public headers, as a searchable site of HTML files.

    manual.py FOLDER          writes FOLDER/index.html and the rest, and prints Doxygen's warnings
    manual.py --undocumented  prints the public entities without documentation, by header
    manual.py --record        writes docs/undocumented.txt, the numbers that may not grow (tests/lint/manual_test.py)
    manual.py --filter PAGE   prints a page as Doxygen needs it: Doxygen calls this

Doxygen 1.9 is in the packages of Debian and Ubuntu.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORD = "docs/undocumented.txt"
sys.path.insert(0, os.path.join(ROOT, "packaging"))
from public_headers import public_headers  # noqa: E402

# Doxygen says this about specializations of templates from headers that it does not read. They are formatters of {fmt}.
HARMLESS = re.compile(r"Internal inconsistency: scope for class fmt::formatter<.*> not found!")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def pages():
    """The pages of the manual, relative to the root; the first is the start page."""
    found = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    for folder in ("docs", "docs/decisions"):
        found += [f"{folder}/{name}" for name in sorted(os.listdir(os.path.join(ROOT, folder))) if name.endswith(".md")]
    return found


def label(page):
    """Doxygen's name of a page."""
    return "mainpage" if page == "README.md" else "page-" + page.removesuffix(".md").replace("/", "-")


def section_label(page, name):
    """Doxygen's name of a section: unique in the manual, not only on the page."""
    return f"{label(page)}--{name}"


def slug(heading):
    """The anchor of a heading on the usual web sites for repositories, which links in the pages use."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower()).replace(" ", "-")


def link_in(page, known):
    """Returns a function that replaces a match of LINK in `page`: a link to a page of the manual becomes a reference."""
    def replaced(match):
        text, target = match.groups()
        path, _, section = target.partition("#")
        if re.match(r"[a-z]+:", target):
            return match[0]
        to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if os.path.isdir(os.path.join(ROOT, to)):
            to += "/README.md"
        if to not in known:  # a file that is no page of the manual: the text remains
            return text
        return f"[{text}](@ref {section_label(to, section)})" if section else f"[{text}](@ref {label(to)})"
    return replaced


def filtered(page, text, known):
    """The page with names for Doxygen on its headings, and links to these names."""
    lines, in_code, seen = [], False, collections.Counter()
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        heading = re.match(r"(#+) (.*)$", line)
        if in_code:
            pass
        elif heading and heading[1] == "#":
            line += f" {{#{label(page)}}}"
        elif heading:
            name = slug(heading[2])
            seen[name] += 1
            repeated = f"-{seen[name] - 1}" if seen[name] > 1 else ""
            line += f" {{#{section_label(page, name + repeated)}}}"
        else:
            line = LINK.sub(link_in(page, known), line)
        lines.append(line)
    return "\n".join(lines)


def doxygen(folder, files, settings):
    """Runs Doxygen from the root, and returns its warnings with paths relative to the root."""
    with open(os.path.join(ROOT, "docs/Doxyfile"), encoding="utf-8") as file:
        configuration = file.read()
    log = os.path.join(folder, "warnings.txt")
    settings = {"OUTPUT_DIRECTORY": folder, "WARN_LOGFILE": log, "INPUT": " ".join(files), **settings}
    configuration += "".join(f"{name} = {value}\n" for name, value in settings.items())
    subprocess.run(["doxygen", "-"], input=configuration, text=True, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    with open(log, encoding="utf-8") as file:
        found = [line.replace(ROOT + "/", "") for line in file.read().splitlines() if not HARMLESS.search(line)]
    os.remove(log)
    return found


def make(folder):
    """Writes the site, and returns Doxygen's warnings."""
    os.makedirs(folder, exist_ok=True)
    return doxygen(os.path.abspath(folder), pages() + public_headers(ROOT),
                   {"FILTER_PATTERNS": f'*.md="{sys.executable} {os.path.abspath(__file__)} --filter"'})


def undocumented():
    """The public entities without documentation: {header: sorted descriptions}."""
    found = collections.defaultdict(set)
    with tempfile.TemporaryDirectory() as folder:
        for line in doxygen(folder, public_headers(ROOT), {"EXTRACT_ALL": "NO", "WARN_IF_UNDOCUMENTED": "YES"}):
            match = re.match(r"(.*):(\d+): warning: (?:Member|Compound) (.*) is not documented\.$", line)
            if match:
                found[match[1]].add(f"{match[2]}: {match[3]}")  # a member is reported for each derived class, too
    return {header: sorted(names, key=lambda name: int(name.split(":")[0])) for header, names in found.items()}


def recorded():
    """The numbers of undocumented entities that docs/undocumented.txt allows, by header."""
    with open(os.path.join(ROOT, RECORD), encoding="utf-8") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    return {header: int(count) for count, header in lines}


def record():
    """Writes docs/undocumented.txt."""
    with open(os.path.join(ROOT, RECORD), "w", encoding="utf-8") as file:
        file.write("# Public entities without documentation, by header; written by docs/manual.py --record. The sum may not grow.\n")
        file.writelines(f"{len(names):4} {header}\n" for header, names in sorted(undocumented().items()))


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    if sys.argv[1] == "--filter":
        page = os.path.relpath(sys.argv[2], ROOT)
        with open(sys.argv[2], encoding="utf-8") as file:
            print(filtered(page, file.read(), set(pages())))
    elif sys.argv[1] == "--undocumented":
        found = undocumented()
        for header, names in sorted(found.items()):
            print("\n".join(f"{header}:{name}" for name in names))
        print(sum(map(len, found.values())), "public entities without documentation")
    elif sys.argv[1] == "--record":
        record()
    else:
        warnings = make(sys.argv[1])
        print("\n".join(warnings + [f"{sys.argv[1]}/index.html"]))


if __name__ == "__main__":
    main()
