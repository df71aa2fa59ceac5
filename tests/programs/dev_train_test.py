"""dev_train_test.py DEV: tests what `./dev train` prints about the run folder and about the next commands, with fake programs.

terminal_test.py shows that the programs themselves print these lines at the end of a run.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

DEV = sys.argv.pop(1)
PROGRAM = """#!/bin/bash
[[ $1 == train ]] || exit 0
mkdir -p "$3" && touch "$3/config.json"
((CODE == 30)) && exit 30
echo "run folder $3" >&2
echo "go on with: $0 train --run $3 --resume auto" >&2
exit $CODE
"""


def function(name):
    with open(DEV, encoding="utf-8") as file:
        return re.search(rf"^{name}\(\) \{{.*?\}}\n(?=\n|\w+\()", file.read(), re.DOTALL | re.MULTILINE).group(0)


class DevTrain(unittest.TestCase):
    """The user must read each of these lines once, in whatever way the training ended."""

    def check(self, what, code):
        with tempfile.TemporaryDirectory() as folder:
            for program in ("transformer/binade-gpt", "unet/binade-unet"):
                path = os.path.join(folder, "build/examples", program)
                os.makedirs(os.path.dirname(path))
                with open(path, "w", encoding="utf-8") as file:
                    file.write(PROGRAM)
                os.chmod(path, 0o755)
            script = "set -euo pipefail\nsetup() { :; }\nbuild() { :; }\n"
            script += "".join(function(name) for name in ("say", "train_run", "train")) + f"train {what}\n"
            ended = subprocess.run(["bash", "-c", script], cwd=folder, env={**os.environ, "CODE": str(code)},
                                   capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, code, ended.stderr)
        said = ended.stderr.splitlines()
        self.assertEqual(sum("--resume" in line for line in said), 1, ended.stderr)
        self.assertEqual(sum("run folder" in line for line in said), 0 if code == 30 else 1, ended.stderr)

    def test_done(self):
        for what in ("gpt", "unet"):
            self.check(what, 0)

    def test_stopped_by_a_signal(self):
        for what in ("gpt", "unet"):
            self.check(what, 10)

    def test_ended_by_an_error(self):
        for what in ("gpt", "unet"):
            self.check(what, 30)


if __name__ == "__main__":
    unittest.main()
