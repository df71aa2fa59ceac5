"""The start of a training: the first loss of a U-Net is the entropy of its masks, and `init` writes the initial weights of `train`."""
import math
import unittest

from programs import GPT, GPT_TINY, UNET, UNET_TINY, ProgramTest, metrics, png, run

STRIPE = 16  # every crop of this side has each class as often as the whole image


class FirstStep(ProgramTest):
    def stripes(self, classes):
        """Grey noise with masks. Class 1 and each further class cover a sixteenth of the pixels."""
        folder = self.folder / f"stripes-{classes}"
        for kind in ("images", "masks"):
            (folder / kind).mkdir(parents=True)
        for i in range(3):
            png(folder / "images" / f"{i}.png", 32, 32, lambda x, y, i=i: (x * 37 + y * 101 + i * 59 + x * y * 7) % 251)
            value = (lambda x, y: 255 if x % STRIPE == 0 else 0) if classes == 1 else (lambda x, y: max(0, classes - 1 - x % STRIPE))
            png(folder / "masks" / f"{i}.png", 32, 32, value)
        return folder

    def test_the_first_loss_is_the_entropy_of_the_masks_for_every_seed(self):
        for classes, loss in ((1, "bce"), (4, "ce")):
            folder = self.stripes(classes)
            rare = max(1, classes - 1)
            shares = [1 / STRIPE] * rare + [1 - rare / STRIPE]
            entropy = -sum(share * math.log(share) for share in shares)
            for seed in range(1, 5):
                with self.subTest(classes=classes, seed=seed):
                    out = self.folder / f"run-{classes}-{seed}"
                    done = run(UNET, "train", "--data", folder, "--run", out, *UNET_TINY, "--classes", classes, "--loss", loss, "--seed", seed,
                               "--steps", 1, "--precision", "fp32", "--threads", 1)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    first = next(line["loss"] for line in metrics(out) if "loss" in line)
                    # Near the prior, the loss grows with the square of the error of the logits. A He-normal head with
                    # biases of 0 started with a difference of 0.3 to 1.1.
                    self.assertAlmostEqual(first, entropy, delta=0.25)

    def test_init_writes_the_initial_weights_of_a_training(self):
        for program, tiny, data in ((UNET, UNET_TINY, self.images), (GPT, GPT_TINY, self.text)):
            with self.subTest(program=program.name):
                weights = self.folder / f"{program.name}.safetensors"
                same = ["--data", data, *tiny, "--seed", 5, "--threads", 1]
                done = run(program, "init", weights, *same)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, rf"^\d+ parameters in {weights}\n$")
                drawn, loaded = self.folder / f"{program.name}-drawn", self.folder / f"{program.name}-loaded"
                self.train(program, drawn, "--seed", 5, "--steps", 3)
                self.train(program, loaded, "--seed", 5, "--steps", 3, "--init-from", weights)
                self.assertEqual(metrics(drawn), metrics(loaded))

    def test_init_creates_no_run(self):
        for flags in (["--run", self.folder / "run"], ["--run", self.folder / "run", "--supervise"]):
            done = run(UNET, "init", self.folder / "w.safetensors", "--data", self.images, *UNET_TINY, *flags)
            self.assertEqual(done.returncode, 20, done.stderr)
            self.assertIn("init: wanted neither --run", done.stderr)
            self.assertFalse((self.folder / "w.safetensors").exists())


if __name__ == "__main__":
    unittest.main()
