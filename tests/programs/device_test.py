"""Training on a device, compared with the CPU: losses are equal, checkpoints can be resumed on both, errors are reported.

The device is the emulated one (tests/cuda/simt), or a GPU if BINADE_TEST_DEVICE names one.
"""
import os
import shutil
import subprocess
import unittest

from programs import BUILD, DOCTOR, GPT, GPT_TINY, UNET, UNET_TINY, ProgramTest, checkpoints, metrics, run

MODULES = BUILD / "cuda" if (BUILD / "bin").is_dir() else BUILD / "tests/cuda"
LIBRARIES = list((BUILD / "lib" if (BUILD / "bin").is_dir() else BUILD).glob("libbinade*.so*[0-9]"))
EMULATED = {"BINADE_CUDA_MODULE": str(MODULES / "libbinade_simt.so")}  # the only device that can fail on demand
# If the environment names a module or BINADE_TEST_DEVICE, that device is used.
IS_NAMED = "BINADE_CUDA_MODULE" in os.environ or "BINADE_TEST_DEVICE" in os.environ
ON_DEVICE = {} if IS_NAMED else EMULATED
STEPS = 6
COMMON = ["--eval-every", STEPS, "--lr", "0.003", "--log-every", 1, "--seed", 3, "--clip", "1"]
# Another device sums in another order: fp32 results differ in their last bits, and 16-bit results may round the other way.
TOLERANCE = {"fp32": 2e-4, "bf16": 2e-2, "fp16": 4e-3}


class OnADevice(ProgramTest):
    def losses(self, folder):
        return [m["loss"] for m in metrics(folder) if m.get("committed")]

    def train_on(self, program, device, folder, *flags, steps=STEPS):
        return self.train(program, folder, "--device", device, "--steps", steps, "--checkpoint-every", 3, *COMMON, *flags, env=ON_DEVICE)

    def agree(self, program, precision):
        here, there = self.folder / "cpu", self.folder / "cuda"
        self.train_on(program, "cpu", here, "--precision", precision)
        self.train_on(program, "cuda", there, "--precision", precision)
        losses = list(zip(self.losses(here), self.losses(there)))
        self.assertEqual(len(losses), STEPS)
        for step, (cpu, cuda) in enumerate(losses, 1):
            self.assertAlmostEqual(cpu, cuda, delta=TOLERANCE[precision] * max(1, abs(cpu)), msg=f"step {step} of {losses}")

    def test_gpt_fp32(self):
        self.agree(GPT, "fp32")

    def test_gpt_fp16(self):
        self.agree(GPT, "fp16")

    def test_unet_bf16(self):
        self.agree(UNET, "bf16")

    def test_a_run_on_the_device_repeats_bit_for_bit_and_resumes(self):
        whole, cut = self.folder / "whole", self.folder / "cut"
        self.train_on(GPT, "cuda", whole, "--precision", "fp16", "--dropout", "0.1")
        self.train_on(GPT, "cuda", cut, "--precision", "fp16", "--dropout", "0.1", steps=3)
        resumed = run(GPT, "train", "--run", cut, "--resume", "--steps", STEPS, "--device", "cuda", env=ON_DEVICE)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(self.losses(whole), self.losses(cut))
        same = run(DOCTOR, "hash", checkpoints(whole)[-1]), run(DOCTOR, "hash", checkpoints(cut)[-1])
        self.assertEqual(same[0].returncode, 0, same[0].stderr)
        self.assertEqual(same[0].stdout.split()[0], same[1].stdout.split()[0])

    def test_a_checkpoint_resumes_on_the_other_device(self):
        for first, second in (("cuda", "cpu"), ("cpu", "cuda")):
            folder = self.folder / first
            self.train_on(UNET, first, folder, "--precision", "bf16", steps=3)
            resumed = run(UNET, "train", "--run", folder, "--resume", "--steps", STEPS, "--device", second, env=ON_DEVICE)
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            self.assertEqual(len(self.losses(folder)), STEPS)

    def test_an_incident_is_diagnosed_on_the_device(self):
        ended = self.train_on(GPT, "cuda", self.folder / "run", "--precision", "fp16", "--inject",
                              "scale-weight@step=3,path=blocks.0.mlp.up,factor=1e6,view=1")
        self.assertIn("activation-overflow (proven)", ended.stderr)
        self.assertIn("'linear' in blocks.0.mlp.up", ended.stderr)
        self.assertEqual(len(self.losses(self.folder / "run")), STEPS)

    def test_too_little_memory_is_exit_50(self):
        env = dict(EMULATED, BINADE_SIMT_MEMORY="1")
        ended = run(GPT, "train", "--data", self.text, "--run", self.folder / "run", "--layers", 2, "--heads", 2, "--dim", 64, "--context", 64,
                    "--batch", 64, "--tokenizer", "char", "--device", "cuda", "--steps", 2, env=env)
        self.assertEqual(ended.returncode, 50, ended.stderr)
        self.assertIn("no memory for", ended.stderr)

    def test_a_lost_device_is_exit_51_and_commits_remain(self):
        folder = self.folder / "run"
        env = dict(EMULATED, BINADE_SIMT_FAIL="4000")
        ended = run(GPT, "train", "--data", self.text, "--run", folder, *GPT_TINY, "--device", "cuda", *COMMON, "--steps", 60,
                    "--checkpoint-every", 1, env=env)
        self.assertEqual(ended.returncode, 51, ended.stderr)
        self.assertIn("illegal", ended.stderr)
        self.assertTrue(checkpoints(folder))
        verified = run(DOCTOR, "verify", folder)
        self.assertEqual(verified.returncode, 0, verified.stderr)


