"""Every public op, function and module has a line in the tables of fuzz_ops, and fuzz_ops names a bad command-line
value: complete_test.py FUZZ_OPS."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(os.environ["BINADE_SOURCE_DIR"])
FUZZ_OPS = sys.argv.pop(1)


def code(path):
    """The text of a header without comments and without namespace detail."""
    text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
    return re.sub(r"\nnamespace detail \{\n.*?\n\}", "", text, flags=re.DOTALL)


def found(folder, pattern):
    """All matches of `pattern` in the headers of a folder."""
    return {name for path in sorted((ROOT / folder).glob("*.h")) for name in re.findall(pattern, code(path))}


class Complete(unittest.TestCase):
    called = set(subprocess.run([FUZZ_OPS, "--list"], check=True, capture_output=True, text=True).stdout.split())

    def check(self, names, least):
        self.assertGreaterEqual(len(names), least, "the pattern no longer finds what it looks for")
        self.assertEqual(names - self.called, set(), "add a line to tests/fuzz/*_calls.cpp")

    def test_every_op(self):
        self.check(found("core/ops", r'\.name = "(\w+)"'), 60)

    def test_every_function(self):
        self.check(found("autograd/functions", r"\n(?:inline )?(?:Variable|\w+Result) (\w+)\("), 50)

    def test_every_module(self):
        bases = {"BatchNorm", "Convolution", "DropoutModule", "FunctionModule", "InstanceNorm",
                 "OptionsModule", "Padding", "RecurrentCellModule", "RecurrentLayers", "StatelessModule", "WeightedModule"}
        self.check(found("nn", r"\n(?:class|struct) (\w+) : (?:public )?(?:Module|%s)\b" % "|".join(bases)) - bases, 18)

    def test_a_bad_value_is_named(self):
        for flags, words in (("--count -3", "--count: wanted a whole number, got -3"), ("--jobs 0", "--jobs wants 1 or more"),
                             ("--only nothing", "there is no 'nothing'"), ("--cout 3", "did you mean --count?")):
            answer = subprocess.run([FUZZ_OPS, *flags.split()], capture_output=True, text=True, check=False)
            self.assertEqual((answer.returncode, words in answer.stderr), (20, True), answer.stderr)


if __name__ == "__main__":
    unittest.main()
