"""What somebody may do to a run folder, or give as data: the programs end with words and the right code, and never wait."""
import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest

from programs import DOCTOR, GPT, GPT_TINY, UNET, UNET_TINY, ProgramTest, checkpoints, metrics, run, start

PATIENCE = 60  # seconds for what takes one


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
        folder.rename(self.folder / "doomed")  # in one step; while it is emptied the run may still write to it
        shutil.rmtree(self.folder / "doomed", ignore_errors=True)
        self.end(process)
        self.assertFalse(folder.exists())

    def test_a_moved_folder_ends_it_and_is_gone_on_with_where_it_is(self):
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
    """A FIFO waits for who opens it, a device can be read for ever: neither may happen."""

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


class Clocks(ProgramTest):
    """The wall clock stands wrong, and elsewhere in each life of a run."""

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

    def two_lives(self, folder, first, second):
        shim = self.folder / "clock.so"
        if not shim.exists():
            subprocess.run(["c++", "-x", "c", "-shared", "-fPIC", "-o", shim, "-"], input=self.SHIM, text=True, check=True)
        for steps, wrong in ((3, first), (6, second)):
            env = {"LD_PRELOAD": str(shim), "CLOCK_IS_WRONG_BY": str(wrong)}
            flags = ["--resume"] if folder.exists() else [*GPT_TINY, "--data", self.text, "--checkpoint-every", 1]
            done = run(GPT, "train", "--run", folder, *flags, "--steps", steps, env=env, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_wherever_it_jumps_the_bits_are_the_same_and_the_newest_is_the_newest(self):
        self.two_lives(self.folder / "right", 0, 0)
        for first, second in ((10 * self.YEAR, -10 * self.YEAR), (-10 * self.YEAR, 10 * self.YEAR), (0, -int(time.time()))):
            with self.subTest(first=first, second=second):
                wrong = self.folder / f"wrong{first}{second}"
                self.two_lives(wrong, first, second)
                self.assertEqual((wrong / "metrics.jsonl").read_bytes(), (self.folder / "right/metrics.jsonl").read_bytes())
                self.assertEqual(checkpoints(wrong)[-1].read_bytes(), checkpoints(self.folder / "right")[-1].read_bytes())
                report = run(DOCTOR, "report", wrong, timeout=PATIENCE)
                self.assertEqual(report.returncode, 0, report.stderr)
        times = [json.loads(line)["time"][:4] for line in (wrong / "timing.jsonl").read_text().splitlines()]
        self.assertIn("1970", times, "the clock did not stand wrong")


if __name__ == "__main__":
    unittest.main()
