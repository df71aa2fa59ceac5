"""Failing output: a pipe with a closed reader, a full disk, a limit on the size of files.

The output of `train` is a log, and losing it does not end the run. The output of every other command is its result: it must not
exit 0 without having written it.
"""
import shlex
import subprocess
import unittest

from programs import DOCTOR, GPT, GPT_TINY, UNET, ProgramTest, checkpoints, run


def shell(line, cwd=None):
    """Runs a bash command line. `codes` of the result are the exit codes of the programs of its pipeline."""
    done = subprocess.run(["bash", "-c", f"{line}; echo CODES ${{PIPESTATUS[@]}} >&2"], capture_output=True, text=True, timeout=240, cwd=cwd,
                          errors="replace")
    words, _, codes = done.stderr.rpartition("CODES ")
    done.stderr, done.codes = words, [int(code) for code in codes.split()]
    return done


def line(program, *args):
    return shlex.join([str(program), *map(str, args)])


class Output(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gpt, cls.unet = cls.shared / "gpt", cls.shared / "unet"
        for program, folder, tiny in ((GPT, cls.gpt, [*GPT_TINY, "--data", cls.text]),
                                      (UNET, cls.unet, ["--base", 4, "--depth", 2, "--size", 16, "--batch", 2, "--data", cls.images])):
            done = run(program, "train", "--run", folder, *tiny, "--threads", 1, "--steps", 2)
            assert done.returncode == 0, done.stderr
        cls.newest = checkpoints(cls.gpt)[-1]

    def train(self, folder, *args):
        return line(GPT, "train", "--data", self.text, "--run", folder, *GPT_TINY, "--threads", 1, *args)

    def results(self):
        """Commands whose purpose is their stdout."""
        return {
            "eval": line(GPT, "eval", "--run", self.gpt), "unet eval": line(UNET, "eval", "--run", self.unet),
            "sample": line(GPT, "sample", "--run", self.gpt, "--tokens", 5), "modules": line(UNET, "modules", "--base", 4, "--depth", 2),
            "preflight": line(GPT, "preflight", "--data", self.text, *GPT_TINY, "--threads", 1, "--steps", 2),
            "hash": line(DOCTOR, "hash", self.newest), "verify": line(DOCTOR, "verify", self.gpt), "inspect": line(DOCTOR, "inspect", self.newest),
            "env": line(DOCTOR, "env"), "report": line(DOCTOR, "report", self.gpt), "help": line(GPT, "--help"), "version": line(DOCTOR, "--version"),
        }

    def test_a_result_that_cannot_be_written_is_an_error(self):
        for name, command in self.results().items():
            with self.subTest(name):
                done = shell(f"{command} > /dev/full")
                self.assertEqual(done.codes, [24], done.stderr)
                self.assertIn("standard output: cannot be written: No space left on device", done.stderr.splitlines()[-1])

    def test_a_result_without_a_reader_is_an_error_with_a_message(self):
        done = shell(f"{line(GPT, 'sample', '--run', self.gpt, '--tokens', 100000)} | head -c 1")
        self.assertEqual(done.codes, [24, 0], done.stderr)
        self.assertIn("standard output: cannot be written: Broken pipe", done.stderr)

    def test_a_diff_that_cannot_be_written_is_an_error(self):
        other = checkpoints(self.gpt)[0]
        done = shell(f"{line(DOCTOR, 'diff', self.newest, other)} > /dev/full")
        self.assertEqual(done.codes, [24], done.stderr)

    def test_a_run_without_a_reader_of_its_log_finishes(self):
        done = shell(f"{self.train(self.folder / 'r', '--steps', 30, '--log-every', 1)} 2>&1 | head -1")
        self.assertEqual(done.codes, [0, 0], done.stderr)
        self.assertEqual(checkpoints(self.folder / "r")[-1].name, "ckpt-000000000030.h5")
        done = shell(f"{self.train(self.folder / 'full', '--steps', 3)} > /dev/full 2>&1")
        self.assertEqual(done.codes, [0], done.stderr)

    def test_a_supervised_run_without_a_reader_of_its_log_finishes(self):
        done = shell(f"{self.train(self.folder / 'r', '--steps', 30, '--log-every', 1, '--supervise')} 2>&1 | head -1")
        self.assertEqual(done.codes, [0, 0], done.stderr)

    def test_a_file_size_limit_is_an_error(self):
        done = shell(f"ulimit -f 1; {line(DOCTOR, 'report', self.gpt)}")
        self.assertEqual(done.codes, [24], done.stderr)
        self.assertIn("File too large", done.stderr)
        done = shell(f"ulimit -f 8; {self.train(self.folder / 'r', '--steps', 3, '--save-failure', 'stop')}")
        self.assertEqual(done.codes, [24], done.stderr)
        self.assertIn("File too large (EFBIG)", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
