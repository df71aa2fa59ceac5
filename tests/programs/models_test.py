"""models_test.py NAME: the program of examples/models learns in fp32, bf16 and fp16, as the table models.txt demands.

Without training it does not reach the bound, so that the bound means something.
"""
import pathlib
import sys
import unittest

from programs import built, run

HERE = pathlib.Path(__file__).parent
ROWS = [line.split() for line in (HERE / "models.txt").read_text().splitlines() if line and not line.startswith("#")]
TABLE = {name: (metric, direction, float(bound), float(seconds)) for name, metric, direction, bound, seconds in ROWS}


def numbers(output):
    """The lines `metric NAME VALUE` of a program."""
    lines = (line.split() for line in output.splitlines() if line.startswith("metric "))
    return {name: float(value) for _, name, value in lines}


class Model(unittest.TestCase):
    name = ""

    def learned(self, *flags):
        """Runs the program. Returns its number, and whether that reaches the bound."""
        metric, direction, bound, seconds = TABLE[self.name]
        # The time limit catches a hang only: instrumented builds are 30 times slower.
        done = run(built(f"examples/models/model_{self.name}"), *flags, timeout=100 + 60 * seconds)
        self.assertEqual(done.returncode, 0, f"{self.name} {flags}\n{done.stderr}")
        value = numbers(done.stdout)[metric]
        return value, value > bound if direction == "above" else value < bound

    def test_learns_in_every_precision(self):
        for policy in ("fp32", "bf16", "fp16"):
            with self.subTest(policy):
                value, reached = self.learned("--policy", policy)
                self.assertTrue(reached, f"{self.name} in {policy}: {value}, wanted {TABLE[self.name]}")

    def test_does_not_reach_the_bound_without_training(self):
        value, reached = self.learned("--steps", "0")
        self.assertFalse(reached, f"{self.name} without training: {value}, bound {TABLE[self.name]}")

    def test_refuses_wrong_flags(self):
        program = built(f"examples/models/model_{self.name}")
        for flags in (["--stpes", "3"], ["--steps"], ["--steps", "-1"], ["--steps", "x"], ["--policy", "fp64"]):
            done = run(program, *flags)
            self.assertEqual(done.returncode, 2, f"{flags}: {done.stderr}")
            self.assertIn("flags: --policy", done.stderr)


if __name__ == "__main__":
    Model.name = sys.argv.pop(1)
    unittest.main()
