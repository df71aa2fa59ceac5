"""Trains with processes under mpirun, and compares with one process: same weights, moments, scale and checkpoint.

Every run has its own deadline; if a run reaches it, the test fails.
"""
import os
import re
import signal
import subprocess
import sys
import time
import unittest

PROGRAM, MPIRUN = sys.argv.pop(1), sys.argv.pop(1)
DEADLINE = 240


def run(ranks, *arguments, deadline=DEADLINE):
    """Returns (exit code, stdout, stderr, seconds). Ends the whole process group at the deadline."""
    command = [PROGRAM, *arguments]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMP_NUM_THREADS="1")
    # Open MPI leaks memory. The tests with threads as ranks detect leaks in Binade's code.
    environment["ASAN_OPTIONS"] = ":".join(filter(None, (environment.get("ASAN_OPTIONS"), "detect_leaks=0")))
    if ranks > 1:
        command = [MPIRUN, "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *command]
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise AssertionError(f"{' '.join(command)}: no end after {deadline} s")
    return process.returncode, out, err, time.monotonic() - begin


def results(out):
    """Returns the texts after "rank R of N:", by rank."""
    found = {int(rank): (int(ranks), text) for rank, ranks, text in
             re.findall(r"^rank (\d+) of (\d+): (.*)$", out, re.MULTILINE)}
    return found


class Training(unittest.TestCase):
    def expect_equal(self, policy, steps, what=""):
        code, out, err, _ = run(1, policy, steps, what)
        self.assertEqual(code, 0, err)
        alone = results(out)[0][1]
        self.assertIn("mpi=false", alone, "a program without a launcher must not open an MPI")
        incidents = {}
        for ranks in (2, 4):
            code, out, err, _ = run(ranks, policy, steps, what)
            self.assertEqual(code, 0, err)
            found = results(out)
            self.assertEqual(sorted(found), list(range(ranks)), out)
            for rank, (size, text) in found.items():
                self.assertEqual(size, ranks)
                self.assertEqual(text.replace("mpi=true", "mpi=false"), alone, f"rank {rank} of {ranks}")
                self.assertIn("mpi=true", text)
            incidents[ranks] = re.findall(r"^(?:the|gradients).*", out, re.MULTILINE)
        return incidents

    def test_fp32(self):
        self.expect_equal("fp32", "10")

    def test_bf16(self):
        self.expect_equal("bf16", "10")

    def test_fp16(self):
        self.expect_equal("fp16", "6")

    def test_planted_nan_is_left_out_everywhere_and_its_rank_is_named(self):
        incidents = self.expect_equal("bf16", "5", "nan")
        for ranks, guilty in ((2, 1), (4, 2)):
            self.assertEqual(len(incidents[ranks]), ranks)  # one line from each rank
            for text in incidents[ranks]:
                self.assertIn(f"in micro-batch 5 of rank {guilty}", text)
                self.assertIn("micro-batch 5 is left out", text)


class Engine(unittest.TestCase):
    def test_bytes_of_all_sizes_arrive(self):
        code, out, err, _ = run(3, "fp32", "1", "gather")
        self.assertEqual(code, 0, err)
        self.assertEqual(len(results(out)), 3)
        self.assertIn("mpi (", out)


class Failures(unittest.TestCase):
    def test_a_killed_rank_ends_the_job(self):
        code, _, err, seconds = run(3, "fp32", "50", "die", deadline=60)
        self.assertNotEqual(code, 0)
        self.assertLess(seconds, 40, err)

    def test_a_stopped_rank_is_named_at_the_deadline(self):
        code, _, err, _ = run(2, "fp32", "50", "stop", deadline=60)
        self.assertEqual(code, 52, err)
        self.assertRegex(err, r"rank 0 waited 5 s for rank 1 in the (ballot|telemetry|gradients) of step 3")

    def test_an_exception_of_one_rank_ends_all_with_its_exit_code(self):
        code, _, err, seconds = run(3, "fp32", "50", "throw", deadline=60)
        self.assertEqual(code, 40, err)
        self.assertIn("rank 1 has lost its data", err)
        self.assertLess(seconds, 40)


if __name__ == "__main__":
    unittest.main()
