"""contributing_test.py SOURCE: applies the recipes of CONTRIBUTING.md to a copy of the tree and counts their files.

The page is the input. It has sections "To add …", which its table of costs lists. There, each sentence "In `FILE`, before|after `TEXT`:"
with the code block below it is an edit, and each "New: `FILE`:" with its block is a new file. The `sh` block is run in the copy
after all recipes are applied. No recipe may touch more files than the table says; tests and documents do not count.
The copy is built at -O0 and for one instruction set: the recipes change headers that nearly every file includes.
"""
import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile

(SOURCE,) = sys.argv[1:]
EDIT = re.compile(r"In\s+`([^`]+)`,\s+(before|after)\s+`([^`]+)`:\n\n```\w+\n(.*?)```", re.DOTALL)
NEW = re.compile(r"New:\s+`([^`]+)`:\n\n```\w+\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```sh\n(.*?)```", re.DOTALL)
COST = re.compile(r"^\| \[?([^|\]]+?)(?:\]\([^|]*\))? \| (\d+) \|", re.MULTILINE)
SKIP = shutil.ignore_patterns("build*", "runs", ".venv", ".git", "subprojects", "__pycache__")


def section(page, title):
    return page.split(f"\n## To add {title}\n", 1)[1].split("\n## ", 1)[0]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def apply(recipe, root):
    for path, where, anchor, code in EDIT.findall(recipe):
        text = read(os.path.join(root, path))
        assert text.count(anchor) == 1, f"{path}: wanted one '{anchor}', found {text.count(anchor)}"
        code = code if "\n" in code.rstrip("\n") or anchor.endswith("\n") or where == "before" else code.rstrip("\n")
        write(os.path.join(root, path), text.replace(anchor, code + anchor if where == "before" else anchor + code))
    for path, code in NEW.findall(recipe):
        assert not os.path.exists(os.path.join(root, path)), f"{path} is there already"
        write(os.path.join(root, path), code)


def counted_files(root):
    """Yields files that differ from the source, except tests and documents."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(set(names) - SKIP(folder, names) - ({"tests", "docs"} if folder == root else set()))
        for name in sorted(files):
            path = os.path.relpath(os.path.join(folder, name), root)
            original = os.path.join(SOURCE, path)
            if not path.endswith(".md") and not (os.path.exists(original) and filecmp.cmp(original, os.path.join(root, path), shallow=False)):
                yield path


def run(command, root):
    # `meson test` sets LD_LIBRARY_PATH to the library of its own build, which lacks the recipes.
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    # A build folder of Meson contains its absolute path; ninja uses relative paths only.
    command = command.replace("./dev build", "ninja -C build")
    print("$ " + command, flush=True)
    done = subprocess.run(command, shell=True, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout[-6000:])
    assert done.returncode == 0, f"{command} ended with {done.returncode}"
    for ran in re.findall(r"\[==========\] (\d+) tests? from", done.stdout):
        assert int(ran) > 0, f"{command}: no test was run"


def main():
    page = read(os.path.join(SOURCE, "CONTRIBUTING.md"))
    costs = {title: int(most) for title, most in COST.findall(page)}
    assert costs, "CONTRIBUTING.md has no table of costs"
    commands, counts = [], {}
    with tempfile.TemporaryDirectory() as scratch:
        root = os.path.join(scratch, "binade")
        shutil.copytree(SOURCE, root, ignore=SKIP, symlinks=True)
        before = set()
        for title in costs:
            recipe = section(page, title)
            own = [line for block in COMMANDS.findall(recipe) for line in block.strip().splitlines()]
            apply(recipe, root)
            for command in [line for line in own if line.startswith(("cp ", "echo "))]:
                run(command, root)
            commands += [line for line in own if not line.startswith(("cp ", "echo "))]
            counts[title] = len(touched(recipe, root, before))
            before = set(counted_files(root))
        run("meson setup --buildtype=plain -Disa=generic build . > meson.log || (tail meson.log; false)", root)
        built = [line for line in commands if line.startswith("./dev build")]
        run("./dev build " + " ".join(line.removeprefix("./dev build ") for line in built), root)
        for command in commands:
            if command not in built:
                run(command, root)
    print(f"{'change':<28} files  at most")
    for title, count in counts.items():
        print(f"{title:<28} {count:5}  {costs[title]:7}")
    assert all(counts[title] <= most for title, most in costs.items()), "a recipe touches more files than the table says"


def touched(recipe, root, before):
    """The files of one recipe: those that it names, and those that its commands created."""
    named = {path for path, *_ in EDIT.findall(recipe) + NEW.findall(recipe)}
    named = {path for path in named if not path.startswith(("tests/", "docs/")) and not path.endswith(".md")}
    return named | (set(counted_files(root)) - before)


if __name__ == "__main__":
    main()
