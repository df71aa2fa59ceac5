"""The pre-flight of the example programs: no finding with default settings, a finding for each bad setting, exit code 0."""
import json
import unittest

from programs import GPT, GPT_TINY, UNET, UNET_TINY, ProgramTest, metrics, run

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "pure-fp16", "pure-bf16")


class Preflight(ProgramTest):
    def preflight(self, program, *args, tiny=True, embedded=False):
        shape, data = (GPT_TINY, self.text) if program == GPT else (UNET_TINY, self.images)
        given = [*(shape if tiny else []), *([] if embedded else ["--data", data])]
        done = run(program, "preflight", *given, "--threads", 2, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1]), done.stderr

    def test_the_default_settings_have_no_finding_in_any_precision(self):
        variants = [(GPT, ("--attention", "fused")), (GPT, ("--attention", "composed")), (GPT, ("--recompute", "--dropout", "0.1"))]
        variants += [(UNET, ("--loss", loss)) for loss in ("bce", "dice", "bce+dice")] + [(UNET, ("--classes", "2", "--loss", "ce"))]
        for program, flags in variants:
            for precision in PRECISIONS:
                for tiny in (True, False) if precision == "fp16" else (True,):
                    with self.subTest(program=program.name, flags=flags, precision=precision, tiny=tiny):
                        embedded = not tiny or "ce" in flags  # the test images have masks of 0 and 255, which are no class ids
                        report, terminal = self.preflight(program, "--precision", precision, *flags, tiny=tiny, embedded=embedded)
                        self.assertEqual(report["findings"], 0, report)
                        self.assertEqual(report["list"], [])
                        self.assertIn("nothing found", terminal)

    def test_bad_settings_are_found(self):
        planted = {
            "optimizer-eps": ["--eps", "0"],
            "beta-rounds-to-one": ["--beta2", "0.999999999"],
            "decay-vanishes": ["--lr", "1e-8", "--min-lr", "0", "--weight-decay", "0.1", "--optimizer", "adamw"],
            "scale-overflow": ["--precision", "fp16", "--loss-scale", "1e9"],
            "scale-underflow": ["--precision", "fp16", "--loss-scale", "1e-3"],
        }
        for program in (GPT, UNET):
            for rule, flags in planted.items():
                with self.subTest(program=program.name, rule=rule):
                    report, terminal = self.preflight(program, *flags)
                    self.assertIn(rule, [finding["rule"] for finding in report["list"]])
                    self.assertEqual(report["findings"], len(report["list"]))
                    self.assertIn(f"preflight: {rule}: ", terminal)

    def test_train_prints_findings_and_continues_and_a_resumed_run_does_not_repeat_them(self):
        folder = self.folder / "run"
        done = self.train(GPT, folder, "--steps", 3, "--beta2", "0.999999999")
        self.assertIn("preflight: beta-rounds-to-one: ", done.stderr)
        self.assertEqual([line["committed"] for line in metrics(folder) if "committed" in line][:3], [True] * 3)
        resumed = run(GPT, "train", "--run", folder, "--resume", "--steps", 4)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertNotIn("preflight: ", resumed.stderr)

    def test_the_measured_batch_is_that_of_step_1(self):
        for program in (GPT, UNET):
            with self.subTest(program=program.name):
                report, _ = self.preflight(program, "--precision", "fp32")
                folder = self.folder / program.name
                self.train(program, folder, "--steps", 1, "--precision", "fp32")
                self.assertAlmostEqual(metrics(folder)[0]["loss"], report["loss"], delta=1e-6 * report["loss"])

    def test_a_bad_flag_is_one_line_and_exit_20(self):
        done = run(UNET, "preflight", "--precison", "fp16")
        self.assertEqual(done.returncode, 20)
        self.assertIn("--precision", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
