"""Branch coverage of the checkpoint validator: coverage.py OBJECTS PROGRAM [FLAGS] [-- PROGRAM [FLAGS]]...

The programs contain the validator, compiled with --coverage into the folder OBJECTS. Runs them and reads gcov's counters
over all runs. Branches that only an exception takes are excluded, because every call has one (gcov marks them `throw`;
gcovr's option is --exclude-throw-branches). Prints each line with a branch that was not taken,
then branches taken per file. Fails below 95 %.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

FLOOR = 95
ROOT = pathlib.Path(os.environ["BINADE_SOURCE_DIR"])


def programs(words):
    """The command lines, which "--" separates."""
    lines = [[]]
    for word in words:
        if word == "--":
            lines.append([])
        else:
            lines[-1].append(word)
    return lines


def branches(counters):
    """Yields (source, line, whether taken) for every branch in a .gcda file."""
    report = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", counters.name], cwd=counters.parent,
                            check=True, capture_output=True, text=True).stdout
    for file in json.loads(report)["files"]:
        source = re.sub(r"^(\.\./)*", "", file["file"])
        if source.startswith("io/") and source.endswith(".cpp"):
            for line in file["lines"]:
                for branch in line["branches"]:
                    if not branch["throw"]:
                        yield source, line["line_number"], branch["count"] > 0


def main():
    objects, runs = pathlib.Path(sys.argv[1]), programs(sys.argv[2:])
    for old in objects.glob("*.gcda"):
        old.unlink()
    for run in runs:
        answer = subprocess.run(run, check=False, stdout=subprocess.PIPE, text=True)
        if answer.returncode != 0:
            print(answer.stdout)
            return answer.returncode
    found = [branch for counters in sorted(objects.glob("*.gcda")) for branch in branches(counters)]
    missed = sorted({(source, line) for source, line, taken in found if not taken})
    for source, line in missed:
        here = [taken for s, n, taken in found if (s, n) == (source, line)]
        text = (ROOT / source).read_text(encoding="utf-8").splitlines()[line - 1].strip()
        print(f"{source}:{line}: {sum(here)} of {len(here)} taken: {text}")
    for name in [*sorted({source for source, _, _ in found}), "together"]:
        here = [taken for source, _, taken in found if name in (source, "together")]
        print(f"{name:<28} {sum(here):>5} of {len(here):>5} branches {100 * sum(here) / len(here):6.1f} %")
    return 1 if 100 * sum(taken for _, _, taken in found) < FLOOR * len(found) else 0


if __name__ == "__main__":
    sys.exit(main())
