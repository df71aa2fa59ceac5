"""from_pytorch_page_test.py COMPILER [flags...]: tests docs/from-pytorch.md. The numbers at its beginning are those of its
tables; names that calls use are in the headers, and names that are said to be missing are not; every call compiles."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(os.environ["BINADE_SOURCE_DIR"])
COMPILER, sys.argv[1:] = sys.argv[1:], []
STATES = ("exist", "composed", "not there")
# Goals: (number of names, how many of them must exist at least).
GOALS = {"functions": (274, 240), "modules": (50, 45), "optimizers and schedules": (32, 28)}
ROW = re.compile(r"\| (?:`(?P<name>[\w.]+)`|none: (?P<other>[\w ,-]+)) \| (?P<call>.+?) \|(?: (?P<differs>.+))? \|$")
# Names in calls that belong to C++, and static methods.
FOREIGN = {"static_cast", "int64_t", "cpu"}
# Declarations of the variables in the calls, as the beginning of the page describes them.
SCENE = """
#include <cmath>
#include "binade/binade.h"
using namespace binade;
struct Scene {
  Variable x, y, a, b, c, v, w, i, j, at, labels, mask, targets, logits, probabilities, log_probabilities, lengths, edges;
  Variable q, k, images, sequences, volumes, windows;
  Tensor t;
  std::vector<Variable> parts;
  std::vector<float> numbers;
  float* data = nullptr;
  std::function<Variable(const Variable&, const Variable&)> distance;
  nn::Mlp& model;
  nn::Parameter& weight;
  optim::Sgd& optimizer;
  void calls();
};
void Scene::calls() {
"""


def code(path):
    """A header without comments and without the contents of a namespace detail."""
    text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
    return re.sub(r"\nnamespace detail \{\n.*?\n\}", "", text, flags=re.DOTALL)


def sort_key(name):
    return name.split(".")[-1].lower()


def words(pattern, *paths):
    return {name for path in paths for name in re.findall(pattern, code(path))}


def functions():
    return words(r"\n *(?:inline |static )*(?:Variable|Tensor|bool|\w+Result|std::vector<Variable>) (\w+)\(",
                 *(ROOT / "autograd/functions").glob("*.h"), ROOT / "core/make.h", ROOT / "core/tensor.h")


def types():
    """Structs, classes and functions of modules, optimizers and schedules, and of what their calls use."""
    known = words(r"(?:struct|class|enum class) (\w+)", *(ROOT / "nn").glob("*.h"), *(ROOT / "optim").glob("*.h"),
                  *(ROOT / "core").glob("*.h"), *(ROOT / "autograd/functions").glob("*.h"))
    return known | words(r"static Schedule (\w+)\(", ROOT / "optim/schedule.h") | words(r"using binade::(\w+);", ROOT / "nn/losses.h") | \
        words(r"\n(?:void|double) (\w+)\(", ROOT / "nn/init.h", ROOT / "optim/clip.h")


class FromPytorchPage(unittest.TestCase):
    page = (ROOT / "docs/from-pytorch.md").read_text(encoding="utf-8")
    head, *sections = re.split(r"\n## ", page)
    groups = {section.split("\n")[0].lower(): [[m.groupdict() for m in map(ROW.match, group.split("\n")) if m]
                                               for group in section.split("\n### ")[1:]] for section in sections}

    def state(self, row):
        call = row["call"]
        return "not there" if call == "not there" else "composed" if call.startswith("composed: `") else "exist"

    def rows(self, *kinds):
        return [row for kind in kinds or self.groups for group in self.groups[kind] for row in group]

    def calls(self, *kinds):
        return [call.replace("\\|", "|") for row in self.rows(*kinds) if self.state(row) != "not there"
                for call in re.findall(r"`(.+?)`", row["call"])]

    def test_the_head_counts_the_tables(self):
        self.assertEqual(set(self.groups), set(GOALS))
        for kind, (names, exist) in GOALS.items():
            rows = self.rows(kind)
            count = [sum(self.state(row) == state for row in rows) for state in STATES]
            with self.subTest(kind):
                self.assertIn(f"| {kind} | {len(rows)} | {count[0]} | {count[1]} | {count[2]} |", self.head)
                self.assertGreaterEqual(len(rows), names)
                self.assertGreaterEqual(count[0], exist)

    def test_every_line_of_a_table_is_a_row(self):
        lines = [line for section in self.sections for line in section.split("\n") if line.startswith("|")]
        lines = [line for line in lines if not line.startswith(("| PyTorch", "|---"))]
        self.assertEqual([line for line in lines if not ROW.match(line)], [])
        self.assertEqual(len(lines), len(self.rows()))

    def test_names_are_in_order_and_listed_once(self):
        for kind, groups in self.groups.items():
            for group in groups:
                keys = [sort_key(row["name"] or row["other"]) for row in group]
                self.assertEqual(keys, sorted(keys))
            names = [row["name"] or row["other"] for row in self.rows(kind)]
            self.assertEqual(sorted(set(names)), sorted(names))

    def test_calls_use_names_of_the_headers(self):
        known = functions() | types() | FOREIGN
        for call in self.calls():
            used = set(re.findall(r"(?<![\w.])(?:\w+::)*(\w+)(?:<[\w:]+>)?\(", call))
            self.assertEqual(used - known, set(), call)

    def test_nothing_that_exists_is_said_to_be_missing(self):
        known = functions()
        modules = words(r"\n(?:struct|class) (\w+)", *(ROOT / "nn").glob("*.h"), *(ROOT / "optim").glob("*.h"))
        for kind, names in (("functions", known), ("modules", modules), ("optimizers and schedules", modules)):
            missing = {row["name"].split(".")[-1] for row in self.rows(kind) if self.state(row) == "not there"}
            self.assertEqual(missing & names, set(), "give its row a call")

    @unittest.skipUnless(COMPILER, "no compiler given")
    def test_every_call_compiles(self):
        calls = self.calls()
        body = "".join(f'#line {number} "call"\n  {{ {call if call.startswith("auto ") else f"static_cast<void>({call})"}; }}\n'
                       for number, call in enumerate(calls))
        done = subprocess.run([*COMPILER, "-fsyntax-only", "-w", "-x", "c++", "-"], input=SCENE + body + "}\n", capture_output=True, text=True,
                              check=False)
        wrong = sorted({int(n) for n in re.findall(r"^call:(\d+):", done.stderr, flags=re.MULTILINE)})
        self.assertEqual(done.returncode, 0, "\n".join(calls[n] for n in wrong if n < len(calls)) + "\n" + done.stderr[:6000])


if __name__ == "__main__":
    unittest.main()
