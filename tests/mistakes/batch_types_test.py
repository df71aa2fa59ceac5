"""batch_types_test.py SOURCE BUILD: compiles batch_types.cpp, and compares the errors with the texts of docs/mistakes.md.

The file has one mistake for each static assertion of amp/step/batch_type.h and of io/data/. The compiler must print each text once and
no other error, so that users do not have to read template errors.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import unittest

SOURCE, BUILD = sys.argv.pop(1), sys.argv.pop(1)


def compile_command():
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        entry = next(e for e in json.load(file) if e["file"].endswith("tests/mistakes/main.cpp"))
    words = shlex.split(entry["command"])
    drop = {"-o", "-MF", "-MQ", "-MT"}
    kept, skip = [], False
    for word in words:
        if skip or word in drop:
            skip = word in drop
            continue
        if word not in ("-c", "-MD", entry["file"]):
            kept.append(word)
    return [w for w in kept if w != "ccache"], entry["directory"]


class BatchTypes(unittest.TestCase):
    def test_each_mistake_has_one_error_with_words(self):
        command, folder = compile_command()
        done = subprocess.run(command + ["-fsyntax-only", "-fdiagnostics-color=never", os.path.join(SOURCE, "tests/mistakes/batch_types.cpp")], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "LC_ALL": "C"})
        self.assertNotEqual(done.returncode, 0)
        errors = re.findall(r"error: (.*)", done.stdout)
        with open(os.path.join(SOURCE, "docs/mistakes.md")) as file:
            page = file.read().split("## Mistakes that the compiler reports")[1]
        wanted = [row.split("|")[2].strip().replace("\\`", "`") for row in page.splitlines()
                  if row.startswith("| ") and "text of the static assertion" not in row]
        self.assertEqual(len(wanted), 15)
        for text in wanted:
            self.assertEqual(sum(text in error for error in errors), 1, f"'{text}' in:\n" + "\n".join(errors))
        self.assertEqual(len(errors), len(wanted), "\n".join(errors))


if __name__ == "__main__":
    unittest.main()
