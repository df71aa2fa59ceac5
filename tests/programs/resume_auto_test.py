"""One command line for every start of a run: `--resume auto` starts a run if there is none and resumes it otherwise.

A run that is killed at random instants and steps (from SEED), and restarted with the same command line until it ends, must
have the final state of an undisturbed run.
"""
import json
import random
import signal
import subprocess
import time
import unittest

from programs import DOCTOR, GPT, GPT_TINY, UNET, UNET_TINY, ProgramTest, checkpoints, kill_after_step, metrics, run, start

SEED = 11
PATIENCE = 300


class SameCommandLine(ProgramTest):
    def command(self, program, folder, *args):
        tiny, data = (GPT_TINY, self.text) if program == GPT else (UNET_TINY, self.images)
        return ["train", "--data", data, "--run", folder, *tiny, "--threads", 1, "--resume", "auto", *args]

    def state_hash(self, folder):
        done = run(DOCTOR, "hash", checkpoints(folder)[-1])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def last_step(self, folder):
        path = folder / "metrics.jsonl"
        return max((m["step"] for m in metrics(folder) if m.get("committed")), default=0) if path.exists() else 0

    def test_a_run_killed_at_any_instant_is_resumed_by_the_same_command_line(self):
        source = random.Random(SEED)
        settings = ["--steps", 800, "--warmup", 5, "--checkpoint-every", 7, "--dropout", 0.1]
        whole, cut = self.folder / "whole", self.folder / "cut"
        self.assertEqual(run(GPT, *self.command(GPT, whole, *settings)).returncode, 0)
        # Many kills before the first step, when the run has a folder without settings, settings without a checkpoint, or an
        # incomplete checkpoint. The time to the first step is measured, so that a fast machine does not finish the run.
        begun = time.monotonic()
        process = start(GPT, *self.command(GPT, self.folder / "first", *settings))
        self.assertEqual(kill_after_step(process, self.folder / "first", 1), -signal.SIGKILL, process.stderr_text)
        first_step = time.monotonic() - begun
        for _ in range(12):
            instant = source.uniform(0, first_step)
            process = start(GPT, *self.command(GPT, cut, *settings))
            try:
                process.communicate(timeout=instant)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
            self.assertIn(process.returncode, (0, -signal.SIGKILL), f"killed after {instant:.3f} s")
        # Then kills between checkpoints, at steps that the run has not reached before.
        for _ in range(6):
            step = self.last_step(cut) + source.randint(1, 40)
            process = start(GPT, *self.command(GPT, cut, *settings))
            self.assertEqual(kill_after_step(process, cut, step), -signal.SIGKILL, process.stderr_text)
        last = run(GPT, *self.command(GPT, cut, *settings), timeout=PATIENCE)
        self.assertEqual(last.returncode, 0, last.stderr)
        self.assertEqual(checkpoints(cut)[-1].name, checkpoints(whole)[-1].name)
        self.assertEqual(self.state_hash(cut), self.state_hash(whole))
        self.assertEqual((cut / "metrics.jsonl").read_bytes(), (whole / "metrics.jsonl").read_bytes())

    def test_a_run_killed_before_its_first_checkpoint_restarts_with_its_initial_weights(self):
        weights = self.folder / "weights"
        self.assertEqual(run(UNET, *self.command(UNET, weights, "--steps", 2)).returncode, 0)
        settings = ["--steps", 6, "--init-from", checkpoints(weights)[-1], "--checkpoint-minutes", 0]
        whole, cut = self.folder / "whole", self.folder / "cut"
        self.assertEqual(run(UNET, *self.command(UNET, whole, *settings)).returncode, 0)
        first = run(UNET, *self.command(UNET, cut, *settings, "--inject", "kill@step=3"))
        self.assertEqual((first.returncode, checkpoints(cut)), (-signal.SIGKILL, []), first.stderr)

        for words, code in ((["--resume"], 22), ([], 20)):
            refused = run(UNET, "train", "--run", cut, "--data", self.images, *UNET_TINY, "--steps", 6, *words)
            self.assertEqual(refused.returncode, code, refused.stderr)
            self.assertIn("--resume auto", refused.stderr.splitlines()[-1])

        second = run(UNET, *self.command(UNET, cut, *settings))
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertIn("it begins again", second.stderr)
        self.assertEqual(self.state_hash(cut), self.state_hash(whole))

    def test_the_same_command_line_also_with_supervise(self):
        folder = self.folder / "r"
        settings = ["--steps", 6, "--checkpoint-minutes", 0]
        self.assertEqual(run(GPT, *self.command(GPT, folder, *settings, "--inject", "kill@step=3")).returncode, -signal.SIGKILL)
        again = run(GPT, *self.command(GPT, folder, *settings, "--supervise", "--inject", "kill@step=5"))
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual([m["step"] for m in metrics(folder) if m.get("committed")], [1, 2, 3, 4, 5, 6])

    def test_settings_from_a_file_are_read_only_at_the_first_start(self):
        config = self.folder / "settings.json"
        config.write_text(json.dumps({"steps": 4, "lr": 0.002}))
        folder = self.folder / "r"
        words = self.command(GPT, folder, "--config", config)
        self.assertEqual(run(GPT, *words).returncode, 0)
        config.write_text("{}")
        again = run(GPT, *words)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("--config: not read", again.stderr)
        self.assertEqual(json.loads((folder / "config.json").read_text())["lr"], 0.002)

    def test_no_run_is_started_over_unreadable_checkpoints(self):
        folder = self.folder / "r"
        self.assertEqual(run(GPT, *self.command(GPT, folder, "--steps", 2)).returncode, 0)
        for path in checkpoints(folder):
            path.write_bytes(b"no checkpoint")
        again = run(GPT, *self.command(GPT, folder, "--steps", 2))
        self.assertEqual(again.returncode, 22, again.stderr)


