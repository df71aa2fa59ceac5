"""A killed and resumed run equals the uninterrupted run bit for bit: metrics.jsonl and the final checkpoint."""
import json
import os
import pathlib
import random
import re
import shutil
import unittest

from programs import GPT, UNET, ProgramTest, checkpoints, kill_after_step, metrics, run, start
from programs import GPT_TINY, UNET_TINY

STEPS = 12
COMMON = ["--steps", STEPS, "--checkpoint-every", 3, "--eval-every", 5, "--accumulate", 2, "--ema", "0.9", "--clip", "1",
          "--warmup", 2, "--lr", "0.003", "--log-every", 1]
SEED = 20261


class BitwiseResume(ProgramTest):
    """One test per program, precision and optimizer; the step at which the run is killed is drawn from SEED."""

    def check(self, program, precision, optimizer):
        settings = [*COMMON, "--precision", precision, "--optimizer", optimizer]
        if program == GPT:
            settings += ["--dropout", "0.1"]
        else:
            settings += ["--rotate", 15, "--elastic", 100, "--elastic-sigma", 4]
        whole = self.folder / "whole"
        self.train(program, whole, *settings)

        cut = self.folder / "cut"
        step = random.Random(f"{SEED} {program.name} {precision} {optimizer}").randrange(4, STEPS)
        tiny, data = (GPT_TINY, self.text) if program == GPT else (UNET_TINY, self.images)
        process = start(program, "train", "--data", data, "--run", cut, *tiny, "--threads", 1, *settings)
        status = kill_after_step(process, cut, step)
        self.assertIn(status, (-9, 0), process.stderr_text)
        resumed = run(program, "train", "--run", cut, "--resume", "--threads", 2)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)

        self.assertEqual((cut / "metrics.jsonl").read_bytes(), (whole / "metrics.jsonl").read_bytes(), f"killed after step {step}")
        self.assertEqual(checkpoints(cut)[-1].name, checkpoints(whole)[-1].name)
        self.assertEqual(checkpoints(cut)[-1].read_bytes(), checkpoints(whole)[-1].read_bytes(), f"killed after step {step}")
        self.assertEqual([m["step"] for m in metrics(whole) if m.get("committed")], list(range(1, STEPS + 1)))


def add(program, precision, optimizer):
    def test(self):
        self.check(program, precision, optimizer)

    name = f"test_{program.name.replace('binade-', '')}_{precision}_{optimizer}"
    test.__name__ = name
    setattr(BitwiseResume, name, test)


for program_ in (GPT, UNET):
    for precision_ in ("fp32", "fp16", "bf16"):
        for optimizer_ in ("sgd", "adamw"):
            add(program_, precision_, optimizer_)


class RunLife(ProgramTest):
    def test_resuming_a_finished_run_changes_nothing(self):
        self.train(GPT, self.folder / "r", "--steps", 2)
        before = (self.folder / "r/metrics.jsonl").read_bytes()
        again = run(GPT, "train", "--run", self.folder / "r", "--resume")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual((self.folder / "r/metrics.jsonl").read_bytes(), before)

    def test_more_steps_continue_a_finished_run(self):
        self.train(GPT, self.folder / "r", "--steps", 3)
        more = run(GPT, "train", "--run", self.folder / "r", "--resume", "--steps", 5)
        self.assertEqual(more.returncode, 0, more.stderr)
        self.assertEqual([m["step"] for m in metrics(self.folder / "r") if m.get("committed")], [1, 2, 3, 4, 5])

    def test_a_run_with_a_deleted_log_can_be_resumed(self):
        self.train(GPT, self.folder / "r", "--steps", 3)
        (self.folder / "r/metrics.jsonl").unlink()
        more = run(GPT, "train", "--run", self.folder / "r", "--resume", "--steps", 5)
        self.assertEqual(more.returncode, 0, more.stderr)
        self.assertIn("metrics.jsonl had ", more.stderr)
        self.assertEqual([m["step"] for m in metrics(self.folder / "r") if m.get("committed")], [4, 5])

    def test_sigterm_commits_and_exits_with_10(self):
        import signal
        for program in (GPT, UNET):
            folder = self.folder / program.name
            tiny, data = (GPT_TINY, self.text) if program == GPT else (UNET_TINY, self.images)
            process = start(program, "train", "--data", data, "--run", folder, *tiny, "--threads", 1, "--steps", 100000)
            self.assertEqual(kill_after_step(process, folder, 5, signal.SIGTERM), 10, process.stderr_text)
            last = [m["step"] for m in metrics(folder) if m.get("committed")][-1]
            self.assertEqual(checkpoints(folder)[-1].name, f"ckpt-{last:012}.h5")


# A value for each flag that Binade's advice names.
ADVISED = {"--override": "head=fp32", "--precision": "fp16", "--loss-scale": "dynamic", "--clip": "0.5", "--batch": "2", "--accumulate": "2",
           "--recompute": "on", "--warmup": "2", "--attention": "composed"}


