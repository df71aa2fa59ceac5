"""Checkpoints and capsules from an attacker, with valid checksums: they are refused with a message, and no program that they name is run."""
import json
import os
import shutil
import struct
import subprocess
import unittest

from programs import BUILD, DOCTOR, GPT, GPT_TINY, UNET, ProgramTest, checkpoints, run

FORGE = BUILD / "tests/programs/forge_checkpoint"
PATIENCE = 60  # time limit in seconds for commands that take about one


def forge(source, target, *entries):
    done = run(FORGE, source, target, *entries)
    assert done.returncode == 0, done.stderr
    return target


class ForgedCapsules(ProgramTest):
    """A capsule names the program that wrote it. `binade-doctor replay` runs only programs of Binade."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.shared / "drill"
        cls().train(GPT, cls.run_folder, "--steps", 3, "--inject", "nan-input@step=2,sample=1", "--on-nan", "stop", expect=30)
        cls.capsule = cls.run_folder / "incidents/000000000002/capsule.h5"

    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        shutil.copy(DOCTOR, self.bin)
        self.witness = self.folder / "witness"

    def plant(self, path, mode=0o755):
        path.write_text(f"#!/bin/sh\necho \"$@\" > {self.witness}\n")
        path.chmod(mode)

    def replay(self, name, **kwargs):
        config = json.dumps({"program": name})
        capsule = forge(self.capsule, self.folder / "capsule.h5", "capsule/config", "text", config)
        return run(self.bin / "binade-doctor", "replay", capsule, env={"LD_LIBRARY_PATH": str(BUILD), **kwargs.pop("env", {})},
                   timeout=PATIENCE, **kwargs)

    def refused(self, name, *words, **kwargs):
        done = self.replay(name, **kwargs)
        self.assertEqual(done.returncode, 20, done.stderr)
        self.assertFalse(self.witness.exists(), f"{name} was run")
        for word in words:
            self.assertIn(word, done.stderr)

    def test_an_unknown_program_is_not_run(self):
        self.plant(self.bin / "planted")
        for name in ("planted", "./planted", str(self.bin / "planted"), "../bin/planted", "", "/bin/sh"):
            with self.subTest(name=name):
                self.refused(name, "wanted one of binade-gpt, binade-unet", "--program")

    def test_the_doctor_does_not_run_itself(self):
        self.refused("binade-doctor", "binade-doctor")

    def test_neither_the_working_folder_nor_the_path_is_searched(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        self.plant(elsewhere / "binade-gpt")
        self.refused("binade-gpt", "no binade-gpt beside", cwd=elsewhere, env={"PATH": f"{elsewhere}:{os.environ['PATH']}"})

    def test_a_program_that_other_users_may_write_is_not_run(self):
        self.plant(self.bin / "binade-gpt", mode=0o777)
        self.refused("binade-gpt", "every user may write")

    def test_a_known_program_beside_the_doctor_is_run(self):
        self.plant(self.bin / "binade-gpt")
        done = self.replay("binade-gpt")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.witness.read_text().split()[0], "replay")

    def test_counts_and_positions_beyond_the_capsule(self):
        integers = (("capsule/micro_batches", 0), ("capsule/micro_batches", -1), ("capsule/micro_batches", 2**40),
                    ("capsule/attempt", -2**63), ("batch/0/begin", -1), ("batch/0/epoch", -2**63))
        lists = (("capsule/parts", "5"), ("capsule/parts", "-1"), ("capsule/parts", ""), ("capsule/rows_left_out", "-1"),
                 ("capsule/rows_left_out", "1000"), ("capsule/rows_left_out", "2,1"), ("batch/0/samples", "1"), ("batch/0/slots", "1,2"),
                 ("batch/0/samples", "-1,1,2,3"))
        for kind, entry, value in [("integer", *case) for case in integers] + [("integers", *case) for case in lists]:
            with self.subTest(entry=entry, value=value):
                capsule = forge(self.capsule, self.folder / "capsule.h5", entry, kind, value)
                done = run(GPT, "replay", capsule, timeout=PATIENCE)
                self.assertEqual(done.returncode, 21, done.stderr)

    def test_the_program_in_the_build_folder_is_run(self):
        done = run(DOCTOR, "replay", self.capsule)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout.splitlines()[-1])["same_bits"])


class ForgedModels(ProgramTest):
    """A checkpoint describes its model and counts its steps. Both are checked against the weights before they are used."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.good = {}
        for program in (GPT, UNET):
            folder = cls.shared / program.name
            cls().train(program, folder, "--steps", 2, "--ema", 0.9, "--val-fraction", 0.1)
            cls.good[program] = checkpoints(folder)[-1]
        cls.architecture = {program: json.loads(run(FORGE, cls.good[program], "-", "progress/architecture", "show", "").stdout)
                            for program in (GPT, UNET)}

    def users_of(self, program):
        """The commands that build a model from a checkpoint, without its path."""
        if program == GPT:
            return ["eval", "--data", self.text], ["sample", "--tokens", 2]
        return ["eval", "--data", self.images], ["predict", "--input", self.images / "images/00.png", "--output", self.folder / "mask.png"]

    def refused(self, program, entries, *words, code=21):
        forged = forge(self.good[program], self.folder / "forged.h5", *entries)
        for command in self.users_of(program):
            done = run(program, *command, "--checkpoint", forged, "--threads", 1, timeout=PATIENCE)
            self.assertEqual(done.returncode, code, f"{command[0]} {entries}\n{done.stdout}\n{done.stderr}")
            for word in words:
                self.assertIn(word, done.stderr.strip().splitlines()[-1])

    def test_valid_checkpoints_are_accepted(self):
        for program in (GPT, UNET):
            for command in self.users_of(program):
                done = run(program, *command, "--checkpoint", forge(self.good[program], self.folder / "same.h5"), "--threads", 1)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_field_out_of_range_or_of_another_kind(self):
        values = (-1, 0, 2**31, 2**40, 2**63, -2**63, 10**30, 1.5, "4", None, [1], True)
        fields = {GPT: ("layers", "heads", "dim", "context", "vocabulary", "table"), UNET: ("in", "classes", "base", "depth")}
        for program, names in fields.items():
            for i, name in enumerate(names):
                for value in values if i == 0 else values[:4]:
                    with self.subTest(program=program.name, field=name, value=value):
                        text = json.dumps({**self.architecture[program], name: value})
                        self.refused(program, ["progress/architecture", "text", text], f"'{name}'")

    def test_a_field_that_does_not_fit_the_weights(self):
        for program, changes in ((GPT, ({"vocabulary": 100}, {"vocabulary": 100, "table": 100}, {"vocabulary": 20, "table": 20},
                                        {"layers": 1}, {"layers": 3}, {"heads": 3}, {"dim": 32}, {"context": 32}, {"bias": False})),
                                 (UNET, ({"in": 3}, {"in": 2}, {"classes": 2}, {"base": 8}, {"depth": 1}, {"depth": 3}))):
            for change in changes:
                with self.subTest(program=program.name, change=change):
                    text = json.dumps({**self.architecture[program], **change})
                    self.refused(program, ["progress/architecture", "text", text], "checkpoint: ")

    def test_another_model_or_a_model_that_is_no_text(self):
        for program in (GPT, UNET):
            for model in ("resnet", 5, None, ["gpt"], {}):
                with self.subTest(program=program.name, model=model):
                    text = json.dumps({**self.architecture[program], "model": model})
                    self.refused(program, ["progress/architecture", "text", text], "wanted a model")
            for text in ("", "[]", "{}", "nothing", "{\"model\":\"" + program.name[7:] + "\"} x", "[" * 5000):
                with self.subTest(program=program.name, text=text[:40]):
                    self.refused(program, ["progress/architecture", "text", text], "checkpoint: ")

    def test_an_unknown_loss_or_precision(self):
        forged = forge(self.good[UNET], self.folder / "forged.h5", "progress/loss", "text", "mse")
        done = run(UNET, "eval", "--data", self.images, "--checkpoint", forged)
        self.assertEqual(done.returncode, 21, done.stderr)
        self.assertIn("'mse'", done.stderr)
        for program in (GPT, UNET):
            self.refused(program, ["amp/policy", "text", "fp12"], "fp12")

    def test_a_vocabulary_that_differs_from_the_tokenizer(self):
        self.refused(GPT, ["progress/tokenizer/kind", "text", "byte"], "'vocabulary' of 256")

    def test_negative_and_too_large_counts(self):
        for program in (GPT, UNET):
            folder = self.shared / program.name
            counts = ["optim/ema/updates", "optim/updates", "rng/step", "progress/skipped_total", "progress/metrics_bytes",
                      "amp/scaler/commits", "data/position"]
            for name in counts if program == GPT else counts[:2]:
                for value in (-2**63, -1, 2**63 - 1):
                    with self.subTest(program=program.name, entry=name, value=value):
                        copy = self.folder / "run"
                        shutil.copytree(folder, copy)
                        for checkpoint in checkpoints(copy):
                            checkpoint.unlink()
                        (copy / "checkpoints/MANIFEST").unlink()
                        forge(self.good[program], copy / "checkpoints/ckpt-000000000002.h5", name, "integer", value)
                        done = run(program, "train", "--run", copy, "--resume", "--steps", 3, timeout=PATIENCE)
                        self.assertEqual(done.returncode, 21, done.stderr)
                        self.assertIn(name.split("/")[-1], done.stderr.strip().splitlines()[-1])
                        shutil.rmtree(copy)


