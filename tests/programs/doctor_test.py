"""Commands of binade-doctor: their output, what they refuse, and the exit codes."""
import base64
import fcntl
import json
import os
import pathlib
import random
import struct
import unittest

from programs import DOCTOR, GPT, ProgramTest, checkpoints, run

GOLDEN = pathlib.Path(os.environ.get("BINADE_GOLDEN_DIR", "tests/golden/data"))


def fixture(folder, name):
    """Decodes a file of tests/golden/data from base64 text to the binary file that another program wrote."""
    path = folder / (name + ".safetensors")
    path.write_bytes(base64.b64decode((GOLDEN / (name + ".safetensors.b64")).read_text()))
    return path


def header(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return {k: (v["dtype"], v["shape"], data[8 + length + v["data_offsets"][0]:8 + length + v["data_offsets"][1]])
            for k, v in json.loads(data[8:8 + length]).items() if k != "__metadata__"}


class Doctor(ProgramTest):
    def doctor(self, *args, expect=0):
        done = run(DOCTOR, *args)
        self.assertEqual(done.returncode, expect, f"{args}\n{done.stdout}\n{done.stderr}")
        return done

    def refuse(self, code, *args, words=()):
        line = self.doctor(*args, expect=code).stderr.strip().splitlines()[-1]
        for word in words:
            self.assertIn(word, line)

    def imported(self, name, names):
        path = self.folder / (name + ".h5")
        self.doctor("import", fixture(self.shared, name), path, "--names", names)
        return path

    def test_env_names_libraries_and_device(self):
        out = self.doctor("env").stdout
        for word in ("build", "hdf5", "kernels", "threads", "device"):
            self.assertIn(word, out)

    def test_weights_are_exported_bit_for_bit(self):
        for name, names in (("gpt2_lm", "hf-gpt2"), ("gpt2_hub", "hf-gpt2"), ("unet_torch", "pytorch-unet")):
            checkpoint = self.imported(name, names)
            back = self.folder / (name + ".safetensors")
            self.doctor("export", checkpoint, back, "--names", names)
            theirs = {k.removeprefix("transformer."): v for k, v in header(fixture(self.shared, name)).items()
                      if not k.endswith(".attn.bias")}
            self.assertEqual(header(back), theirs)

    def test_a_model_file_of_a_run_has_the_model_and_nothing_of_training(self):
        run_folder, model = self.folder / "run", self.folder / "model.h5"
        self.train(GPT, run_folder, "--steps", 4, "--ema", "0.9")
        self.doctor("export", run_folder, model)
        self.assertLess(model.stat().st_size, checkpoints(run_folder)[-1].stat().st_size / 1.5)  # moments are left out
        self.doctor("verify", model)
        sampled = [run(GPT, "sample", "--checkpoint", path, "--tokens", 20) for path in (checkpoints(run_folder)[-1], model)]
        self.assertEqual([done.returncode for done in sampled], [0, 0], sampled[1].stderr)
        self.assertEqual(sampled[0].stdout, sampled[1].stdout)
        self.assertIn("optim/ema/average", self.doctor("inspect", "--all", model).stdout)
        self.refuse(20, "export", run_folder, model, "--names", "auto", words=["--names", ".safetensors"])

    def test_names_of_binade_need_no_map(self):
        checkpoint = self.imported("unet_torch", "pytorch-unet")
        self.doctor("export", checkpoint, self.folder / "w.safetensors")
        self.doctor("import", self.folder / "w.safetensors", self.folder / "again.h5")
        self.assertEqual(checkpoint.read_bytes(), (self.folder / "again.h5").read_bytes())

    def test_names_and_layouts_follow_from_ranks_or_from_a_file_of_rules(self):
        known = self.imported("unet_torch", "pytorch-unet")
        rules = self.folder / "rules.txt"
        rules.write_text("# every filter\n{*}.weight -> {*}.weight : filter\n")
        for names in ("auto", rules):
            checkpoint, back = self.folder / "other.h5", self.folder / "back.safetensors"
            self.doctor("import", fixture(self.shared, "unet_torch"), checkpoint, "--names", names)
            self.assertEqual(checkpoint.read_bytes(), known.read_bytes())
            self.doctor("export", checkpoint, back, "--names", names)
            self.assertEqual(header(back), header(fixture(self.shared, "unet_torch")))
        rules.write_text("head.weight -> output.weight\nhead.bias -> output.bias\n- -> extra\n")
        self.doctor("import", fixture(self.shared, "unet_torch"), self.folder / "other.h5", "--names", rules)
        self.assertIn("model/output.weight", self.doctor("diff", known, self.folder / "other.h5", expect=1).stdout)
        rules.write_text("head.weight -> head.weight : turn\n")
        self.refuse(20, "import", fixture(self.shared, "unet_torch"), self.folder / "x.h5", "--names", rules, words=["line 1", "turn"])
        rules.write_text("absent -> present\n")
        self.refuse(40, "import", fixture(self.shared, "unet_torch"), self.folder / "x.h5", "--names", rules, words=["missing: absent"])
        self.refuse(20, "import", fixture(self.shared, "unet_torch"), self.folder / "x.h5", "--names", "atuo", words=["atuo", "auto"])

    def test_vocabulary_is_padded_and_cut_back(self):
        self.doctor("import", fixture(self.shared, "gpt2_hub"), self.folder / "p.h5", "--names", "hf-gpt2", "--vocabulary", 128)
        self.assertIn("(128, 12)", self.doctor("inspect", "--all", self.folder / "p.h5").stdout)
        self.doctor("export", self.folder / "p.h5", self.folder / "p.safetensors", "--names", "hf-gpt2", "--vocabulary", 20)
        self.assertEqual(header(self.folder / "p.safetensors")["wte.weight"], header(fixture(self.shared, "gpt2_hub"))["wte.weight"])
        self.refuse(20, "import", fixture(self.shared, "gpt2_hub"), self.folder / "q.h5", "--names", "hf-gpt2", "--vocabulary", 3,
                    words=["20 rows"])
        self.refuse(20, "export", self.folder / "p.h5", self.folder / "p.safetensors", "--vocabulary", 20,
                    words=["--vocabulary", "hf-gpt2"])

    def test_hash_and_diff(self):
        a, b = self.imported("gpt2_lm", "hf-gpt2"), self.imported("gpt2_hub", "hf-gpt2")
        digits = self.doctor("hash", a).stdout.strip()
        self.assertRegex(digits, "^[0-9a-f]{64}$")
        self.assertNotEqual(digits, self.doctor("hash", b).stdout.strip())
        self.assertIn("to the bit", self.doctor("diff", a, a).stdout)
        self.assertIn("model/tokens.weight", self.doctor("diff", a, b, expect=1).stdout)

    def test_damage_at_any_offset_is_detected(self):
        path = self.imported("gpt2_hub", "hf-gpt2")
        whole = path.read_bytes()
        self.assertIn("whole", self.doctor("verify", path).stdout)
        source = random.Random(3)
        for _ in range(10):
            broken = bytearray(whole)
            broken[source.randrange(len(whole))] ^= 1 << source.randrange(8)
            path.write_bytes(broken)
            self.refuse(22, "verify", path, words=[str(path)])
            path.write_bytes(whole[:source.randrange(len(whole))])
            self.refuse(22, "verify", path, words=[str(path)])
            self.refuse(22, "inspect", path)

    def test_a_run_folder_is_verified_file_by_file(self):
        run_folder = self.folder / "run" / "checkpoints"
        run_folder.mkdir(parents=True)
        whole = self.imported("gpt2_hub", "hf-gpt2").read_bytes()
        for step in (5, 10):
            (run_folder / f"ckpt-{step:012}.h5").write_bytes(whole)
        self.assertEqual(self.doctor("verify", self.folder / "run").stdout.count("whole"), 2)
        (run_folder / "ckpt-000000000010.h5").write_bytes(whole[:-1])
        done = self.doctor("verify", self.folder / "run", expect=22)
        self.assertEqual((done.stdout.count("whole"), done.stdout.count("damaged")), (1, 1))
        self.assertIn("newest", self.doctor("inspect", self.folder / "run").stdout)
        self.assertEqual(len(list(run_folder.iterdir())), 2)  # verify changes no file

    def test_missing_and_foreign_files_are_refused(self):
        self.refuse(22, "verify", self.folder / "missing.h5", words=["missing.h5"])
        self.refuse(22, "inspect", self.folder)
        self.refuse(22, "hash", self.text, words=["not a Binade checkpoint"])
        self.refuse(40, "import", self.text, self.folder / "x.h5", words=["safetensors"])
        self.refuse(40, "import", fixture(self.shared, "unet_torch"), self.folder / "x.h5", "--names", "hf-gpt2", words=["missing"])
        self.refuse(24, "import", fixture(self.shared, "gpt2_hub"), self.folder / "no" / "x.h5", words=["No such file"])
        self.assertFalse((self.folder / "x.h5").exists())

    def test_a_fifo_is_written_to_and_not_replaced(self):
        checkpoint = self.imported("gpt2_hub", "hf-gpt2")
        self.doctor("export", checkpoint, self.folder / "w.safetensors")
        run_folder = self.folder / "run"
        (run_folder / "checkpoints").mkdir(parents=True)
        (run_folder / "checkpoints" / "ckpt-000000000005.h5").write_bytes(checkpoint.read_bytes())
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        end = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, end)
        fcntl.fcntl(end, getattr(fcntl, "F_SETPIPE_SZ", 1031), 1 << 20)  # the pipe can hold the whole file, so that the writer does not block
        for begins, args in ((self.folder / "w.safetensors", ["export", checkpoint, fifo]),
                             (checkpoint, ["import", fixture(self.shared, "gpt2_hub"), fifo, "--names", "hf-gpt2"]),
                             (b"<!DOCTYPE html>", ["report", run_folder, "--output", fifo])):
            with self.subTest(command=args[0]):
                wanted = begins if isinstance(begins, bytes) else begins.read_bytes()
                self.doctor(*args)
                self.assertTrue(fifo.is_fifo(), "the FIFO was replaced")
                self.assertEqual(os.read(end, 1 << 20)[:len(wanted)], wanted)
        os.mkfifo(self.folder / "alone")
        self.refuse(24, "export", checkpoint, self.folder / "alone", words=["start the reader first"])

    def test_too_many_tensors_for_a_checkpoint_are_not_imported(self):
        names = [f"t{i}" for i in range(70000)]
        head = json.dumps({n: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, n in enumerate(names)}).encode()
        many = self.folder / "many.safetensors"
        many.write_bytes(struct.pack("<Q", len(head)) + head + bytes(4 * len(names)))
        self.refuse(20, "import", many, self.folder / "x.h5", words=["at most 65536, got 70005"])
        self.assertFalse((self.folder / "x.h5").exists())

    def test_a_checkpoint_named_with_another_step(self):
        path = self.folder / "ckpt-000000000100.h5"
        path.write_bytes(self.imported("gpt2_hub", "hf-gpt2").read_bytes())
        self.assertIn("whole", self.doctor("verify", path).stdout)  # a file of weights only has no step

    def test_errors_suggest_the_nearest_word(self):
        self.refuse(20, "verfy", "x", words=["verfy", "verify"])
        self.refuse(20, "inspect", "x", "--al", words=["--al", "--all"])
        self.refuse(20, "export", "a", "b", "--names", "keras", words=["--names", "hf-gpt2"])
        self.refuse(20, "verify", words=["path"])
        self.refuse(20)
        self.assertIn("SUBCOMMAND", self.doctor("--help").stdout)


if __name__ == "__main__":
    unittest.main()