class ByTheClock(ProgramTest):
    def test_without_save_flags_a_killed_run_can_be_resumed(self):
        folder = self.folder / "r"
        process = start(GPT, "train", "--data", self.text, "--run", folder, *GPT_TINY, "--threads", 1, "--steps", 1000000)
        self.assertEqual(kill_after_step(process, folder, 20), -signal.SIGKILL, process.stderr_text)
        steps = int(checkpoints(folder)[-1].stem.split("-")[1]) + 3
        more = run(GPT, "train", "--run", folder, "--resume", "--steps", steps)
        self.assertEqual(more.returncode, 0, more.stderr)

    def test_on_a_closed_terminal_the_run_commits_and_prints_how_to_resume(self):
        folder = self.folder / "r"
        process = start(GPT, "train", "--data", self.text, "--run", folder, *GPT_TINY, "--threads", 1, "--steps", 1000000)
        self.assertEqual(kill_after_step(process, folder, 5, signal.SIGHUP), 10, process.stderr_text)
        last = [m["step"] for m in metrics(folder) if m.get("committed")][-1]
        self.assertEqual(checkpoints(folder)[-1].name, f"ckpt-{last:012}.h5")
        self.assertIn("--resume auto", process.stderr_text.splitlines()[-1])

    def test_under_nohup_a_closed_terminal_has_no_effect(self):
        for how in ([], ["--supervise"]):
            with self.subTest(how):
                folder = self.folder / f"r{len(how)}"
                command = [GPT, "train", "--data", self.text, "--run", folder, *GPT_TINY, "--threads", 1, "--steps", 1000000, *how]
                process = subprocess.Popen(["nohup", *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                end = time.monotonic() + PATIENCE
                while not checkpoints(folder) and time.monotonic() < end:
                    time.sleep(0.01)
                process.send_signal(signal.SIGHUP)
                time.sleep(0.2)
                process.send_signal(signal.SIGTERM)
                _, words = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 10, words)
                self.assertIn("stopped by signal 15", words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