class WithoutADevice(ProgramTest):
    def test_only_the_module_links_a_cuda_library(self):
        for program in (GPT, UNET, DOCTOR):
            needed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
            self.assertIn("libc.so", needed)
            for library in ("libcuda", "libcublas", "libcudnn", "libnvrtc"):
                self.assertNotIn(library, needed, program.name)

    def refused(self, module):
        ended = run(GPT, "train", "--data", self.text, "--run", self.folder / "run", *GPT_TINY, "--device", "cuda", "--steps", 1,
                    env={"BINADE_CUDA_MODULE": str(module)})
        self.assertEqual(ended.returncode, 20, ended.stderr)
        return ended.stderr

    def test_a_missing_module(self):
        self.assertIn("could not be opened", self.refused(self.folder / "no.so"))

    def test_a_module_of_another_version(self):
        for name in ("one_op_less", "one_op_more"):  # modules with another list of ops
            with self.subTest(name):
                self.assertIn("another version of Binade", self.refused(MODULES / f"lib{name}.so"))

    def copy_module(self, path, mode=0o644):
        """A module of another version: the error names its path."""
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(MODULES / "libone_op_less.so", path)
        path.chmod(mode)
        return path

    def test_a_module_that_other_users_may_write(self):
        self.assertIn("every user may write", self.refused(self.copy_module(self.folder / "module.so", 0o666)))
        open_folder = self.folder / "open"
        module = self.copy_module(open_folder / "module.so")
        open_folder.chmod(0o777)
        self.assertIn("every user may write", self.refused(module))

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_a_module_of_another_user(self):
        module = self.copy_module(self.folder / "module.so")
        os.chown(module, 65534, 65534)
        self.assertIn("belongs to user 65534", self.refused(module))

    def test_folders_above_the_library_are_not_searched(self):
        """A program in nested folders, with a driver and a module planted at a place where an attacker could put it."""
        root = self.folder / "root"
        lib = root / "a/b/lib"
        lib.mkdir(parents=True)
        for library in LIBRARIES:
            shutil.copy(library, lib)
        shutil.copy(MODULES / "libone_op_less.so", lib / "libcuda.so.1")  # any library will do: a CUDA driver would be found by this name
        for place in ("a/b/cuda", "a/cuda", "cuda", "a/b", "a", "."):
            self.copy_module(root / place / "libbinade_cuda.so")
        env = {"LD_LIBRARY_PATH": str(lib), "BINADE_CUDA_MODULE": ""}
        self.assertNotIn("another version", run(DOCTOR, "env", env=env, cwd=root).stdout)
        self.copy_module(lib / "cuda/libbinade_cuda.so")  # as in a build tree
        self.assertIn(f"{lib}/cuda/libbinade_cuda.so was built of another version", run(DOCTOR, "env", env=env, cwd=root).stdout)
        self.copy_module(lib / "libbinade_cuda.so")
        self.assertIn(f"{lib}/libbinade_cuda.so was built of another version", run(DOCTOR, "env", env=env, cwd=root).stdout)

    def test_auto_says_why_it_uses_the_cpu(self):
        ended = run(GPT, "train", "--data", self.text, "--run", self.folder / "run", *GPT_TINY, "--steps", 1,
                    env={"BINADE_CUDA_MODULE": str(self.folder / "no.so")})
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("device cpu: ", ended.stderr)
        self.assertIn("could not be opened", ended.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
