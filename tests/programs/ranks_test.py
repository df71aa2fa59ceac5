"""`--ranks N`: one command starts N processes, and the run has the state of one process (docs/ranks.md).

Every run has a deadline of its own (`timeout`).
"""
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from programs import DOCTOR, ProgramTest, built, checkpoints, metrics, run

MOONS = built("examples/moons/binade-moons")
SETTINGS = ["--accumulate", 4, "--batch", 8, "--precision", "fp32", "--threads", 1, "--checkpoint-every", 5, "--forecast-memory", "off"]


@unittest.skipUnless(shutil.which("mpirun") and built("mpi/libbinade_mpi.so").exists(), "needs an MPI")
class Ranks(ProgramTest):
    def state_hash(self, folder):
        done = run(DOCTOR, "hash", checkpoints(folder)[-1])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def train(self, folder, *args, code=0):
        done = run(MOONS, "train", "--run", folder, *SETTINGS, *args, timeout=240)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_any_number_of_processes_has_the_state_of_one(self):
        one = self.folder / "one"
        self.train(one, "--steps", 12, "--leaves", 4)
        for ranks in (2, 4):
            many = self.folder / f"many{ranks}"
            done = self.train(many, "--steps", 12, "--ranks", ranks)
            self.assertIn(f"{ranks} ranks, connected by mpi", done.stderr)
            self.assertEqual(done.stderr.count("run folder"), 1, "rank 0 alone speaks")
            self.assertEqual(self.state_hash(many), self.state_hash(one))
            self.assertEqual([m["loss"] for m in metrics(many) if "loss" in m], [m["loss"] for m in metrics(one) if "loss" in m])

    def test_a_run_goes_on_with_another_number(self):
        one, many = self.folder / "one", self.folder / "many"
        self.train(one, "--steps", 15, "--leaves", 4)
        self.train(many, "--steps", 5, "--schedule-steps", 15, "--ranks", 4)
        self.train(many, "--steps", 10, "--resume", "--ranks", 2)
        self.train(many, "--steps", 15, "--resume")
        self.assertEqual(self.state_hash(many), self.state_hash(one))

    def test_sigterm_to_a_rank_stops_all_after_the_same_step_and_the_run_goes_on(self):
        folder = self.folder / "stopped"
        process = subprocess.Popen([str(MOONS), "train", "--run", str(folder), *map(str, SETTINGS), "--steps", "100000000",
                                    "--ranks", "2"], stderr=subprocess.PIPE, text=True)
        try:
            for _ in range(600):
                if (folder / "metrics.jsonl").exists() and len((folder / "metrics.jsonl").read_text().splitlines()) > 3:
                    break
                time.sleep(0.1)
            mpirun = process.pid  # the program has become mpirun, whose children are the ranks
            ranks = pathlib.Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split()
            os.kill(int(ranks[-1]), signal.SIGTERM)
            _, err = process.communicate(timeout=120)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 10, err)
        self.assertIn("the state is committed", (folder / "events.jsonl").read_text())
        steps = max(m["step"] for m in metrics(folder))
        self.assertTrue(checkpoints(folder)[-1].name.endswith(f"{steps}.h5"), (steps, checkpoints(folder)))
        self.train(folder, "--steps", steps + 2, "--resume", "--ranks", 2)

    def test_more_processes_than_micro_batches_are_refused_with_the_flag_that_helps(self):
        done = run(MOONS, "train", "--run", self.folder / "few", "--steps", 2, "--accumulate", 2, "--ranks", 3, timeout=240)
        self.assertEqual(done.returncode, 20, done.stderr)
        self.assertIn("--accumulate 3", done.stderr)

    def test_only_train_has_ranks(self):
        done = run(MOONS, "preflight", "--ranks", 2)
        self.assertEqual(done.returncode, 20, done.stderr)
        self.assertIn("only `train` runs in several processes", done.stderr)


if __name__ == "__main__":
    unittest.main()
