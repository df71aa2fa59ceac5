"""`--ranks N`: one command starts N processes, and the run has the state of one process (docs/ranks.md).

Every run has its own deadline (`timeout`).
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
WEIGHT = "up"
SETTINGS = ["--accumulate", 4, "--batch", 8, "--precision", "fp32", "--threads", 1, "--checkpoint-every", 5, "--forecast-memory", "off"]


def children(pid):
    """The children of a process, by number."""
    return sorted(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def status(pid, field):
    """A field of /proc/PID/status; None if the process has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next(line.split()[1] for line in text.splitlines() if line.startswith(field + ":"))


def is_alive(pid):
    return status(pid, "State") not in (None, "Z")


def is_pending(pid, number):
    return int(status(pid, "ShdPnd") or "0", 16) >> (number - 1) & 1 == 1


def is_stopped(pid):
    """True once every thread has stopped: until then a thread may still handle another signal."""
    return all("\nState:\tT" in (task / "status").read_text() for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)


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

    def start_run(self, folder, *args):
        """Starts an endless run of two ranks, and waits until it has made steps. Returns (launcher, mpirun, ranks)."""
        process = subprocess.Popen([str(MOONS), "train", "--run", str(folder), *map(str, SETTINGS), "--steps", "100000000",
                                    "--ranks", "2", *args], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        end = time.monotonic() + 120
        while not ((folder / "metrics.jsonl").exists() and len((folder / "metrics.jsonl").read_text().splitlines()) > 3):
            self.assertLess(time.monotonic(), end, "the run makes no steps")
            self.assertIsNone(process.poll(), "the run has ended")
            time.sleep(0.1)
        launcher = process.pid
        if "--supervise" in args:
            launcher, = children(launcher)
        mpirun, = children(launcher)
        return process, mpirun, children(mpirun)

    def expect_stopped(self, folder, process, by):
        """Waits for the end of a run that was asked to stop. Like a single process, it must have finished a step and saved it."""
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 10, err)
        events = (folder / "events.jsonl").read_text()
        self.assertRegex(events, f"stopped by {by} after step [0-9]+; the state is committed")
        self.assertRegex(err, f"rank 1: stopped by {by} after step")
        steps = max(m["step"] for m in metrics(folder))
        self.assertTrue(checkpoints(folder)[-1].name.endswith(f"{steps}.h5"), (steps, checkpoints(folder)))
        return steps

    def test_a_signal_to_any_process_stops_all_after_the_same_step_and_the_run_goes_on(self):
        for name, number in (("launcher", signal.SIGTERM), ("launcher", signal.SIGINT), ("mpirun", signal.SIGTERM),
                             ("rank 1", signal.SIGTERM), ("all", signal.SIGTERM)):
            with self.subTest(name, signal=number):
                folder = self.folder / f"{name}-{number}".replace(" ", "-")
                process, mpirun, ranks = self.start_run(folder)
                to = {"launcher": [process.pid], "mpirun": [mpirun], "rank 1": ranks[-1:], "all": [process.pid, mpirun, *ranks]}[name]
                for pid in to:
                    os.kill(pid, number)
                by = {"rank 1": "signal 15 to rank 1", "all": "signal 15 to ranks? [01, ]+"}.get(name, f"signal {int(number)} to rank 0")
                self.expect_stopped(folder, process, by)
        self.train(folder, "--steps", max(m["step"] for m in metrics(folder)) + 2, "--resume", "--ranks", 2)

    def test_a_signal_to_the_supervisor_stops_the_ranks(self):
        for name in ("supervisor", "all"):  # a service manager and Slurm signal all processes of a job
            with self.subTest(name):
                folder = self.folder / f"supervised-{name}"
                process, mpirun, ranks = self.start_run(folder, "--supervise")
                launcher, = children(process.pid)
                for pid in ranks if name == "all" else ():  # stopped ranks cannot end before the supervisor gets the signal
                    os.kill(pid, signal.SIGSTOP)
                    wait_until(lambda pid=pid: is_stopped(pid))
                for pid in (launcher, mpirun, *ranks) if name == "all" else ():
                    os.kill(pid, signal.SIGTERM)
                time.sleep(0.5)  # so that the system does not merge the two signals into one
                os.kill(process.pid, signal.SIGTERM)
                time.sleep(0.5)
                for pid in ranks if name == "all" else ():
                    os.kill(pid, signal.SIGCONT)
                self.expect_stopped(folder, process, "signal 15 to ranks? [01, ]+")

    def test_a_second_signal_ends_all_ranks_at_once(self):
        folder = self.folder / "twice"
        process, mpirun, ranks = self.start_run(folder)
        for pid in ranks:  # stopped ranks cannot finish their step, so that the second signal finds them
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(map(is_stopped, ranks)))
        os.kill(process.pid, signal.SIGTERM)
        wait_until(lambda: any(is_pending(pid, signal.SIGTERM) for pid in ranks))
        os.kill(process.pid, signal.SIGTERM)
        wait_until(lambda: all(is_pending(pid, signal.SIGTERM) for pid in ranks))
        for pid in ranks:
            if is_alive(pid):  # when one rank ends, the other ranks end too
                os.kill(pid, signal.SIGCONT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 11, err)
        self.assertIn("stopped at once by a second signal", err)
        wait_until(lambda: not any(is_alive(pid) for pid in (mpirun, *ranks)))

    def test_ranks_do_not_outlive_their_launcher(self):
        folder = self.folder / "orphans"
        process, mpirun, ranks = self.start_run(folder)
        process.kill()
        process.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in (mpirun, *ranks)))
        self.train(folder, "--steps", max(m["step"] for m in metrics(folder)) + 2, "--resume", "--ranks", 2)

    def expect_undisturbed(self, name, *args, died=None):
        """Trains under a supervisor with a fault. Expects the state of a run without it. Returns stderr."""
        one, many = self.folder / "one", self.folder / name
        if not one.exists():
            self.train(one, "--steps", 12, "--leaves", 4)
        err = self.train(many, "--steps", 12, "--supervise", *args).stderr
        self.assertEqual(self.state_hash(many), self.state_hash(one))
        if died:
            self.assertRegex((many / "events.jsonl").read_text(), died)
        return err

    def test_a_run_with_a_dead_rank_goes_on_from_its_checkpoint(self):
        for rank in (0, 1):
            self.expect_undisturbed(f"dead-{rank}", "--ranks", 2, "--inject", f"kill@step=7,rank={rank}", died='"kind":"died".*signal 9')

    def test_a_stopped_rank_is_named_and_the_run_goes_on(self):
        err = self.expect_undisturbed("stopped", "--ranks", 2, "--rank-deadline", 8, "--inject", "stop@step=7,rank=1",
                                      died='"kind":"died".*exit code 52')
        self.assertRegex(err, r"rank 0 waited 8 s for rank 1 in the ballot of step 7")
        self.assertRegex(err, r"rank 1 \(process [0-9]+ on .*\): .*; no sign of life for")
        self.assertRegex(err, r"rank 1 gave no sign of life")

    def test_a_slow_rank_within_the_deadline_changes_nothing(self):
        err = self.expect_undisturbed("slow", "--ranks", 2, "--rank-deadline", 60, "--inject", "slow@step=7,rank=1,seconds=2")
        self.assertNotIn("supervisor: ", err)

    def test_a_rank_that_is_slower_than_the_deadline_is_named(self):
        err = self.expect_undisturbed("slower", "--ranks", 2, "--rank-deadline", 4, "--inject", "slow@step=7,rank=0,seconds=3600",
                                      died='"kind":"died".*exit code 52')
        self.assertRegex(err, r"rank 1: ranks: what each rank does")
        self.assertRegex(err, r"rank 0 did not get ready")

    def test_a_rank_with_other_weights_is_named_and_the_run_goes_on(self):
        err = self.expect_undisturbed("other", "--ranks", 2, "--inject", f"scale-weight@step=7,path={WEIGHT},factor=1.001,rank=1",
                                      died='"kind":"died".*exit code 52')
        # The checkpoint of step 10 is skipped if a slow disk is still writing that of step 5; step 12 is the last.
        self.assertRegex(err, "rank 1 and rank 0 disagree about .* after step 1[02]")

    def test_a_full_disk_of_rank_0_is_survived(self):
        self.expect_undisturbed("full", "--ranks", 2, "--inject", "enospc@step=5", "--save-failure", "continue")
        self.expect_undisturbed("full-stop", "--ranks", 2, "--inject", "enospc@step=5", "--save-failure", "stop",
                                died='"kind":"died".*exit code 24')

    def test_a_run_goes_on_with_fewer_ranks(self):
        err = self.expect_undisturbed("fewer", "--ranks", 3, "--min-ranks", 1, "--inject", "kill@step=3,rank=2,again=1", "--checkpoint-every", 2)
        self.assertIn("goes on with 2 ranks", err)

    def test_flags_of_the_supervisor_are_checked(self):
        for flags, text in ((("--min-ranks", 1, "--ranks", 2), "--supervise"), (("--min-ranks", 3, "--ranks", 2, "--supervise"), "at most --ranks 2"),
                            (("--ranks", 2, "--inject", "kill@step=3,rank=2"), "wanted a rank below 2")):
            done = run(MOONS, "train", "--run", self.folder / "flags", *flags)
            self.assertEqual(done.returncode, 20, done.stderr)
            self.assertIn(text, done.stderr)

    def test_an_mpirun_that_cannot_be_started_is_an_argument_error(self):
        done = run(MOONS, "train", "--run", self.folder / "none", "--ranks", 2, env={"BINADE_MPIRUN": "/no/mpirun"})
        self.assertEqual(done.returncode, 20, done.stderr)
        self.assertIn("/no/mpirun", done.stderr)

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
