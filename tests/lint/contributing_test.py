"""contributing_test.py SOURCE BUILD: carries out CONTRIBUTING.md's recipe "To add an op" in a scratch copy.

The page is the input: each sentence "In `FILE`, before|after `TEXT`:" and the code block below it is applied, then the
`sh` block is run with the copy's build folder. Source and build are copied with their times, so that only what the new
op touches is compiled.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = sys.argv[1:]
EDIT = re.compile(r"In\s+`([^`]+)`,\s+(before|after)\s+`([^`]+)`:\n\n```cpp\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def section(page, title):
    return page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def apply_edits(recipe, root):
    edits = EDIT.findall(recipe)
    assert len(edits) == 4, f"the recipe promises four edits, found {len(edits)}"
    for path, where, anchor, code in edits:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        assert text.count(anchor) == 1, f"{path}: wanted one '{anchor}', found {text.count(anchor)}"
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
            file.write(text.replace(anchor, code + anchor if where == "before" else anchor + code))
        print(f"edited {path}")


def main():
    with open(os.path.join(SOURCE, "CONTRIBUTING.md"), encoding="utf-8") as file:
        recipe = section(file.read(), "To add an op")
    (commands,) = COMMANDS.findall(recipe)
    # `meson test` points the loader at the library of its own build, which does not have the new op.
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    with tempfile.TemporaryDirectory() as scratch:
        root = os.path.join(scratch, "binade")
        skip = shutil.ignore_patterns("build*", "runs", ".venv", ".git", "subprojects")
        shutil.copytree(SOURCE, root, ignore=skip, symlinks=True)
        shutil.copytree(BUILD, os.path.join(root, "build"), symlinks=True)
        apply_edits(recipe, root)
        for command in commands.strip().splitlines():
            # Meson's build folder remembers where it was made: ninja alone knows only relative paths.
            command = command.replace("./dev build", "ninja -C build")
            print("$ " + command, flush=True)
            done = subprocess.run(command, shell=True, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            print(done.stdout[-8000:])
            assert done.returncode == 0, f"{command} ended with {done.returncode}"
        ran = re.search(r"(\d+) tests? from", done.stdout)
        assert ran and int(ran[1]) > 0, "the conformance suite has no test for the new op"
        print(f"{ran[1]} conformance tests passed for the new op")


if __name__ == "__main__":
    main()
