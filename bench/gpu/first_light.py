"""`run-gpu first-light`: tests and times Binade within minutes on a card on which it has not run before.

Parts run in the order of `PARTS`. Test programs run in several processes at once. If a test crashes or hangs, its process ends, and
a new process runs the remaining tests. Each result is written to the output folder at once, so that a run that is stopped loses only
the tests in progress.
"""
import collections
import contextlib
import copy
import datetime
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time

from gpu import bench, contenders, machine, profile

SILENCE_S = 60  # a test that prints nothing for this time counts as hanging
CRASHES = 12  # a program that crashes more often is not started again
POISON = re.compile(r"cudaError(LaunchFailure|IllegalAddress|MisalignedAddress|IllegalInstruction|HardwareStackError|Assert|LaunchTimeout)")
SIZE = re.compile(r"^error size (\S+) (\S+) (\S+)$")


class Log:
    """The output folder: results.jsonl, failures.txt and one log per part."""

    def __init__(self, folder):
        self.folder, self.began, self.lock = folder, time.monotonic(), threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, what, **fields):
        line = {"what": what, "at_s": round(time.monotonic() - self.began, 1), **fields}
        with self.lock:
            with open(self.folder / "results.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(" ".join([f"{line['at_s']:6.1f}", what, *(f"{k}={v}" for k, v in fields.items() if not isinstance(v, (list, dict)))])[:300],
                  flush=True)

    def failure(self, name, text):
        with self.lock:
            with open(self.folder / "failures.txt", "a", encoding="utf-8") as file:
                file.write(f"==== {name}\n{text[-3000:]}\n")


