"""count.py sums the results of `meson test`: GoogleTest cases, scripts, crashes, and suites that were left out."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

COUNT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "count.py")
CASES = "[       OK ] Tensor.Copies (3 ms)\n[  FAILED  ] Tensor.Moves (1 ms)\n[  SKIPPED ] Tensor.NeedsAGpu (0 ms)\n"


class Count(unittest.TestCase):
    def last_line(self, tests, *arguments, status="0"):
        with tempfile.TemporaryDirectory() as build:
            os.mkdir(build + "/meson-logs")
            with open(build + "/meson-logs/testlog.json", "w", encoding="utf-8") as log:
                log.writelines(json.dumps(test) + "\n" for test in tests)
            done = subprocess.run([sys.executable, COUNT, *arguments, status, build], capture_output=True, text=True)
        return done.stdout.splitlines()[-1], done.returncode

    def script(self, result):
        return {"name": "script", "command": ["python3"], "result": result, "stdout": ""}

    def program(self, result, stdout):
        return {"name": "core", "command": ["build/core_tests"], "result": result, "stdout": stdout}

    def test_cases_and_scripts_are_summed(self):
        tests = [self.program("FAIL", CASES), self.script("OK"), self.script("SKIP")]
        self.assertEqual(self.last_line(tests), ("2 passed, 1 failed, 2 skipped", 1))

    def test_a_crash_without_a_failed_case_is_a_failure(self):
        crash = self.program("FAIL", "[       OK ] Tensor.Copies (3 ms)\n")
        self.assertEqual(self.last_line([crash]), ("1 passed, 1 failed, 0 skipped", 1))

    def test_a_failed_step_outside_the_tests_counts(self):
        self.assertEqual(self.last_line([self.script("OK")], status="1"), ("1 passed, 1 failed, 0 skipped", 1))

    def test_a_left_out_suite_is_in_the_last_line(self):
        flags = ["--left-out", "address", "--left-out", "threads"]
        self.assertEqual(self.last_line([self.script("OK")], *flags),
                         ("left_out_address_and_threads: 1 passed, 0 failed, 0 skipped", 0))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
