"""Damaged, moved or hostile run folders and data: the programs end with a message and the right exit code, and never block."""
import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest

from programs import DOCTOR, GPT, GPT_TINY, UNET, UNET_TINY, ProgramTest, checkpoints, metrics, run, start

PATIENCE = 60  # time limit in seconds for commands that take about one


def wait_for_checkpoint(folder):
    end = time.monotonic() + PATIENCE
    while not checkpoints(folder) and time.monotonic() < end:
        time.sleep(0.01)


class UnderARunningRun(ProgramTest):
    def begin(self, folder):
        process = start(GPT, "train", "--data", self.text, "--run", folder, *GPT_TINY, "--threads", 1, "--steps", 1000000,
                        "--checkpoint-every", 5)
        wait_for_checkpoint(folder)
        return process

    def end(self, process):
        _, words = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 24, words)
        self.assertIn("it was moved, removed or replaced", words)

    def test_a_removed_folder_ends_it(self):
        folder = self.folder / "r"
        process = self.begin(folder)
        folder.rename(self.folder / "doomed")  # first renamed, because the run may write to the folder while it is deleted
        shutil.rmtree(self.folder / "doomed", ignore_errors=True)
        self.end(process)
        self.assertFalse(folder.exists())

    def test_a_moved_folder_ends_it_and_can_be_resumed_there(self):
        folder, elsewhere = self.folder / "r", self.folder / "elsewhere"
        process = self.begin(folder)
        folder.rename(elsewhere)
        folder.mkdir()
        self.end(process)
        self.assertEqual(list(folder.iterdir()), [], "something was written into the folder that took the name")
        last = int(checkpoints(elsewhere)[-1].stem.split("-")[1])
        more = run(GPT, "train", "--run", elsewhere, "--resume", "--steps", last + 2)
        self.assertEqual(more.returncode, 0, more.stderr)


