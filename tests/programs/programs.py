"""Shared by the end-to-end tests: paths of the programs, functions to run them, and tiny data.

The build folder is that of the environment variable BINADE_BUILD (set by Meson), or ./build.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

BUILD = pathlib.Path(os.environ.get("BINADE_BUILD", "build")).resolve()


def built(path):
    """Path of a program in the build folder, or in a bundle, which has all programs in one folder."""
    in_bundle = BUILD / "bin" / pathlib.PurePath(path).name
    return in_bundle if in_bundle.exists() else BUILD / path


GPT = built("examples/transformer/binade-gpt")
UNET = built("examples/unet/binade-unet")
DOCTOR = built("doctor/binade-doctor")

TEXT = "".join(f"{i}: the quick brown fox jumps over the lazy dog, {i * i} times.\n" for i in range(400))
GPT_TINY = ["--layers", "2", "--heads", "2", "--dim", "16", "--context", "16", "--batch", "4", "--tokenizer", "char"]
UNET_TINY = ["--base", "4", "--depth", "2", "--size", "16", "--batch", "2"]


def run(program, *args, timeout=240, env=None, cwd=None):
    """Runs a program to its end. Returns the finished process, with its output as text."""
    full = dict(os.environ, NO_COLOR="1", **(env or {}))
    return subprocess.run([str(program), *map(str, args)], capture_output=True, text=True, errors="replace", timeout=timeout, env=full,
                          cwd=cwd)


def start(program, *args):
    return subprocess.Popen([str(program), *map(str, args)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def metrics(folder):
    """The lines of metrics.jsonl as objects, without an incomplete last line (if the process was killed)."""
    lines = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    parsed = []
    for line in lines:
        try:
            parsed.append(json.loads(line))
        except ValueError:
            assert line is lines[-1], f"torn line in the middle: {line!r}"
    return parsed


def checkpoints(folder):
    return sorted((pathlib.Path(folder) / "checkpoints").glob("ckpt-*.h5"))


def png(path, width, height, pixel, depth=8, color=0):
    """Writes a PNG; pixel(x, y) gives a sample or, for color images, a tuple of samples."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            value = pixel(x, y)
            for sample in value if isinstance(value, tuple) else (value,):
                rows += struct.pack(">H" if depth == 16 else ">B", sample)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(rows))) + chunk(b"IEND", b""))


def blobs(folder, count=6, size=24, seed=1):
    """Writes images of bright discs on a dark background, and their masks."""
    source = random.Random(seed)
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True)
    for i in range(count):
        cx, cy, r = source.uniform(6, size - 6), source.uniform(6, size - 6), source.uniform(3, 6)
        inside = lambda x, y: (x - cx) ** 2 + (y - cy) ** 2 < r * r  # noqa: E731
        noise = [[source.randrange(40) for _ in range(size)] for _ in range(size)]
        png(folder / "images" / f"{i:02}.png", size, size, lambda x, y: 30 + noise[y][x] + (150 if inside(x, y) else 0))
        png(folder / "masks" / f"{i:02}.png", size, size, lambda x, y: 255 if inside(x, y) else 0)
    return folder


class ProgramTest(unittest.TestCase):
    """Has a temporary folder with a tiny text and images, which is removed afterwards."""

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="binade-test-"))
        cls.text = cls.shared / "text.txt"
        cls.text.write_text(TEXT)
        cls.images = blobs(cls.shared / "blobs")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, ignore_errors=True)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="case-", dir=self.shared))

    def train(self, program, folder, *args, expect=0, **kwargs):
        tiny, data = (GPT_TINY, self.text) if program == GPT else (UNET_TINY, self.images)
        done = run(program, "train", "--data", data, "--run", folder, *tiny, "--threads", 1, *args, **kwargs)
        self.assertEqual(done.returncode, expect, f"{program.name} {args}\n{done.stderr}")
        return done


def kill_after_step(process, folder, step, sig=signal.SIGKILL, timeout=120):
    """Sends `sig` once metrics.jsonl has `step` as committed and there is a checkpoint. Returns the exit status."""
    path = pathlib.Path(folder) / "metrics.jsonl"
    wants_checkpoint = sig == signal.SIGKILL
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        reached = path.exists() and f'"step":{step},' in path.read_text(errors="replace")
        if reached and (checkpoints(folder) or not wants_checkpoint):
            process.send_signal(sig)
            break
        time.sleep(0.002)
    _, process.stderr_text = process.communicate(timeout=60)
    return process.returncode
