"""Fire drills in the example programs: messages, reports, and state that must not change."""
import json
import unittest

from programs import DOCTOR, GPT, GPT_TINY, UNET, UNET_TINY, ProgramTest, metrics, run


class FireDrills(ProgramTest):
    def drilled(self, program, folder, *faults, precision="fp32", steps=10, on_nan="stop"):
        tiny, data = (GPT_TINY, self.text) if program == GPT else (UNET_TINY, self.images)
        inject = [argument for fault in faults for argument in ("--inject", fault)]
        return run(program, "train", "--data", data, "--run", folder, *tiny, "--steps", steps, "--checkpoint-every", 1, "--precision",
                   precision, "--threads", 2, "--state-hash", "--on-nan", on_nan, *inject)

    def report(self, folder, step):
        incident = folder / "incidents" / f"{step:012}"
        self.assertTrue((incident / "report.md").read_text().startswith(f"# Incident in step {step}"))
        return json.loads((incident / "report.json").read_text())

    def test_a_bad_sample_is_named_and_the_state_is_unchanged(self):
        for program in (GPT, UNET):
            for precision in ("fp32", "fp16", "bf16"):
                with self.subTest(program=program.name, precision=precision):
                    folder = self.folder / f"{program.name}-{precision}"
                    done = self.drilled(program, folder, "nan-input@step=4,sample=1", precision=precision)
                    self.assertEqual(done.returncode, 30, done.stderr)
                    self.assertIn("fire drill: nan-input@step=4,sample=1", done.stderr)
                    report = self.report(folder, 4)
                    self.assertTrue(report["drill"])
                    self.assertEqual(report["first_bad"]["direction"], "input")
                    self.assertEqual(report["first_bad"]["sample"], 1)
                    self.assertEqual(report["cause"]["class"], "bad-input")
                    self.assertTrue(report["replay"]["reproducible"])
                    last = metrics(folder)[-1]
                    self.assertFalse(last["committed"])
                    self.assertEqual(last["state_hash_before"], last["state_hash_after"])

    def test_an_overflow_is_attributed_to_its_layer(self):
        folder = self.folder / "run"
        done = self.drilled(UNET, folder, "scale-weight@step=3,path=decoder.0.conv1,factor=1e5,view=1", precision="fp16")
        self.assertEqual(done.returncode, 30, done.stderr)
        report = self.report(folder, 3)
        self.assertEqual((report["first_bad"]["module"], report["first_bad"]["op"]), ("decoder.0.conv1", "conv2d"))
        self.assertEqual(report["first_bad"]["direction"], "forward")
        self.assertEqual(report["cause"]["class"], "activation-overflow")
        self.assertEqual(report["cause"]["confidence"], "proven")

    def test_remediation_lets_the_run_finish(self):
        faults = {"nan-input@step=4,sample=1": ("bad-input", "quarantine-sample"),
                  "scale-weight@step=4,path=PATH,factor=1e7,view=1": ("activation-overflow", "promote-op"),
                  "nan-weight@step=3,path=PATH,once=1": ("corrupted-state", "rollback")}
        for program, path in ((GPT, "blocks.0.mlp.down"), (UNET, "decoder.0.conv1")):
            for fault, (cause, remedy) in faults.items():
                with self.subTest(program=program.name, fault=fault):
                    folder = self.folder / f"{program.name}-{cause}"
                    done = self.drilled(program, folder, fault.replace("PATH", path), precision="fp16", on_nan="ladder")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    report = self.report(folder, 4)
                    self.assertEqual(report["cause"]["class"], cause)
                    self.assertEqual(report["remedy"]["action"], remedy)
                    self.assertTrue(report["remedy"]["verified"])
                    self.assertLessEqual(report["replay"]["steps"], 5)
                    again = run(DOCTOR, "replay", folder / "incidents/000000000004/capsule.h5")
                    self.assertEqual(again.returncode, 0, again.stderr)
                    replayed = json.loads(again.stdout.splitlines()[-1])
                    self.assertTrue(replayed["same_bits"])
                    self.assertEqual(replayed["report"]["first_bad"], report["first_bad"])

    def test_a_damaged_statistic_is_named_and_rolled_back(self):
        folder = self.folder / "run"
        done = self.drilled(UNET, folder, "nan-buffer@step=4,path=encoder.0.norm1,once=1", on_nan="ladder")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.report(folder, 4)
        self.assertEqual((report["first_bad"]["module"], report["first_bad"]["direction"]), ("encoder.0.norm1", "state"))
        self.assertEqual((report["cause"]["class"], report["remedy"]["action"]), ("corrupted-state", "rollback"))

    def test_after_a_damaged_weight_the_run_ends_as_without_it(self):
        clean, harmed = self.folder / "clean", self.folder / "harmed"
        self.assertEqual(self.drilled(UNET, clean).returncode, 0)
        self.assertEqual(self.drilled(UNET, harmed, "nan-weight@step=6,path=head,once=1", on_nan="ladder").returncode, 0)
        last = [[line for line in metrics(folder) if line.get("committed")][-1] for folder in (clean, harmed)]
        self.assertEqual(last[0]["state_hash_after"], last[1]["state_hash_after"])

    def test_a_fault_strikes_once_although_its_step_is_repeated(self):
        """A rollback repeats the step, as does the resume of a run that the fault ended; the fault must not strike again."""
        folder = self.folder / "rollback"
        done = self.drilled(UNET, folder, "nan-weight@step=6,path=head", on_nan="ladder")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([p.name for p in (folder / "incidents").iterdir()], ["000000000007"])

        ended = self.folder / "ended"
        self.assertEqual(self.drilled(GPT, ended, "nan-input@step=4,sample=1").returncode, 30)
        resumed = run(GPT, "train", "--run", ended, "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)

        again = self.folder / "again"
        self.assertEqual(self.drilled(GPT, again, "nan-input@step=4,sample=1,again=1").returncode, 30)
        self.assertEqual(run(GPT, "train", "--run", again, "--resume").returncode, 30)

    def test_a_full_disk_costs_a_checkpoint_and_not_the_run(self):
        folder = self.folder / "run"
        steps = 1500  # many saves after it, on a machine whose other work keeps the writer waiting too
        done = self.drilled(GPT, folder, "enospc@step=5", steps=steps)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("No space left on device", done.stderr)
        self.assertTrue((folder / f"checkpoints/ckpt-{steps:012}.h5").exists())

    def test_a_file_that_is_no_capsule_is_refused_in_one_line(self):
        folder = self.folder / "run"
        self.assertEqual(self.drilled(GPT, folder).returncode, 0)
        done = run(DOCTOR, "replay", folder / "checkpoints/ckpt-000000000010.h5")
        self.assertEqual(done.returncode, 21, done.stderr)
        self.assertIn("is not a repro bundle", done.stderr.splitlines()[-1])

    def test_a_kill_strikes_once_and_the_resumed_run_equals_an_undisturbed_one(self):
        whole, cut = self.folder / "whole", self.folder / "cut"
        self.assertEqual(self.drilled(GPT, whole, steps=600).returncode, 0)
        self.assertEqual(self.drilled(GPT, cut, "kill@step=590", steps=600).returncode, -9)
        self.assertEqual((cut / "drills.jsonl").read_text(), '{"struck":"kill@step=590","step":590}\n')
        resumed = run(GPT, "train", "--run", cut, "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual((cut / "metrics.jsonl").read_bytes(), (whole / "metrics.jsonl").read_bytes())

    def test_an_impossible_drill_is_one_line_and_exit_20(self):
        for fault, hint in (("nan-inptu@step=1,sample=0", "did you mean nan-input?"), ("inf-grad@step=1,param=blocks.9", "no parameter"),
                            ("nan-input@step=1", "wants sample=")):
            with self.subTest(fault=fault):
                done = self.drilled(GPT, self.folder / "never", fault)
                self.assertEqual(done.returncode, 20, done.stderr)
                self.assertIn(hint, done.stderr.splitlines()[-1])
                self.assertFalse((self.folder / "never").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
