"""A long run: a transformer in fp16 gets six different faults, a full disk and a kill, without a person's help.

It must finish with the validation loss of an undisturbed run, and its report must name every event.
"""
import json
import random
import re
import unittest

from programs import DOCTOR, GPT, ProgramTest, metrics, run

STEPS = 1200
WITHIN = 0.01  # maximum relative difference from the control's validation loss

# step of the incident: (faults, first bad module, class, remedy). The update at step 950 is finite but huge, so step 951 fails.
FAULTS = {
    150: (["nan-input@step=150,sample=3"], "tokens", "bad-input", "quarantine-sample"),
    300: (["scale-weight@step=300,path=blocks.0.mlp.down,factor=1e7,view=1"], "blocks.0.mlp.down", "activation-overflow", "promote-op"),
    451: (["nan-weight@step=450,path=blocks.1.attention.value,once=1"], "blocks.1.attention.value", "corrupted-state", "rollback"),
    600: (["mask-row@step=600,sample=5"], "blocks.0.attention", "fully-masked-row", "quarantine-sample"),
    800: (["constant-row@step=800,sample=2,path=blocks.0.norm1", "drop-eps@step=800,path=blocks.0.norm1"], "blocks.0.norm1", "normalisation-pole", "quarantine-sample"),
    951: (["lr@step=950,factor=1e6,once=1"], "blocks.0.attention", None, "rollback"),
}
DISK_FULL, KILLED = "enospc@step=375", "kill@step=701"


def markov_text(letters=60000, seed=11):
    """A random text in which one of four letters follows each letter. A model soon reaches its entropy, 1.137 nats per letter."""
    source, alphabet = random.Random(seed), "abcdefghijkl"
    followers = {letter: source.sample(alphabet, 4) for letter in alphabet}
    text = ["a"]
    while len(text) < letters:
        text += source.choices(followers[text[-1]], weights=(8, 4, 2, 1))
    return "".join(text)


class ADayInTheLife(ProgramTest):
    def test_a_run_survives_six_faults_a_full_disk_and_a_kill(self):
        data = self.folder / "text.txt"
        data.write_text(markov_text())
        shape = ["--layers", 2, "--heads", 2, "--dim", 32, "--context", 32, "--batch", 8, "--tokenizer", "char"]
        train = ["train", "--data", data, *shape, "--precision", "fp16", "--attention", "composed", "--steps", STEPS, "--warmup", 50, "--lr", 3e-3,
                 "--eval-every", 200, "--checkpoint-every", 25, "--threads", 1]
        control, day = self.folder / "control", self.folder / "day"
        self.assertEqual(run(GPT, *train, "--run", control).returncode, 0)
        planted = [fault for faults, *_ in FAULTS.values() for fault in faults] + [DISK_FULL, KILLED]
        first = run(GPT, *train, "--run", day, *[argument for fault in planted for argument in ("--inject", fault)])
        self.assertEqual(first.returncode, -9, first.stderr)
        second = run(GPT, "train", "--run", day, "--resume")
        self.assertEqual(second.returncode, 0, second.stderr)

        wanted, reached = [[line["val_loss"] for line in metrics(folder) if "val_loss" in line][-1] for folder in (control, day)]
        print(f"validation loss after {STEPS} steps: undisturbed {wanted:.5f}, after the day {reached:.5f}")
        self.assertLess(abs(reached / wanted - 1), WITHIN)
        self.check_incidents(day)
        self.check_story(day)

    def check_incidents(self, day):
        folders = sorted((day / "incidents").iterdir())
        self.assertEqual([int(folder.name) for folder in folders], sorted(FAULTS))
        for folder in folders:
            _, module, cause, remedy = FAULTS[int(folder.name)]
            report = json.loads((folder / "report.json").read_text())
            with self.subTest(step=folder.name):
                self.assertTrue(report["first_bad"]["module"].startswith(module), report["first_bad"])
                self.assertEqual(report["cause"]["class"], cause or report["cause"]["class"])
                self.assertEqual(report["remedy"]["action"], remedy)
                self.assertTrue(report["remedy"]["verified"])

    def check_story(self, day):
        done = run(DOCTOR, "report", day)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (day / "report.html").read_text(encoding="utf-8")
        for step, (faults, module, cause, remedy) in FAULTS.items():
            card = re.search(rf'<article id="incident-\d+"[^>]*><h3><span class="step">step {step}</span>.*?</article>', page, re.DOTALL)
            self.assertIsNotNone(card, f"the report has no card for step {step}")
            for word in filter(None, (module, cause, remedy)):
                self.assertIn(word, card.group(0))
            for fault in faults:
                self.assertTrue(fault in page, f"the report does not tell of {fault}")
        for sentence in ("No space left on device (ENOSPC)", "the process before this one ended without a word", f"finished after step {STEPS}"):
            self.assertTrue(sentence in page, f"the report does not say: {sentence}")
        resumed = re.search(r"resumed from ckpt-0*(\d+)\.h5 at step", page)  # the step varies: a slow disk may skip saves
        self.assertTrue(resumed and 400 < int(resumed.group(1)) <= 700, "the report does not say where the run was resumed")


if __name__ == "__main__":
    unittest.main(verbosity=2)
