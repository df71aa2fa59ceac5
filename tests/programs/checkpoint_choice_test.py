"""Which checkpoint `eval`, `sample`, `predict` and `binade-doctor export` use, and their message for a file that is not a run's."""
import json
import unittest

from programs import DOCTOR, GPT, GPT_TINY, UNET, ProgramTest, checkpoints, metrics, run

LAST = 32
# The last update is far too large, so the newest checkpoint is worse than earlier ones.
RUINED = ["--steps", LAST, "--warmup", 0, "--lr", "0.01", "--schedule", "constant", "--checkpoint-every", 8, "--eval-every", 8, "--on-nan",
          "skip", "--inject", f"lr@step={LAST},factor=300"]


def kept_steps(folder):
    """Steps of the checkpoints that exist; a slow disk may have skipped some saves."""
    return [int(path.stem.removeprefix("ckpt-")) for path in checkpoints(folder)]


class WhichCheckpoint(ProgramTest):
    def ruined(self, program, score, sign):
        """A run folder, and the step of its best checkpoint."""
        folder = self.folder / program.name
        self.train(program, folder, *RUINED, "--precision", "fp32")
        kept = kept_steps(folder)
        scores = {line["step"]: sign * line[score] for line in metrics(folder) if score in line and line["step"] in kept}
        best = min(scores, key=scores.get)
        self.assertLess(best, LAST, scores)
        self.assertEqual(checkpoints(folder)[-1].name, f"ckpt-{LAST:012}.h5")
        return folder, best

    def said(self, done, code=0):
        self.assertEqual(done.returncode, code, done.stderr)
        return [line for line in done.stderr.splitlines() if line.startswith("checkpoint")]

    def test_eval(self):
        for program, score, sign in ((GPT, "val_loss", 1), (UNET, "val_dice", -1)):
            with self.subTest(program=program.name):
                folder, best = self.ruined(program, score, sign)
                kept = kept_steps(folder)
                newest, wanted = checkpoints(folder)[-1], {"newest": LAST, "best": best, str(best): best}
                for choice, step in [(None, best), *wanted.items()]:
                    done = run(program, "eval", "--run", folder, "--threads", 1, *(["--checkpoint", choice] if choice else []))
                    self.assertEqual(len(self.said(done)), 1)
                    self.assertIn(f"ckpt-{step:012}.h5", self.said(done)[0])
                    result = json.loads(done.stdout)
                    self.assertEqual(result["step"], step)
                    line = [line for line in metrics(folder) if score in line and line["step"] == step][-1]
                    self.assertAlmostEqual(result[score], line[score], places=5)  # other batches, so sums have another order
                done = run(program, "eval", "--run", folder, "--checkpoint", newest)
                self.assertEqual(json.loads(done.stdout)["step"], LAST, done.stderr)
                done = run(program, "eval", "--run", folder, "--checkpoint", 3)
                self.assertIn(f"existing steps: {', '.join(map(str, kept))}", self.said(done, 22)[0])
                self.assertIn("--run", run(program, "eval", "--checkpoint", "best").stderr)

    def test_sample_and_predict(self):
        folder, best = self.ruined(GPT, "val_loss", 1)
        sample = lambda *args: run(GPT, "sample", "--tokens", 20, "--temperature", 0, "--threads", 1, *args)  # noqa: E731
        of_file = sample("--checkpoint", folder / f"checkpoints/ckpt-{best:012}.h5")
        self.assertEqual(self.said(of_file), [])
        self.assertEqual(sample("--run", folder).stdout, of_file.stdout)
        self.assertIn(f"ckpt-{best:012}.h5: the best", self.said(sample("--run", folder))[0])
        self.assertIn(f"ckpt-{LAST:012}.h5: the newest", self.said(sample("--run", folder, "--checkpoint", "newest"))[0])

        folder, best = self.ruined(UNET, "val_dice", -1)
        image = next((self.images / "images").iterdir())
        masks = []
        for i, choice in enumerate((["--run", folder], ["--checkpoint", folder / f"checkpoints/ckpt-{best:012}.h5"])):
            done = run(UNET, "predict", *choice, "--input", image, "--output", self.folder / f"{i}.png")
            self.assertEqual(done.returncode, 0, done.stderr)
            masks.append((self.folder / f"{i}.png").read_bytes())
        self.assertEqual(masks[0], masks[1])

    def test_the_doctor(self):
        folder, best = self.ruined(GPT, "val_loss", 1)
        hashes = lambda *args: run(DOCTOR, "hash", *args).stdout  # noqa: E731
        self.assertEqual(hashes(folder), hashes(checkpoints(folder)[-1]))
        self.assertEqual(hashes(folder, "--checkpoint", "best"), hashes(folder / f"checkpoints/ckpt-{best:012}.h5"))
        for i, choice in enumerate(([folder], [folder / f"checkpoints/ckpt-{best:012}.h5"])):
            self.assertEqual(run(DOCTOR, "export", *choice, self.folder / f"{i}.safetensors").returncode, 0)
        self.assertEqual((self.folder / "0.safetensors").read_bytes(), (self.folder / "1.safetensors").read_bytes())
        self.assertIn("the best", run(DOCTOR, "inspect", folder, "--checkpoint", "best").stdout)
        self.assertEqual(run(DOCTOR, "hash", folder, "--checkpoint", "bset").returncode, 20)


class WeightsAlone(ProgramTest):
    def test_the_error_names_a_command_that_adds_what_is_missing(self):
        """Imported weights have neither a vocabulary nor the model's shape."""
        self.train(GPT, self.folder / "theirs", "--steps", 3)
        weights, imported = self.folder / "weights.safetensors", self.folder / "imported.h5"
        self.assertEqual(run(DOCTOR, "export", self.folder / "theirs", weights).returncode, 0)
        self.assertEqual(run(DOCTOR, "import", weights, imported).returncode, 0)
        for command in ("sample", "eval"):
            done = run(GPT, command, "--checkpoint", imported)
            self.assertEqual(done.returncode, 21, done.stderr)
            for word in ("weights alone", f"train --init-from {imported}", "--tokenizer bpe:", "--lr 0 --min-lr 0"):
                self.assertIn(word, done.stderr)

        self.train(GPT, self.folder / "ours", "--init-from", imported, *GPT_TINY, "--batch", 1, "--steps", 1, "--lr", 0, "--min-lr", 0)
        sample = lambda folder: run(GPT, "sample", "--run", folder, "--tokens", 20, "--checkpoint", "newest").stdout  # noqa: E731
        self.assertEqual(sample(self.folder / "ours"), sample(self.folder / "theirs"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
