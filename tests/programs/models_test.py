"""models_test.py NAME: a program of examples/models learns in fp32, bf16 and fp16, as the table models.txt demands.

After two steps it must not reach the bounds yet, so that the bounds are meaningful. A model may have several rows.
"""
import pathlib
import sys
import unittest

from programs import built, run

HERE = pathlib.Path(__file__).parent
ROWS = [line.split() for line in (HERE / "models.txt").read_text().splitlines() if line and not line.startswith("#")]


def numbers(output):
    """The lines `metric NAME VALUE` of a program."""
    lines = (line.split() for line in output.splitlines() if line.startswith("metric "))
    return {name: float(value) for _, name, value in lines}


class Model(unittest.TestCase):
    name = ""

    def learned(self, *flags):
        """Runs the program. Returns a text for each number, and whether the number reaches its bound."""
        rows = [row[1:] for row in ROWS if row[0] == self.name]
        self.assertTrue(rows, f"{self.name} has no row in models.txt")
        # The time limit catches a hang only: instrumented builds are up to 30 times slower.
        limit = 100 + 60 * max(float(row[3]) for row in rows)
        done = run(built(f"examples/models/model_{self.name}"), *flags, timeout=limit)
        self.assertEqual(done.returncode, 0, f"{self.name} {flags}\n{done.stderr}")
        found = numbers(done.stdout)
        for metric, direction, bound, _ in rows:
            self.assertIn(direction, ("above", "below"))
            value = found[metric]
            reached = value > float(bound) if direction == "above" else value < float(bound)
            yield f"{self.name} {flags}: {metric} {value}, bound: {direction} {bound}", reached

    def test_learns_in_every_precision(self):
        for policy in ("fp32", "bf16", "fp16"):
            for what, reached in self.learned("--policy", policy):
                with self.subTest(what):
                    self.assertTrue(reached, what)

    def test_two_steps_do_not_reach_the_bound(self):
        for what, reached in self.learned("--steps", "2"):
            with self.subTest(what):
                self.assertFalse(reached, what)

    def test_refuses_wrong_flags(self):
        program = built(f"examples/models/model_{self.name}")
        for flags in (["--stpes", "3"], ["--steps"], ["--steps", "-1"], ["--steps", "x"], ["--policy", "fp64"]):
            done = run(program, *flags)
            self.assertEqual(done.returncode, 2, f"{flags}: {done.stderr}")
            self.assertIn("flags: --policy", done.stderr)


if __name__ == "__main__":
    Model.name = sys.argv.pop(1)
    unittest.main()
