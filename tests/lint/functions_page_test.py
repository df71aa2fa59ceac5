"""docs/functions.md must list every function of the headers that it covers, and no other function."""
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(os.environ["BINADE_SOURCE_DIR"])
# The headers whose functions must all be on the page.
COVERED = [ROOT / "autograd/functions" / name
           for name in ("activations.h", "comparison.h", "composites.h", "differences.h", "elementwise.h", "embedding.h", "fft.h", "images.h", "index.h", "linalg.h",
                        "losses.h", "make.h", "math.h", "order.h", "pieces.h", "rearrange.h", "reduce.h", "sampling.h", "scan.h", "shape.h", "statistics.h")] + [ROOT / "core/make.h"]
OPERATORS = {"neg": "-", "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
             "gt": ">", "ge": ">=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "bitwise_not": "~"}
DECLARED = re.compile(r"\n(?:inline |  static )?(?:Variable|Tensor|bool|\w+Result|std::vector<Variable>) (\w+)\(")


def code(path):
    """A header without comments, and without the contents of a namespace detail."""
    text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
    return re.sub(r"\nnamespace detail \{\n.*?\n\}", "", text, flags=re.DOTALL)


def declared(paths):
    return {name for path in paths for name in DECLARED.findall(code(path))}


class FunctionsPage(unittest.TestCase):
    page = (ROOT / "docs/functions.md").read_text(encoding="utf-8")
    rows = [(name, call.replace("\\|", "|")) for name, call in re.findall(r"\n\| (\w+) \| `(.+?)` \|", page)]
    everywhere = declared([*sorted((ROOT / "autograd/functions").glob("*.h")), ROOT / "core/make.h", ROOT / "core/tensor.h"])
    operators = "".join(code(path) for path in COVERED)

    def test_every_row_calls_what_exists(self):
        self.assertGreater(len(self.rows), 120)
        for name, call in self.rows:
            with self.subTest(name):
                if name in OPERATORS and not re.search(rf"\b{name}\(", call):
                    self.assertIn(OPERATORS[name], call)
                    self.assertIn(f"operator{OPERATORS[name]}(", self.operators)
                else:
                    self.assertIn(name, self.everywhere)
                    self.assertRegex(call, rf"\b{name}\(")

    def test_every_function_has_a_row(self):
        internal = {"arange_of"}
        self.assertEqual(declared(COVERED) - internal - {name for name, _ in self.rows}, set(), "add a row to docs/functions.md")


if __name__ == "__main__":
    unittest.main()