class ChangedSettings(ProgramTest):
    """A run with an incident can be resumed with the changes that the incident advises."""

    def resumed(self, folder, *args, expect=0, program=GPT):
        done = run(program, "train", "--run", folder, "--resume", "--threads", 1, *args)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stderr

    def events(self, folder, kind):
        lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        return [line["what"] for line in lines if line["kind"] == kind]

    def test_each_change_is_printed_logged_and_applied(self):
        folder = self.folder / "r"
        self.train(GPT, folder, "--steps", 3, "--precision", "bf16", "--lr", "0.001", "--schedule", "constant", "--warmup", 0)
        said = self.resumed(folder, "--steps", 6, "--lr", "0.0005", "--precision", "fp16", "--batch", 3, "--override", "head=fp32", "--clip", "0.5",
                            "--weight-decay", "0.2")
        changes = ["changed: batch 4 -> 3", "changed: precision bf16 -> fp16", 'changed: override [] -> ["head=fp32"]', "changed: lr 0.001 -> 0.0005",
                   "changed: weight-decay 0.1 -> 0.2", "changed: clip 1.0 -> 0.5"]
        self.assertEqual(self.events(folder, "changed"), changes)
        for change in changes:
            self.assertIn(change, said)
        lines = [line for line in metrics(folder) if line.get("committed")]
        self.assertEqual([line["lr"] for line in lines], [0.001] * 3 + [0.0005] * 3)
        self.assertEqual([line["loss_scale"] for line in lines], [1] * 3 + [65536] * 3)
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual((config["lr"], config["batch"], config["precision"], config["override"]), (0.0005, 3, "fp16", ["head=fp32"]))
        self.resumed(folder, "--steps", 7)
        self.assertEqual(len(self.events(folder, "changed")), len(changes), "they are the run's settings now")

    def test_every_flag_in_advice_can_be_changed(self):
        source = pathlib.Path(os.environ.get("BINADE_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2])) / "amp"
        text = (source / "suggestions.cpp").read_text()
        named = {"--" + flag for flag in re.findall(r'(?:flag_or|has_program_flag)\("([a-z-]+)"', text)}
        self.assertGreaterEqual(named, {"--override", "--precision", "--loss-scale", "--clip"})
        whole = self.folder / "whole"
        self.train(GPT, whole, "--steps", 1, "--precision", "bf16")
        for flag in sorted(named):
            with self.subTest(flag=flag):
                self.assertIn(flag, ADVISED, "say here what it can be changed to")
                folder = self.folder / flag
                shutil.copytree(whole, folder)
                said = self.resumed(folder, "--steps", 2, flag, ADVISED[flag])
                if flag != "--recompute":  # recomputation does not change the steps
                    self.assertIn(f"changed: {flag[2:]} ", said)

    def test_a_run_ended_by_an_incident_continues_with_the_advised_change(self):
        folder = self.folder / "r"
        fault = "scale-weight@step=3,path=decoder.0.conv1,factor=1e5,view=1,again=1"
        done = self.train(UNET, folder, "--steps", 5, "--precision", "fp16", "--on-nan", "stop", "--checkpoint-every", 1, "--inject", fault, expect=30)
        advised = re.search(r"--override '([^']+)'", done.stderr).group(1)
        self.resumed(folder, program=UNET, expect=30)
        said = self.resumed(folder, "--override", advised, program=UNET)
        self.assertIn(f'changed: override [] -> ["{advised}"]', said)


class Augmentation(ProgramTest):
    def test_each_kind_changes_the_losses_and_repeats_exactly(self):
        def losses(name, *args):
            self.train(UNET, self.folder / name, "--steps", 3, "--log-every", 1, *args)
            return [m["loss"] for m in metrics(self.folder / name) if m.get("committed")]

        kinds = {"off": ["--augment", "off"], "on": [], "rotate": ["--rotate", 30], "elastic": ["--elastic", 200, "--elastic-sigma", 4]}
        seen = {name: losses(name, *args) for name, args in kinds.items()}
        self.assertEqual(len({tuple(v) for v in seen.values()}), 4, seen)
        self.assertEqual(losses("again", *kinds["elastic"]), seen["elastic"])


class Overflow(ProgramTest):
    """With a loss scale far beyond fp16's range, the first attempts abort without a change of the state, and training continues."""

    def test_an_overflow_does_not_change_the_state(self):
        for program in (GPT, UNET):
            with self.subTest(program=program.name):
                folder = self.folder / program.name
                done = self.train(program, folder, "--steps", 6, "--precision", "fp16", "--init-scale", 4294967296, "--state-hash", "on")
                lines = [m for m in metrics(folder) if "committed" in m]
                aborted = [m for m in lines if not m["committed"]]
                self.assertGreaterEqual(len(aborted), 3)
                self.assertIn(f"step 1: {sum(m['step'] == 1 for m in aborted)} attempts overflowed", done.stderr)
                for m in aborted:
                    self.assertEqual(m["state_hash_before"], m["state_hash_after"], m)
                for m in lines:
                    if m["committed"]:
                        self.assertNotEqual(m["state_hash_before"], m["state_hash_after"], m)
                self.assertEqual([m["step"] for m in lines if m["committed"]], [1, 2, 3, 4, 5, 6])
                self.assertEqual(lines[0]["step"], 1)
                first = [m for m in lines if m["step"] == 1]
                self.assertEqual([m["attempt"] for m in first], list(range(1, len(first) + 1)))
                self.assertEqual([m["committed"] for m in first], [False] * (len(first) - 1) + [True])


if __name__ == "__main__":
    unittest.main(verbosity=2)
