"""binade-doctor report on healthy, failed and damaged runs: a self-contained, valid HTML page that names the events."""
import fcntl
import html.parser
import json
import re
import shutil
import unittest

from programs import DOCTOR, GPT, UNET, UNET_TINY, ProgramTest, blobs, metrics, png, run

VOID = {"meta", "img", "br"}
LIMIT = 2 << 20


class Page(html.parser.HTMLParser):
    """Parses a page: badly nested tags, addresses, ids, and the text."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.open, self.faults, self.addresses, self.ids, self.tags, self.words = [], [], [], [], [], []
        self.feed(source)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self.open]
        self.text = "".join(self.words)

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("href", "src", "action", "data", "poster") or name.startswith("on"):
                self.addresses.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)


class Report(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gpt = cls.shared / "gpt-run"
        test = cls("page")
        test.train(GPT, cls.gpt, "--steps", 40, "--accumulate", 2, "--eval-every", 20, "--checkpoint-every", 20, "--precision", "fp16",
                   "--init-scale", 2.0**40, "--inject", "nan-input@step=10,sample=1", "--inject", "nan-input@step=25,sample=6")

    def page(self, folder):
        """Makes the report and checks what must hold for every report."""
        done = run(DOCTOR, "report", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        path = folder / "report.html"
        self.assertEqual(done.stdout.strip(), str(path))
        source = path.read_text(encoding="utf-8")
        self.assertLess(len(source.encode()), LIMIT)
        page = Page(source)
        self.assertEqual(page.faults, [])
        for address in page.addresses:
            self.assertRegex(address, r"^#incident-\d+$|^data:image/png;base64,")
        for address in page.addresses:
            if address.startswith("#"):
                self.assertIn(address[1:], page.ids)
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assertEqual(page.tags.count("script"), 1)
        self.assertNotRegex(source, r"@import|url\(|<link|xmlns")
        return page

    def copy(self):
        folder = self.folder / "run"
        shutil.copytree(self.gpt, folder)
        return folder

    def test_a_run_with_two_drills_is_described(self):
        page = self.page(self.gpt)
        for words in ("finished", "40", "step 10", "step 25", "bad-input", "proven", "drill", "quarantine-sample",
                      "blocks.0.attention", "backward", "scaled gradients overflowed", "ckpt-000000000040.h5", "binade-gpt", "fp16",
                      "nan-input@step=25,sample=6", "val_accuracy"):
            self.assertIn(words, page.text)
        self.assertEqual(page.ids, ["incident-1", "incident-2"])
        self.assertIn((self.gpt / "samples/000000000040.txt").read_text().split()[0], page.text)

    def test_the_latest_of_many_warnings_are_shown(self):
        folder = self.copy()
        with (folder / "events.jsonl").open("a") as file:
            for step in range(1, 7):
                file.write(json.dumps({"step": step, "kind": "sign", "what": f"step {step}: stagnation: nothing moves", "time": ""}) + "\n")
        worth_a_look = self.page(folder).text.split("Worth a look")[1].split("Curves")[0]
        self.assertIn("2 earlier warnings.", worth_a_look)
        for step in (3, 4, 5, 6):
            self.assertIn(f"Warning: step {step}: stagnation: nothing moves.", worth_a_look)
        self.assertNotIn("step 2:", worth_a_look)

    def test_the_reason_of_a_stop_and_images_are_in_the_page(self):
        folder = self.folder / "unet"
        self.train(UNET, folder, "--steps", 8, "--eval-every", 4, "--precision", "fp16", "--inject",
                   "scale-weight@step=6,path=decoder.0.conv1,factor=1e5,view=1", "--on-nan", "stop", expect=30)
        page = self.page(folder)
        for words in ("The run stopped.", "stopped by an incident", "activation-overflow", "decoder.0.conv1", "the step once more, with"):
            self.assertIn(words, page.text)
        self.assertEqual(sum(address.startswith("data:") for address in page.addresses), 1)

    def test_the_best_dice_is_the_highest_and_the_best_loss_the_lowest(self):
        for program, number, direction in ((UNET, "val_dice", "higher is better"), (GPT, "val_loss", "lower is better")):
            with self.subTest(program=program.name):
                folder = self.folder / number
                self.train(program, folder, "--steps", 4, "--eval-every", 2)
                values = [line[number] for line in metrics(folder) if number in line]
                value = max(values) if direction.startswith("higher") else min(values)
                text = run(DOCTOR, "inspect", folder).stdout
                best, = (line for line in text.splitlines() if line.endswith(", the best"))
                self.assertTrue(best.endswith(f"  score {float(f'{value:.6g}'):g} ({direction}), the best"), text)
                self.assertIn(f"score ({direction})", self.page(folder).text)

    def test_a_folder_that_is_no_run_is_one_line_and_exit_20(self):
        for folder, words in ((self.folder / "missing", "nothing there"), (self.text, "a file"), (self.folder, "holds no run")):
            done = run(DOCTOR, "report", folder)
            self.assertEqual(done.returncode, 20, done.stderr)
            self.assertIn(words, done.stderr.splitlines()[-1])
            self.assertIn(str(folder), done.stderr.splitlines()[-1])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_page_is_written_to_the_given_path(self):
        output = self.folder / "page.html"
        before = sorted(path.name for path in self.gpt.iterdir())
        self.assertEqual(run(DOCTOR, "report", self.gpt, "--output", output).stdout.strip(), str(output))
        self.assertEqual(Page(output.read_text()).faults, [])
        self.assertEqual(sorted(path.name for path in self.gpt.iterdir()), before)
        self.assertEqual(run(DOCTOR, "report", self.gpt, "--output", self.folder / "no" / "page.html").returncode, 24)

    def test_any_file_may_be_missing_truncated_or_something_else(self):
        files = sorted(path.relative_to(self.gpt) for path in self.gpt.rglob("*") if path.is_file() and path.suffix in (".jsonl", ".json", ".txt", ""))
        self.assertGreater(len(files), 9)
        for name in files:
            for damage in ("missing", "torn", "noise", "folder", "list"):
                with self.subTest(file=str(name), damage=damage):
                    folder = self.copy()
                    path = folder / name
                    whole = path.read_bytes()
                    path.unlink()
                    if damage == "torn":
                        path.write_bytes(whole[:len(whole) * 2 // 3])
                    elif damage == "noise":
                        path.write_bytes(bytes(range(256)) * 20)
                    elif damage == "folder":
                        path.mkdir()
                    elif damage == "list":
                        path.write_text("[" * 100000 + "\n{}\n[1,2]\n3\n")
                    self.page(folder)
                    shutil.rmtree(folder)

    def test_a_run_that_has_just_started_has_a_page(self):
        folder = self.folder / "run"
        folder.mkdir()
        (folder / "config.json").write_text('{"program":"binade-gpt","steps":100}')
        page = self.page(folder)
        for words in ("No step was committed.", "Nothing was recorded.", "of 100"):
            self.assertIn(words, page.text)

    def test_a_running_run_has_a_page(self):
        folder = self.copy()
        with (folder / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn("running", self.page(folder).text)
        self.assertNotIn("running", self.page(folder).text)

    def test_large_images_are_shown_and_scores_have_a_direction(self):
        folder = self.folder / "run"
        images = blobs(self.folder / "large", count=3, size=64, seed=3)
        done = run(UNET, "train", "--data", images, "--run", folder, *UNET_TINY, "--val-fraction", 0.34, "--steps", 2, "--eval-every", 1,
                   "--checkpoint-every", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        large = folder / "samples/000000000001.png"
        png(large, 600, 400, lambda x, y: (x * 2654435761 ^ y * 40503 * (x + 7)) >> 7 & 255)
        self.assertGreater(large.stat().st_size, 200_000)
        page = self.page(folder)
        self.assertEqual(page.tags.count("img"), 2)
        self.assertNotIn("could not be read", page.text)
        self.assertIn("score (higher is better)", page.text)
        self.assertNotIn("lower is better", page.text)

    def test_hostile_text_is_escaped(self):
        evil = '</script><script>alert(1)</script><img src=x onerror=alert(2)>"\' &amp; \u202e'
        folder = self.copy()
        step = {"step": 40, "attempt": 1, "committed": True, "loss": "inf", "grad_norm": 1e308, "loss_scale": -1, "lr": "nan"}
        (folder / "config.json").write_text(json.dumps({"program": evil, "steps": 1e300, evil: evil, "precision": evil, "environment": {evil: [evil]}}))
        with (folder / "metrics.jsonl").open("a") as file:
            for line in (step, dict(step, step=-3), dict(step, step=2**60), dict(step, step=41, loss=[]), dict(step, step=42, loss=-1e308),
                         dict(step, step=43, loss=1e308), {"step": 44, evil: 2, "val_loss": 1e308}, {"step": 45, "val_loss": -1e308}):
                file.write(json.dumps(line) + "\n")
        with (folder / "headroom.jsonl").open("a") as file:
            file.write(json.dumps({"step": 2**50, "incident": True, "headroom": {evil: ["-inf", 1], "a": 1, "b": ["x", None], "c": [1e308, -1e308]}}) + "\n")
        report = {"step": 12, "what": evil, "drill": "yes", "advice": evil, "first_bad": {"module": evil, "op": evil, "index": [evil, {}], "tensor": evil,
                  "operand_max": [1, "nan", {}]}, "cause": {"class": evil, "confidence": evil, "proof": [{"variant": evil, "finite": True}, 7]},
                  "remedy": {"action": evil, "target": evil, "what": evil, "until_step": -1, "steps_lost": 3, "verified": False}}
        for name, text in (("000000000012", json.dumps(report)), ("<b>", "{"), ("000000000013", "[]")):
            (folder / "incidents" / name).mkdir()
            (folder / "incidents" / name / "report.json").write_text(text)
            (folder / "incidents" / name / "report.md").write_text(evil)
        (folder / "samples/000000000041.txt").write_text(evil)
        (folder / "samples/000000000041.png").write_bytes(b"\x89PNG\r\n\x1a\nno picture")
        page = self.page(folder)
        self.assertNotIn("alert", "".join(page.addresses))
        self.assertIn("<script>alert(1)</script>", page.text)
        self.assertIn("3 steps done again", page.text)
        self.assertIn("could not be read", page.text)

    def test_the_page_of_a_long_run_has_a_bounded_size(self):
        folder = self.folder / "run"
        (folder / "incidents").mkdir(parents=True)
        (folder / "config.json").write_text('{"steps":200000}')
        with (folder / "metrics.jsonl").open("w") as file:
            for step in range(1, 200001):
                loss = 100 if step == 77777 else 1 + (step * 7919 % 1000) / 1000
                file.write(f'{{"step":{step},"attempt":1,"committed":true,"loss":{loss},"grad_norm":{loss},"loss_scale":{2 ** (step % 20)},"lr":0.1}}\n')
                if step % 3 == 0:
                    file.write(f'{{"step":{step},"attempt":1,"committed":false,"loss":"nan","grad_norm":"nan","loss_scale":1,"lr":0.1}}\n')
        with (folder / "headroom.jsonl").open("w") as file:
            for step in range(1000, 200001, 1000):
                modules = {f"blocks.{i}.attention.query": [step * i % 37 / 2, step * (i + 5) % 41 / 2] for i in range(150)}
                file.write(json.dumps({"step": step, "headroom": modules}) + "\n")
        for step in range(1, 300):
            (folder / f"incidents/{step:012}").mkdir()
            (folder / f"incidents/{step:012}/report.json").write_text(json.dumps({"step": step * 600, "what": "x" * 3000, "advice": "y" * 3000,
                                                                                  "cause": {"class": "bad-input"}}))
        page = self.page(folder)
        self.assertIn("The last 40 of 299", page.text)
        self.assertIn("modules with more headroom left out", page.text)
        source = (folder / "report.html").read_text()
        self.assertLessEqual(max(points.count(",") for points in re.findall(r'points="([^"]*)"', source)), 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