class Tests:
    """The tests of one GoogleTest program, in several processes."""

    def __init__(self, log, name, program, env, chosen="*", processes=1):
        self.log, self.name, self.program, self.env = log, name, program, env
        self.counts, self.sizes, self.failed = collections.Counter(), {}, []
        self.lock = threading.Lock()
        names = self.list(chosen)
        self.shards = [names[i::processes] for i in range(processes) if names[i::processes]]

    def list(self, chosen):
        done = subprocess.run([str(self.program), "--gtest_list_tests", f"--gtest_filter={chosen}"], env=self.env, capture_output=True,
                              text=True, timeout=60)
        suite, names = "", []
        for line in done.stdout.splitlines():
            word = line.split("#")[0].rstrip()
            if word.startswith("  "):
                names.append(suite + word.strip())
            elif word.endswith("."):
                suite = word
        if not names:
            self.log.failure(self.name, f"no tests listed: {done.returncode} {done.stderr}")
        return names

    def run(self, deadline):
        threads = [threading.Thread(target=self.shard, args=(names, index, deadline)) for index, names in enumerate(self.shards)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.log.add(self.name, passed=self.counts["OK"], failed=self.counts["FAILED"], skipped=self.counts["SKIPPED"],
                     crashed=self.counts["crashed"], hung=self.counts["hung"], not_run=self.counts["not run"],
                     seconds=round(time.monotonic() - began, 1), failures=self.failed, sizes=self.sizes)

    def shard(self, names, index, deadline):
        left, crashes = list(names), 0
        while left and not deadline.over() and crashes < CRASHES:
            left, ended_well = self.process(left, index, deadline)
            crashes += not ended_well
        with self.lock:
            self.counts["not run"] += len(left)

    def process(self, names, index, deadline):
        """Runs `names` until the process ends. Returns (the tests that did not run, whether the process ended by itself)."""
        flags = self.log.folder / f"{self.name.replace(' ', '-')}-{index}.flags"
        flags.write_text("--gtest_filter=" + ":".join(names) + "\n", encoding="utf-8")
        # Each process has its own cache of plans, because processes that share one wait for each other's timings.
        env = {**self.env, "XDG_CACHE_HOME": str(self.log.folder / "cache" / f"{self.name.replace(' ', '-')}-{index}")}
        process = subprocess.Popen([str(self.program), f"--gtest_flagfile={flags}", "--gtest_color=no"], env=env, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace")
        lines = queue.Queue()
        threading.Thread(target=lambda: [lines.put(line) for line in process.stdout] + [lines.put(None)], daemon=True).start()
        running, text, seen, why = None, [], set(), None
        while True:
            try:
                line = lines.get(timeout=max(0.1, min(SILENCE_S, deadline.left())))
            except queue.Empty:
                why = "stopped: time was out" if deadline.over() else "hung"
                process.kill()
                break
            if line is None:
                break
            found = SIZE.match(line)
            if found:
                with self.lock:
                    key = f"{found[1]} {found[2]}"
                    self.sizes[key] = max(self.sizes.get(key, 0.0), float(found[3]))
                continue
            words = line.split()
            if line.startswith("[ RUN      ]"):
                running, text = words[3], []
            elif running and line.startswith(("[       OK ]", "[  FAILED  ]", "[  SKIPPED ]")) and running in line:
                word = words[1] if words[1] != "]" else words[0]
                self.end(running, word, text)
                seen.add(running)
                running = None
                if word == "FAILED" and POISON.search("".join(text)):
                    why = "poisoned"  # every later test of this process would fail too
                    process.kill()
                    break
            else:
                text = [*text[-60:], line]
        status = process.wait()
        flags.unlink(missing_ok=True)
        if running and why != "stopped: time was out":
            self.end(running, why or "crashed", [*text, f"status {status}"])
            seen.add(running)
        left = [name for name in names if name not in seen]
        if not seen:
            self.log.failure(self.name, f"the process ran no test: status {status}\n{''.join(text)}")
            return [], False
        return left, running is None and why is None

    def end(self, name, result, text):
        with self.lock:
            self.counts[result] += 1
            if result not in ("OK", "SKIPPED"):
                self.failed.append(f"{result} {name}")
        if result not in ("OK", "SKIPPED"):
            self.log.failure(f"{self.name}: {result} {name}", "".join(text))


class FirstLight:
    def __init__(self, here, folder, env, args):
        self.here, self.folder, self.args = here, folder, args
        self.deadline = contenders.Deadline(args.seconds or 540)
        self.log = Log(args.out or pathlib.Path(f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d-%H%M}-first-light"))
        self.names = {"gpt": "gpt-dry", "unet": "unet-dry"} if args.emulated else {"gpt": "gpt2-1024", "unet": "unet-gpu"}
        self.env = {**env, "BINADE_ERROR_SIZES": "1", "XDG_CACHE_HOME": str(self.log.folder / "cache")}

    def run(self):
        parts = (("env", self.about), ("tests", self.tests), ("gpt", lambda: self.steps("gpt", "64")), ("unet", lambda: self.steps("unet", "16")),
                 ("kernels", lambda: self.kernels("gpt", 64)), ("kernels-unet", lambda: self.kernels("unet", 16)), ("ops", self.ops),
                 ("memcheck", self.memcheck))
        chosen = self.args.parts.split(",") if self.args.parts else [name for name, _ in parts]
        for name, part in parts:
            if name not in chosen:
                continue
            if self.deadline.over(10):
                self.log.add(name, error="time was out")
                continue
            try:
                part()
            except Exception as error:  # the other parts must still run
                self.log.add(name, error=f"{type(error).__name__}: {error}")
            if name == "env" and not self.on_device:
                return 1
        return 0

    def call(self, name, command, env, seconds):
        with open(self.log.folder / f"{name}.txt", "w", encoding="utf-8") as out:
            began = time.monotonic()
            try:
                status = subprocess.run([str(x) for x in command], env=env, stdout=out, stderr=subprocess.STDOUT,
                                        timeout=max(1, min(seconds, self.deadline.left()))).returncode
            except subprocess.TimeoutExpired:
                status = 124
        text = (self.log.folder / f"{name}.txt").read_text(encoding="utf-8", errors="replace")
        return status, text, round(time.monotonic() - began, 1)

    def about(self):
        status, text, took = self.call("env", [self.folder.program("doctor/binade-doctor"), "env"], self.env, 60)
        self.on_device = "device    cuda" in text
        self.log.add("env", status=status, on_device=self.on_device, seconds=took, text=text.splitlines(), card=machine.smi())
        print(text, flush=True)

    def tests(self):
        until = contenders.Deadline(min(self.deadline.left(), self.args.tests_seconds))
        of = self.folder.program
        wanted = [("backend", of("tests/cuda/cuda_tests"), "*", 3), ("every op", of("tests/conformance/conformance_tests"), self.args.ops, 7),
                  ("whole steps", of("tests/cuda/cuda_step_tests"), "*", 2), ("models in halves", of("tests/cuda/cuda_model_tests"), "*", 2),
                  ("plans of a run", of("tests/cuda/cuda_run_tests"), "*", 1),
                  ("20 steps beside PyTorch", of("tests/golden/golden_tests"), "GoldenTraces*", 1)]
        threads = [threading.Thread(target=Tests(self.log, name, program, self.env, chosen, processes).run, args=(until,))
                   for name, program, chosen, processes in wanted]
        threads.append(threading.Thread(target=self.programs, args=(until,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def programs(self, until):
        status, text, took = self.call("programs", [sys.executable, self.folder.scripts() / "device_test.py", "-v"], self.env, until.left())
        failed = text.count("FAIL: ") + text.count("ERROR: ")
        self.log.add("programs", status=status, passed=text.count(" ... ok"), failed=failed, skipped=text.count(" ... skipped"), seconds=took)
        if status:
            self.log.failure("programs", text)

    def steps(self, name, batch):
        """Times whole steps of Binade and of PyTorch in turn."""
        args = copy.copy(self.args)
        args.quick, args.out, args.parts = True, self.log.folder / f"steps-{name}.json", self.names[name]
        args.workloads, args.batches, args.precisions = name, batch, "bf16"
        args.modes = args.modes or "eager,default"
        args.seconds = min(self.deadline.left() - 5, args.bench_seconds)
        with open(self.log.folder / f"steps-{name}.txt", "w", encoding="utf-8") as out, contextlib.redirect_stdout(out):
            bench.run(self.here, self.folder, self.env, args)
        document = json.loads(args.out.read_text(encoding="utf-8"))
        for row in document["steps"]:
            self.log.add(f"{row['workload']} batch {row['batch']}: {row['name']}",
                         **{key: row[key] for key in ("median_ms", "speedup", "first_loss", "device_peak_mib", "start_s", "error") if row.get(key)})

    def ops(self):
        """Times single ops and products, and compares them with the ceilings."""
        for part in ("ceilings", "products", "ops"):
            status, text, took = self.call(part, [self.folder.program("bench/gpu_bench"), "--part", part, "--quick"], self.env, 60)
            self.log.add(part, status=status, seconds=took)
            for line in text.splitlines():
                with contextlib.suppress(ValueError):
                    found = json.loads(line)
                    print("  " + " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{v}" for k, v in found.items()), flush=True)

    def kernels(self, name, batch):
        """Lists the kernels of one step by time, measured by ncu without replays."""
        ncu = profile.tool("ncu")
        command = [self.folder.program("examples/unet/binade-unet" if name == "unet" else "examples/transformer/binade-gpt"), "bench",
                   "--workload", self.names[name], "--batch", batch, "--precision", "bf16", "--device", "cuda", "--record", "off", "--steps", 1]
        status, text, took = self.call(f"kernels-{name}", [ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
                                                           "--metrics", "gpu__time_duration.sum", *command], self.env, 100)
        rows = profile.parse_ncu(text)
        self.log.add(f"kernels of {name}", status=status, seconds=took, ms=round(sum(row["us"] for row in rows) / 1e3, 2),
                     kernels=[[row["kernel"], row["calls"], round(row["us"], 1)] for row in rows])
        for row in rows[:30]:
            print(f"  {row['us'] / 1e3:9.3f} ms {row['calls']:5}  {row['kernel'][:100]}", flush=True)

    def memcheck(self):
        sanitizer = "/usr/local/cuda/bin/compute-sanitizer"
        slice_ = "*channel_slice*:*odd_tiles*:*causal*:-*Exhaustive*:*EveryHalf*"
        wanted = [("backend", "tests/cuda/cuda_tests", "*-*AFullRingBuffer*:*OutOfMemoryIsAnError*"),
                  ("ops", "tests/conformance/conformance_tests", slice_),
                  ("whole steps", "tests/cuda/cuda_step_tests", "*RecordedStep.*:*StepsAhead.AfterAStepThat*/1:*StepsAhead.AfterARollback*/1")]

        def one(tool, name, program, chosen):
            label = f"{tool}-{name.replace(' ', '-')}"
            status, text, took = self.call(label, [sanitizer, "--tool", tool, "--error-exitcode", "9", self.folder.program(program),
                                                   f"--gtest_filter={chosen}", "--gtest_brief=1"], self.env, self.deadline.left() - 3)
            self.log.add(f"{tool} {name}", status=status, seconds=took, errors=text.count("========= Invalid") + text.count("Race reported"),
                         summary=[line for line in text.splitlines() if "SUMMARY" in line][-1:])

        threads = [threading.Thread(target=one, args=(tool, *w)) for tool in ("memcheck", "racecheck") for w in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def run(here, folder, env, args):
    return FirstLight(here, folder, env, args).run()
