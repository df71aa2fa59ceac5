"""After bad input, a program prints one line about the problem, has the right exit code, and changes no existing file."""
import json
import os
import random
import shutil
import struct
import unittest

from programs import DOCTOR, GPT, GPT_TINY, UNET, UNET_TINY, ProgramTest, checkpoints, metrics, png, run


# A tokenizer.json of Hugging Face with the bytes of the test's text, in the format of GPT-2.
TOKENIZER = json.dumps({"model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(
    [chr(c) for c in range(0x21, 0x7F)] + [chr(0x100 + c) for c in range(0x21)])}, "merges": []},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}}).encode()


class BadInput(ProgramTest):
    def refuse(self, program, args, code, *words, env=None):
        done = run(program, *args, env=env)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        lines = done.stderr.strip().splitlines()
        self.assertTrue(lines, "nothing was said")
        for word in words:
            self.assertIn(word, lines[-1])
        self.assertNotIn("Traceback", done.stderr)
        return lines

    def gpt(self, code, *args, words=()):
        return self.refuse(GPT, ["train", "--run", self.folder / "run", "--steps", 2, *GPT_TINY, *args], code, *words)

    def unet(self, code, data, words=()):
        return self.refuse(UNET, ["train", "--run", self.folder / "run", "--steps", 2, *UNET_TINY, "--data", data], code, *words)

    # ---- text

    def test_missing_text(self):
        self.gpt(40, "--data", self.folder / "nothing.txt", words=["nothing.txt"])

    def test_empty_text(self):
        (self.folder / "empty.txt").write_text("")
        self.gpt(40, "--data", self.folder / "empty.txt", words=["empty.txt"])

    def test_binary_text(self):
        (self.folder / "binary.txt").write_bytes(bytes(range(256)) * 20)
        self.gpt(40, "--data", self.folder / "binary.txt", words=["binary.txt"])

    def test_text_that_is_not_utf8_for_the_char_tokenizer(self):
        (self.folder / "latin.txt").write_bytes("caf\xe9 ".encode("latin-1") * 200)
        self.gpt(40, "--data", self.folder / "latin.txt", words=["latin.txt", "offset 3"])
        (self.folder / "held.txt").write_text("\u00e9" * 200)
        self.gpt(40, "--data", self.text, "--val-data", self.folder / "held.txt", words=["held.txt", "U+00E9"])

    def test_text_shorter_than_the_context(self):
        (self.folder / "short.txt").write_text("hello")
        self.gpt(40, "--data", self.folder / "short.txt")

    def test_prompt_with_a_token_outside_the_vocabulary(self):
        self.train(GPT, self.folder / "r", "--steps", 1)
        self.refuse(GPT, ["sample", "--run", self.folder / "r", "--prompt", "\u00e9", "--tokens", 3], 20)

    # ---- images

    def copy_images(self):
        folder = self.folder / "data"
        shutil.copytree(self.images, folder)
        return folder

    def test_image_without_mask(self):
        data = self.copy_images()
        (data / "masks/03.png").unlink()
        self.unet(40, data, ["03"])

    def test_mask_of_another_size(self):
        data = self.copy_images()
        png(data / "masks/03.png", 23, 24, lambda x, y: 0)
        self.unet(40, data, ["03"])

    def test_corrupt_png(self):
        data = self.copy_images()
        body = bytearray((data / "images/02.png").read_bytes())
        for i in range(60, 90):
            body[i] ^= 0x55
        (data / "images/02.png").write_bytes(body)
        self.unet(40, data, ["02"])

    def test_truncated_png(self):
        data = self.copy_images()
        body = (data / "images/02.png").read_bytes()
        (data / "images/02.png").write_bytes(body[: len(body) // 2])
        self.unet(40, data, ["02"])

    def test_a_one_pixel_image_works(self):
        data = self.copy_images()
        for kind in ("images", "masks"):
            png(data / kind / "00.png", 1, 1, lambda x, y: 200)
        self.train(UNET, self.folder / "r", "--steps", 2)
        done = run(UNET, "train", "--run", self.folder / "one", "--steps", 2, *UNET_TINY, "--data", data)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_damaged_hdf5_images(self):
        (self.folder / "data.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(500))
        self.unet(40, self.folder / "data.h5", ["data.h5"])

    def test_distortion_without_augmentation(self):
        self.refuse(UNET, ["train", "--run", self.folder / "r", *UNET_TINY, "--data", self.images, "--augment", "off", "--rotate", 9], 20,
                    "--augment")

    def test_missing_image_folder(self):
        self.unet(40, self.folder / "nowhere", ["nowhere"])

    def test_an_image_too_large_to_be_written(self):
        self.train(UNET, self.folder / "r", "--steps", 1)
        for width, height in ((1, 2**20), (2**20, 1)):
            with self.subTest(width=width, height=height):
                path = self.folder / f"{width}.png"
                png(path, width, height, lambda x, y: 0)
                self.refuse(UNET, ["predict", "--run", self.folder / "r", "--input", path, "--output", self.folder / "mask.png"], 40,
                            path.name, "a side")

    def test_a_folder_of_images_that_cannot_be_listed(self):
        self.train(UNET, self.folder / "r", "--steps", 1)
        command = ["predict", "--run", self.folder / "r", "--output", self.folder / "masks", "--input"]
        (self.folder / "empty").mkdir()
        self.refuse(UNET, [*command, self.folder / "empty"], 40, "no .png files")
        strange = os.fsencode(self.folder) + b"/caf\xe9"
        shutil.copytree(os.fsencode(self.images), strange)
        os.rename(strange + b"/images/00.png", strange + b"/images/\xff.png")
        done = run(UNET, *command, os.fsdecode(strange))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("\\xff.png", done.stdout)

    # ---- flags

    def test_a_path_that_is_not_utf8(self):
        strange = os.fsdecode(os.fsencode(self.folder) + b"/caf\xe9")
        for program, tiny, data in ((GPT, GPT_TINY, self.text), (UNET, UNET_TINY, self.images)):
            common = ["train", "--steps", 1, *tiny]
            self.refuse(program, [*common, "--run", strange, "--data", data], 20, "--run", "UTF-8", "caf\\xe9")
            self.assertFalse(os.path.exists(strange))
            self.refuse(program, [*common, "--run", self.folder / "r", "--data", data, "--override", "\udce9=fp32"], 20)
        os.symlink(self.text, strange)
        self.refuse(GPT, ["train", "--steps", 1, *GPT_TINY, "--run", self.folder / "r", "--data", strange], 20, "--data", "UTF-8")

    def test_batch_zero(self):
        self.gpt(20, "--data", self.text, "--batch", "0", words=["--batch"])

    def test_the_error_for_an_unknown_flag_names_the_nearest(self):
        self.gpt(20, "--data", self.text, "--leraning-rate", "1", words=["--leraning-rate"])
        self.gpt(20, "--data", self.text, "--wieght-decay", "1", words=["--wieght-decay", "--weight-decay"])

    def test_a_flag_without_value_and_a_program_without_command(self):
        self.gpt(20, "--data", self.text, "--steps", words=["binade-gpt train", "--steps wants a value"])
        self.refuse(GPT, [], 20, "wanted one of train, preflight, init, eval, modules, bench, replay, sample")

    def test_the_error_for_an_unknown_value_names_the_nearest(self):
        self.gpt(20, "--data", self.text, "--optimizer", "adamv", words=["--optimizer", "adamv", "adamw"])

    def test_values_out_of_range(self):
        for flag, value in (("--steps", "0"), ("--lr", "nan"), ("--beta1", "1"), ("--val-fraction", "2"), ("--heads", "3"),
                            ("--layers", "0"), ("--dropout", "1.5"), ("--threads", "-1"), ("--steps", "12x")):
            with self.subTest(flag=flag, value=value):
                self.gpt(20, "--data", self.text, flag, value)

    def test_an_empty_value_is_refused(self):
        """If a script forgets to set TEXT, `--data "$TEXT"` must not train on the embedded text."""
        for args in (["train", "--data", ""], ["train", "--run", ""], ["train", "--init-from", ""], ["train", "--config", ""],
                     ["eval", "--run", ""], ["sample", "--checkpoint", ""], ["sample", "--prompt", ""]):
            with self.subTest(args=args):
                lines = self.refuse(GPT, [*args, "--threads", 1], 20, args[1], "empty")
                self.assertEqual(len(lines), 1, lines)
        self.refuse(DOCTOR, ["inspect", ""], 20, "empty")
        self.refuse(UNET, ["predict", "--run", self.folder, "--input", self.images, "--output", ""], 20, "--output", "empty")

    def test_a_plateau_without_evaluations(self):
        self.gpt(20, "--data", self.text, "--schedule", "plateau", words=["--schedule", "--eval-every"])
        self.assertFalse((self.folder / "run").exists())
        self.train(GPT, self.folder / "r", "--steps", 2, "--schedule", "plateau", "--eval-every", 1)

    def test_a_loss_that_does_not_fit_the_masks(self):
        tiny = ["train", "--run", self.folder / "run", "--steps", 1, *UNET_TINY, "--data", self.images]
        self.refuse(UNET, [*tiny, "--classes", 3, "--loss", "bce+dice"], 20, "--loss", "ce", "--classes 3")
        self.refuse(UNET, [*tiny, "--classes", 1, "--loss", "ce"], 20, "--loss", "--classes 1")
        data = self.copy_images()
        for mask in (data / "masks").iterdir():
            png(mask, 24, 24, lambda x, y: (x + y) % 3)
        self.train(UNET, self.folder / "several", "--steps", 1, "--classes", 3, "--data", data)
        self.assertEqual(json.loads((self.folder / "several/config.json").read_text())["loss"], "ce")
        self.train(UNET, self.folder / "one", "--steps", 1)
        self.assertEqual(json.loads((self.folder / "one/config.json").read_text())["loss"], "bce+dice")

    def test_an_explicit_loss_scale_is_used(self):
        """In bf16 the default is no loss scale; an explicit one applies in every precision."""
        def scales(name, *args):
            self.train(GPT, self.folder / name, "--steps", 2, "--precision", "bf16", *args)
            return {line["loss_scale"] for line in metrics(self.folder / name) if "loss_scale" in line}

        self.assertEqual(scales("none"), {1})
        self.assertEqual(scales("dynamic", "--loss-scale", "dynamic"), {65536})
        self.assertEqual(scales("smaller", "--loss-scale", "dynamic", "--init-scale", 1024), {1024})
        for args in (["--precision", "bf16"], ["--precision", "fp16", "--loss-scale", "8"], ["--precision", "fp16", "--loss-scale", "off"]):
            with self.subTest(args=args):
                self.gpt(20, "--data", self.text, "--init-scale", "1024", *args, words=["--init-scale", "--loss-scale dynamic"])

    def test_override_that_matches_nothing(self):
        self.gpt(20, "--data", self.text, "--override", "nowhere.*=fp32", words=["nowhere.*"])

    def test_an_unknown_value_of_on_nan(self):
        self.gpt(20, "--data", self.text, "--on-nan", "ladde", words=["--on-nan", "ladde", "ladder"])

    def test_a_missing_capsule(self):
        for program in (GPT, UNET, DOCTOR):
            with self.subTest(program=program.name):
                self.refuse(program, ["replay", self.folder / "none.h5"], 22, "none.h5")

    def test_unwritable_run_folder(self):
        file = self.folder / "file"
        file.write_text("not a folder")
        self.refuse(GPT, ["train", "--data", self.text, "--run", file / "run", "--steps", 2, *GPT_TINY], 24)

    def test_missing_device(self):
        self.refuse(GPT, ["train", "--run", self.folder / "run", *GPT_TINY, "--data", self.text, "--device", "cuda"], 20, "cuda",
                    env={"CUDA_VISIBLE_DEVICES": ""})  # hides the GPUs of the machine

    # ---- runs and checkpoints

    def test_a_folder_with_a_run_is_not_changed(self):
        self.train(GPT, self.folder / "r", "--steps", 1)
        before = sorted((p.name, p.read_bytes()) for p in (self.folder / "r").rglob("*") if p.is_file())
        self.refuse(GPT, ["train", "--data", self.text, "--run", self.folder / "r", "--steps", 2, *GPT_TINY], 20, "--resume")
        self.assertEqual(sorted((p.name, p.read_bytes()) for p in (self.folder / "r").rglob("*") if p.is_file()), before)

    def test_resume_in_an_empty_or_missing_folder(self):
        (self.folder / "empty").mkdir()
        self.refuse(GPT, ["train", "--run", self.folder / "empty", "--resume"], 22)
        self.refuse(GPT, ["train", "--run", self.folder / "missing", "--resume"], 22)

    def test_resume_with_other_settings(self):
        self.train(GPT, self.folder / "r", "--steps", 2, "--precision", "fp32")
        for args, code in ((["--dim", 32], 21), (["--layers", 3], 21), (["--optimizer", "sgd"], 21), (["--seed", 9], 20),
                           (["--val-fraction", 0.2], 20), (["--init-scale", 8, "--loss-scale", "auto"], 20)):
            with self.subTest(args=args):
                self.refuse(GPT, ["train", "--run", self.folder / "r", "--resume", "--steps", 4, *args], code, args[0])

    def test_resume_with_other_data(self):
        self.train(GPT, self.folder / "r", "--steps", 2)
        other = self.folder / "other.txt"
        other.write_text(self.text.read_text().replace("fox", "cat"))
        self.refuse(GPT, ["train", "--run", self.folder / "r", "--resume", "--steps", 4, "--data", other], 40)

    def test_resume_with_the_same_data_elsewhere(self):
        self.train(GPT, self.folder / "r", "--steps", 2)
        moved = self.folder / "moved.txt"
        moved.write_bytes(self.text.read_bytes())
        done = run(GPT, "train", "--run", self.folder / "r", "--resume", "--steps", 4, "--data", moved)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_checkpoint_truncated_at_any_length(self):
        """If the newest checkpoint is damaged, a resume uses the previous one. If there is none, it exits with 22."""
        self.train(GPT, self.folder / "r", "--steps", 4, "--checkpoint-every", 2)
        older, newest = checkpoints(self.folder / "r")[-2:]
        body = newest.read_bytes()
        source = random.Random(7)
        for length in [0, 1, len(body) - 1] + [source.randrange(len(body)) for _ in range(97)]:
            newest.write_bytes(body[:length])
            done = run(DOCTOR, "verify", newest)
            self.assertEqual(done.returncode, 22, f"length {length}: {done.stderr}")
        done = run(GPT, "train", "--run", self.folder / "r", "--resume", "--steps", 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([m["step"] for m in metrics(self.folder / "r") if m.get("committed")], [1, 2, 3, 4, 5])
        for path in checkpoints(self.folder / "r"):
            path.write_bytes(path.read_bytes()[:1000])
        self.refuse(GPT, ["train", "--run", self.folder / "r", "--resume", "--steps", 6], 22)

    def test_the_last_of_a_repeated_flag_counts(self):
        """`./dev train --steps 600` appends the user's flags to its own."""
        self.train(GPT, self.folder / "r", "--steps", 4, "--lr", 1e-2, "--steps", 2, "--lr", 1e-3)
        self.assertEqual([m["step"] for m in metrics(self.folder / "r") if m.get("committed")], [1, 2])

    def test_config_file_with_an_unknown_key(self):
        config = self.folder / "c.json"
        config.write_text(json.dumps({"learning_rat": 1}))
        self.gpt(20, "--data", self.text, "--config", config, words=["learning_rat"])

    # ---- JSON

    def test_bytes_after_a_json_text_are_refused(self):
        """Text after a zero byte is refused too; a parser of C strings would stop there."""
        for tail in (b"\0", b"\0{}", b"x"):
            with self.subTest(tail=tail):
                config = self.folder / "c.json"
                config.write_bytes(b'{"batch": 4}' + tail)
                self.gpt(20, "--data", self.text, "--config", config, words=["c.json", "JSON"])
                tokenizer = self.folder / "t.json"
                tokenizer.write_bytes(TOKENIZER + tail)
                self.gpt(40, "--data", self.text, "--tokenizer", f"bpe:{tokenizer}", words=["t.json", "JSON"])
                weights = self.folder / "w.safetensors"
                header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' + tail
                weights.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
                self.refuse(DOCTOR, ["import", weights, self.folder / "w.h5"], 40, "w.safetensors", "JSON")

    def test_a_repeated_setting_in_a_file(self):
        config = self.folder / "c.json"
        config.write_text('{"batch": 4, "batch": 8}')
        self.gpt(20, "--data", self.text, "--config", config, words=["c.json", '"batch" twice'])


if __name__ == "__main__":
    unittest.main(verbosity=2)