class Terminal(ProgramTest):
    """Names from files are shown escaped; none of their bytes controls the terminal."""

    EVIL = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202e"

    def plain(self, done, code, spelled="\\u001b"):
        self.assertEqual(done.returncode, code, done.stderr)
        for out in (done.stdout, done.stderr):
            for character in "\x1b\x07\u009b\u202e":
                self.assertNotIn(character, out)
        self.assertIn(spelled, done.stdout + done.stderr)

    def test_names_from_a_checkpoint(self):
        self.train(GPT, self.folder / "r", "--steps", 1)
        good = checkpoints(self.folder / "r")[-1]
        forged = forge(good, self.folder / "f.h5", "model/\u202ename", "text", self.EVIL)
        self.plain(run(DOCTOR, "inspect", "--all", forged), 0)
        self.plain(run(DOCTOR, "diff", good, forged), 1, "\\u202e")
        for entry in ("progress/architecture", "amp/policy", "progress/tokenizer/kind"):
            with self.subTest(entry=entry):
                text = json.dumps({"model": self.EVIL}, ensure_ascii=False) if "architecture" in entry else self.EVIL
                forge(good, forged, entry, "text", text)
                done = run(GPT, "eval", "--data", self.text, "--checkpoint", forged)
                self.plain(done, done.returncode)
                self.assertIn(done.returncode, (20, 21))

    def test_names_from_settings_and_weights(self):
        config = self.folder / "c.json"
        config.write_text(json.dumps({self.EVIL: 1}))
        self.plain(run(GPT, "train", "--data", self.text, "--config", config, "--run", self.folder / "r"), 20)
        weights = self.folder / "w.safetensors"
        header = json.dumps({self.EVIL: {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}).encode()
        weights.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
        self.plain(run(DOCTOR, "import", weights, self.folder / "w.h5"), 40)

    def test_closed_descriptors_do_not_become_the_run_s_files(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                folder = self.folder / "r"
                command = [str(GPT), "train", "--data", str(self.text), "--run", str(folder), *map(str, GPT_TINY), "--steps", "3",
                           "--device", "auto", "--log-every", "1", "--threads", "1"]
                done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command], timeout=PATIENCE, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 0)
                for name in ("metrics.jsonl", "timing.jsonl", "events.jsonl", "headroom.jsonl"):
                    for line in (folder / name).read_text().splitlines():
                        self.assertIn("step", json.loads(line), name)
                verified = run(DOCTOR, "verify", folder)
                self.assertEqual(verified.returncode, 0, verified.stderr)
                shutil.rmtree(folder)


if __name__ == "__main__":
    unittest.main(verbosity=2)