class SomethingElseInPlace(ProgramTest):
    """Opening a FIFO can block, and reading a device may never end. The programs must not do either."""

    def put(self, kind, path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.exists() or path.is_symlink():
            path.unlink()
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")

    def test_of_a_file_that_a_resumed_run_needs(self):
        self.train(GPT, self.folder / "r", "--steps", 2)
        for name, code in (("config.json", 22), ("metrics.jsonl", 24), ("timing.jsonl", 24), ("events.jsonl", 24), ("headroom.jsonl", 24),
                           (".lock", 24)):
            for kind in ("fifo", "folder", "device"):
                with self.subTest(name=name, kind=kind):
                    folder = self.folder / f"{name}-{kind}"
                    shutil.copytree(self.folder / "r", folder)
                    self.put(kind, folder / name)
                    again = run(GPT, "train", "--run", folder, "--resume", "--steps", 4, timeout=PATIENCE)
                    self.assertEqual(again.returncode, code, again.stderr)
                    self.assertIn(str(folder), again.stderr)

    def test_of_the_newest_checkpoint(self):
        self.train(GPT, self.folder / "r", "--steps", 4, "--checkpoint-every", 2)
        for kind in ("fifo", "folder", "device"):
            with self.subTest(kind=kind):
                folder = self.folder / kind
                shutil.copytree(self.folder / "r", folder)
                self.put(kind, checkpoints(folder)[-1])
                again = run(GPT, "train", "--run", folder, "--resume", "--steps", 5, timeout=PATIENCE)
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertIn("wanted a regular file" if kind != "device" else "symbolic link", again.stderr)
                steps = [m["step"] for m in metrics(folder) if m.get("committed")]
                self.assertEqual(steps, [1, 2, 3, 4, 5])

    def test_a_checkpoint_named_with_another_step_is_not_resumed(self):
        folder = self.folder / "r"
        self.train(GPT, folder, "--steps", 2)
        false = folder / "checkpoints/ckpt-000000000100.h5"
        shutil.copy(checkpoints(folder)[-1], false)
        verify = run(DOCTOR, "verify", folder)
        self.assertEqual(verify.returncode, 22, verify.stdout)
        self.assertIn("its name says step 100, it holds step 2", verify.stderr)
        again = run(GPT, "train", "--run", folder, "--resume", "--steps", 4)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("its name says step 100, it holds step 2", again.stderr)
        self.assertEqual([c.name for c in checkpoints(folder)][-1], "ckpt-000000000004.h5")
        self.assertTrue(false.with_name(false.name + ".misnamed-1").exists())

    def test_of_data(self):
        bpe = [*GPT_TINY[:-1], "byte"]
        for program, tiny, name in ((GPT, GPT_TINY, "text.txt"), (GPT, bpe, "tokens.npy"), (UNET, UNET_TINY, "data.h5"),
                                    (UNET, UNET_TINY, "images-idx3-ubyte")):
            for kind in ("fifo", "device"):
                with self.subTest(program=program.name, name=name, kind=kind):
                    path = self.folder / name
                    self.put(kind, path)
                    done = run(program, "train", "--data", path, "--run", self.folder / "never", *tiny, "--steps", 1, timeout=PATIENCE)
                    self.assertEqual(done.returncode, 40, done.stderr)
                    self.assertIn(str(path), done.stderr)
                    self.assertFalse(pathlib.Path(self.folder / "never").exists())

    def test_of_the_folder_of_runs(self):
        (self.folder / "runs").write_text("not a folder")
        done = run(GPT, "train", "--data", self.text, *GPT_TINY, "--steps", 1, timeout=PATIENCE, cwd=self.folder)
        self.assertEqual(done.returncode, 24, done.stderr)
        self.assertIn("folder of runs", done.stderr)


class LinksInside(ProgramTest):
    """A run folder from another person: no program follows a symbolic link in it to a file outside of it."""

    def setUp(self):
        super().setUp()
        self.train(GPT, self.folder / "r", "--steps", 2, "--eval-every", 1)
        self.outside = self.folder / "outside"
        (self.outside / "folder").mkdir(parents=True)

    def linked(self, name, content=None):
        """A copy of the run in which `name` is a symbolic link to a copy outside the folder."""
        folder = self.folder / f"linked-{name}"
        shutil.copytree(self.folder / "r", folder)
        target = self.outside / name
        if content is not None:
            target.write_text(content)
        elif (folder / name).exists():
            (folder / name).rename(target)
        else:
            target.mkdir()
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
        return folder, target

    @staticmethod
    def contents(path):
        return path.read_bytes() if path.is_file() else sorted((p.name, p.read_bytes()) for p in path.iterdir())

    def test_nothing_is_written_through_it(self):
        for name in ("metrics.jsonl", "timing.jsonl", "events.jsonl", "headroom.jsonl", "checkpoints"):
            with self.subTest(name=name):
                folder, target = self.linked(name)
                before = self.contents(target)
                again = run(GPT, "train", "--run", folder, "--resume", "--steps", 4, timeout=PATIENCE)
                self.assertIn(again.returncode, (22, 24), again.stderr)
                self.assertIn(name, again.stderr)
                self.assertEqual(self.contents(target), before)
        for name, flags in (("samples", ["--eval-every", 1]), ("incidents", ["--inject", "nan-input@step=3,sample=1"])):
            with self.subTest(name=name):
                folder, target = self.linked(name)
                before = self.contents(target)
                again = run(GPT, "train", "--run", folder, "--resume", "--steps", 4, *flags, timeout=PATIENCE)
                self.assertIn("symbolic link", again.stderr)
                self.assertEqual(self.contents(target), before)

    def test_nothing_is_read_through_it(self):
        secret = "the-secret-of-somebody-else"
        event = json.dumps({"step": 1, "kind": "sign", "what": secret, "time": ""}) + "\n"
        for name, content in (("events.jsonl", event), ("config.json", json.dumps({"program": "x", "note": secret}))):
            with self.subTest(name=name):
                folder, _ = self.linked(name, content)
                self.assertEqual(run(DOCTOR, "report", folder, timeout=PATIENCE).returncode, 0)
                self.assertNotIn(secret, (folder / "report.html").read_text())
        for name in ("samples", "incidents"):
            with self.subTest(name=name):
                folder, target = self.linked(name)
                (target / "000000000001").mkdir(exist_ok=True)
                (target / "000000000001/report.md").write_text(secret)
                (target / "000000000001.txt").write_text(secret)
                self.assertEqual(run(DOCTOR, "report", folder, timeout=PATIENCE).returncode, 0)
                self.assertNotIn(secret, (folder / "report.html").read_text())
        folder, _ = self.linked("checkpoints")
        for word in ("verify", "inspect", "hash"):
            self.assertEqual(run(DOCTOR, word, folder, timeout=PATIENCE).returncode, 22, word)

    def test_files_of_a_run_are_readable_by_their_owner_only(self):
        for path in (self.folder / "r").rglob("*"):
            if path.is_file():
                self.assertEqual(path.stat().st_mode & 0o777, 0o600, path)


class Clocks(ProgramTest):
    """The wall clock is wrong, by different amounts in the processes of a run."""

    SHIM = """
        #define _GNU_SOURCE
        #include <stdlib.h>
        #include <sys/syscall.h>
        #include <time.h>
        #include <unistd.h>
        int clock_gettime(clockid_t clock, struct timespec* t) {
          const int result = syscall(SYS_clock_gettime, clock, t);
          if (clock == CLOCK_REALTIME) t->tv_sec += atol(getenv("CLOCK_IS_WRONG_BY"));
          return result;
        }
        time_t time(time_t* at) {
          struct timespec t;
          clock_gettime(CLOCK_REALTIME, &t);
          if (at) *at = t.tv_sec;
          return t.tv_sec;
        }
        """
    YEAR = 365 * 86400

    def run_twice(self, folder, first, second):
        shim = self.folder / "clock.so"
        if not shim.exists():
            subprocess.run(["c++", "-x", "c", "-shared", "-fPIC", "-o", shim, "-"], input=self.SHIM, text=True, check=True)
        for steps, wrong in ((3, first), (6, second)):
            env = {"LD_PRELOAD": str(shim), "CLOCK_IS_WRONG_BY": str(wrong)}
            flags = ["--resume"] if folder.exists() else [*GPT_TINY, "--data", self.text, "--checkpoint-every", 1]
            done = run(GPT, "train", "--run", folder, *flags, "--steps", steps, env=env, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_wrong_clock_changes_neither_the_bits_nor_which_checkpoint_is_newest(self):
        self.run_twice(self.folder / "right", 0, 0)
        for first, second in ((10 * self.YEAR, -10 * self.YEAR), (-10 * self.YEAR, 10 * self.YEAR), (0, -int(time.time()))):
            with self.subTest(first=first, second=second):
                wrong = self.folder / f"wrong{first}{second}"
                self.run_twice(wrong, first, second)
                self.assertEqual((wrong / "metrics.jsonl").read_bytes(), (self.folder / "right/metrics.jsonl").read_bytes())
                self.assertEqual(checkpoints(wrong)[-1].read_bytes(), checkpoints(self.folder / "right")[-1].read_bytes())
                report = run(DOCTOR, "report", wrong, timeout=PATIENCE)
                self.assertEqual(report.returncode, 0, report.stderr)
        times = [json.loads(line)["time"][:4] for line in (wrong / "timing.jsonl").read_text().splitlines()]
        self.assertIn("1970", times, "the clock did not stand wrong")


if __name__ == "__main__":
    unittest.main()
