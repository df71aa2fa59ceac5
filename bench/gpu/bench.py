"""The parts of `run-gpu bench`. If one fails, the others still run."""
import datetime
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

from gpu import contenders, goals, machine, profile

SCHEMA = 1
MODES = ("eager", "default", "reduce-overhead", "max-autotune")
PRECISIONS = ("bf16", "fp16", "tf32", "fp32")
BATCHES = {"gpt": (8, 64, 4), "unet": (16, 32, 1)}
ROWS = {"gpt2-1024": 50304, "gpt-dry": 32}  # rows of the token table with padding: the number of logits per token
# LOSS_BOUND: the largest relative difference of a first loss from ln(rows), the loss of equal logits (random weights with standard
# deviation 0.02 add about 1 %). PEER_BOUND: the largest between the first losses of two contenders of one framework.
LOSS_BOUND, PEER_BOUND = 0.03, 0.02
KERNELS = ("nsys", "nsys unet", "torch", "ncu", "ncu unet")
SECONDS = {True: 200, False: 3300}  # by --quick: no part begins later than this, but a part may end later


def torch_python(given, here):
    """Returns (interpreter, version of PyTorch, whether it has a GPU), or (None, the reason, False)."""
    wanted = [given] if given else [os.environ.get("BINADE_TORCH_PYTHON"), here.parent / ".venv-torch/bin/python", sys.executable]
    for python in filter(None, wanted):
        try:
            done = subprocess.run([str(python), "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"], capture_output=True,
                                  text=True, timeout=120)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            version, gpu = done.stdout.split()[-2:]
            return python, version, gpu == "True"
    return None, "no PyTorch was found (--torch PYTHON)", False


class Bench:
    def __init__(self, here, folder, env, args):
        self.here, self.folder, self.env, self.args = here, folder, env, args
        self.deadline = contenders.Deadline(args.seconds or SECONDS[args.quick])
        self.names = {"gpt": "gpt-dry", "unet": "unet-dry"} if args.emulated else {"gpt": "gpt2-1024", "unet": "unet-gpu"}
        now = datetime.datetime.now(datetime.timezone.utc)
        self.out = args.out or pathlib.Path(f"{now:%Y-%m-%d-%H%M}-gpu-bench.json")
        self.document = {"schema": SCHEMA, "date": f"{now:%Y-%m-%dT%H:%M:%SZ}", "emulated": args.emulated, "quick": args.quick,
                         "host": platform.platform(), "names": self.names, "versions": {}, "env": [], "before": {}, "after": {}, "ops": [],
                         "peer_ops": [], "steps": [], "overhead": [], "kernels": {}, "checkpoint": {}, "errors": [], "table": []}
        self.torch = None
        self.cache = tempfile.TemporaryDirectory()  # so that library plans are autotuned in this run, not taken from earlier ones
        self.env = {**env, "XDG_CACHE_HOME": self.cache.name}

    def save(self):
        self.document["table"] = goals.judge(self.document)
        self.out.write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")

    def run(self):
        """Runs all parts. Returns the number of missed goals, or the number of errors in a dry run, whose times mean nothing."""
        parts = [("env", self.about), ("ceilings", lambda: self.ops("ceilings"))]
        for name in self.wanted(("gpt", "unet"), self.args.workloads):
            batches = [int(b) for b in self.args.batches.split(",")] if self.args.batches else BATCHES[name][:1 if self.args.quick else None]
            parts += [(f"{self.names[name]} batch {b}", lambda n=name, b=b: self.steps(n, b)) for b in batches]
        parts += [("products", lambda: self.ops("products")), ("ops", lambda: self.ops("ops")), ("peer ops", self.peer_ops),
                  ("overhead", self.overhead), ("checkpoint", self.checkpoint), ("kernels", self.kernels), ("after", self.after)]
        for name, part in parts:
            if self.args.parts and not any(name.startswith(wanted) for wanted in self.args.parts.split(",")) and name not in ("env", "after"):
                continue
            if name not in ("env", "after") and self.deadline.over():
                self.error(name, "time was out")
                continue
            print(f"{name} ({self.deadline.left():.0f} s left)", file=sys.stderr, flush=True)
            try:
                part()
            except Exception as error:  # the other parts must still run
                self.error(name, f"{type(error).__name__}: {error}")
            self.save()
        self.print_results()
        if self.args.emulated:
            return sum(e["part"] != "peers" for e in self.document["errors"]) + sum("error" in row for row in self.document["steps"])
        return sum(row["verdict"] == "missed" for row in self.document["table"])

    def error(self, part, text):
        print(f"  {part}: {text}", file=sys.stderr, flush=True)
        self.document["errors"].append({"part": part, "error": text[:600]})

    @staticmethod
    def wanted(names, given):
        return [name for name in names if not given or name in given.split(",")]

    def limit(self, most):
        return max(5.0, min(most, self.deadline.left() + 30))

    # ---- parts

    def about(self):
        self.document["before"] = machine.smi()
        text = self.output([self.folder.program("doctor/binade-doctor"), "env"], self.env, 120)
        self.document["env"] = text.strip().splitlines()
        self.torch, version, has_gpu = torch_python(self.args.torch, self.here)
        if self.torch and not has_gpu and not self.args.emulated:
            self.torch, version = None, f"PyTorch {version} sees no GPU"
        self.document["versions"] = {"python": platform.python_version(), "torch": version if self.torch else None,
                                     "driver": self.document["before"].get("driver_version")}
        if not self.torch:
            self.error("peers", version)

    def lines(self, part, command, env, most):
        """Returns the JSON lines that a program printed, also if it failed later."""
        limit = self.limit(most)
        try:
            done = subprocess.run([str(x) for x in command], env=env, capture_output=True, text=True, errors="replace", timeout=limit)
            text, fault = done.stdout, f"ended with {done.returncode}: {done.stderr[-300:]}" if done.returncode else ""
        except subprocess.TimeoutExpired as late:
            text, fault = (late.stdout or b"").decode(errors="replace"), f"stopped after {limit:.0f} s"
        if fault:
            self.error(part, fault)
        found = []
        for line in text.splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def output(self, command, env, most):
        done = subprocess.run([str(x) for x in command], env=env, capture_output=True, text=True, errors="replace", timeout=self.limit(most))
        if done.returncode != 0:
            raise RuntimeError(f"{pathlib.PurePath(str(command[0])).name} ended with {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
        return done.stdout

    def flags(self):
        return ["--quick"] * self.args.quick + ["--dry"] * self.args.emulated

    def ops(self, part):
        self.document["ops"] += self.lines(part, [self.folder.program("bench/gpu_bench"), "--part", part, *self.flags()], self.env, 300)

    def peer_ops(self):
        if self.torch:
            self.document["peer_ops"] = self.lines("peer ops", [self.torch, self.here / "peers/gpu_ops.py", *self.flags()], self.peer_env(), 240)

    def peer_env(self):
        env = dict(os.environ)
        if self.args.emulated:
            env["OMP_NUM_THREADS"] = "1"
        return env

    def program(self, name):
        return self.folder.program("examples/unet/binade-unet" if name == "unet" else "examples/transformer/binade-gpt")

    def bench_command(self, name, batch, precision, *more):
        return [self.program(name), "bench", "--workload", self.names[name], "--batch", str(batch), "--precision", precision, "--device", "cuda", *more]

    def plans(self, name, batch):
        """Returns the contenders to time; Binade in bf16 is first."""
        plans = []

        def ours(precision, label="", *more):
            plans.append({"name": f"binade {precision}{label}", "side": "binade", "workload": self.names[name], "batch": batch,
                          "precision": precision, "mode": label.strip() or "recorded", "env": self.env,
                          "command": self.bench_command(name, batch, precision, "--interactive", *more)})

        def theirs(precision, mode):
            plans.append({"name": f"torch {mode} {precision}", "side": "torch", "workload": self.names[name], "batch": batch,
                          "precision": precision, "mode": mode, "env": self.peer_env(), "alone": mode == "max-autotune",
                          "command": [self.torch, self.here / "peers/gpu_step.py", self.names[name], "--batch", batch, "--precision", precision,
                                      "--mode", mode, "--device", "cpu" if self.args.emulated else "cuda"]})

        precisions, modes = self.wanted(PRECISIONS, self.args.precisions), self.wanted(MODES, self.args.modes)
        if self.args.emulated:
            modes = [mode for mode in modes if mode == "eager"]
        elif self.args.quick and not self.args.modes:
            modes = [mode for mode in modes if mode != "max-autotune"]
        ours("bf16")
        for precision in precisions:
            if precision != "bf16" and not (self.args.quick and not self.args.precisions and precision == "fp32"):
                ours(precision)
        if self.torch and "bf16" in precisions:
            for mode in modes:
                theirs("bf16", mode)
        if not self.args.quick:
            ours("bf16", " op by op", "--record", "off")
            ours("bf16", " fastest", "--deterministic", "off")
            if self.torch and "fp16" in precisions:
                for mode in [m for m in modes if m in ("eager", "default")]:
                    theirs("fp16", mode)
        return plans

    def steps(self, name, batch):
        rows_of_table = ROWS.get(self.names[name])

        def check(c, found):
            return contenders.loss_fault(c, found, math.log(rows_of_table) if rows_of_table else None, LOSS_BOUND, PEER_BOUND)

        limits = {"first": self.limit(420.0)}
        with open(self.out.with_suffix(".log"), "a", encoding="utf-8") as log:
            rows = contenders.race(self.plans(name, batch), 3 if self.args.emulated else 5 if self.args.quick else 7,
                                   1 if self.args.emulated else 400 if self.args.quick else 800, self.deadline, check, log, limits)
        self.document["steps"] += rows
        for row in rows:
            if "error" in row:
                print(f"  {row['name']}: {row['error'][:160]}", file=sys.stderr, flush=True)

    def overhead(self):
        for name in self.wanted(("gpt", "unet"), self.args.workloads):
            pairs = 2 if self.args.emulated else 20 if self.args.quick else 60
            self.document["overhead"] += self.lines("overhead", self.bench_command(name, BATCHES[name][0], "bf16", "--overhead", pairs), self.env, 180)

    def checkpoint(self):
        """Runs a short training that saves checkpoints, and reads the stall from its timing.jsonl."""
        model = (["--preset", "tiny", "--layers", "1", "--dim", "16", "--heads", "2", "--context", "8", "--batch", "2", "--steps", "6",
                  "--checkpoint-every", "3"] if self.args.emulated else
                 ["--preset", "gpt2", "--layers", "17", "--batch", "4", "--context", "64", "--steps", "48" if self.args.quick else "120",
                  "--checkpoint-every", "16" if self.args.quick else "30"])
        with tempfile.TemporaryDirectory() as folder:
            data, run = pathlib.Path(folder, "text.txt"), pathlib.Path(folder, "run")
            data.write_text("the quick brown fox jumps over the lazy dog. " * 400, encoding="ascii")
            self.output([self.program("gpt"), "train", "--run", run, "--data", data, "--device", "cuda", "--precision", "bf16", "--checkpoint-minutes", "0",
                         "--keep", "1", *model], self.env, 240)
            lines = [json.loads(line) for line in (run / "timing.jsonl").read_text(encoding="ascii").splitlines()]
        stalls = [line["stall_ms"] for line in lines if line.get("stall_ms")]
        if not stalls:
            raise RuntimeError("no step of the run recorded a stall")
        self.document["checkpoint"] = {"stall_ms": statistics.median(stalls), "saves": len(stalls), **rate_during_save(lines, 1 if self.args.emulated else 8),
                                       "saved_mb": max((line["saved_mb"] for line in lines if "saved_mb" in line), default=None)}

    def kernels(self):
        if self.args.emulated:
            self.document["kernels"] = {name: {"missing": "an emulated device"} for name in KERNELS}
            return
        copy = goals.op(self.document["ops"], "device to device")
        found = self.document["kernels"]
        names = self.wanted(("gpt", "unet"), self.args.workloads)
        for name in names:
            found["nsys" if name == "gpt" else "nsys unet"] = profile.with_nsys(self.one_program(name), self.env, self.limit(180))
            self.save()
        found["torch"] = self.peer_kernels()
        self.save()
        for name in names:
            found["ncu" if name == "gpt" else "ncu unet"] = (
                {"missing": "left out of a quick run"} if self.args.quick else
                profile.with_ncu([*self.one_program(name), "--record", "off"], self.env, self.limit(300), copy and copy["tb_s"],
                                 2000 if name == "gpt" else 600, 1000 if name == "gpt" else 300))
            self.save()

    def one_program(self, name):
        return self.bench_command(name, BATCHES[name][0], "bf16")

    def peer_kernels(self):
        """Returns the kernels of the compiled step according to PyTorch's profiler, to explain differences in time."""
        if not self.torch:
            return {"missing": "no PyTorch"}
        plan = {"name": "torch default bf16", "env": self.peer_env(), "command": [
            self.torch, self.here / "peers/gpu_step.py", self.names["gpt"], "--batch", BATCHES["gpt"][0], "--mode", "default", "--device",
            "cpu" if self.args.emulated else "cuda"]}
        contender = None
        try:
            contender = contenders.Contender(plan, None, contenders.LIMITS)
            contender.answer(self.limit(120))
            contender.step(5, self.limit(240))
            contender.say("profile 5")
            return contender.answer(self.limit(120))
        except contenders.Failed as error:
            return {"error": str(error)}
        finally:
            if contender:
                contender.quit()

    def after(self):
        self.document["after"] = machine.smi()

    # ---- printing the results

    def print_results(self):
        d = self.document
        card = d["before"].get("name") or next((line for line in d["env"] if "device" in line), "unknown device")
        print(f"\n{card.strip()}; driver {d['versions'].get('driver')}; torch {d['versions'].get('torch')}; {d['date']}")
        for when in ("before", "after"):
            if d[when]:
                s = d[when]
                print(f"{when}: SM {s['clocks_sm']} of {s['clocks_max_sm']} MHz, {s['power_draw']} of {s['power_limit']} W, {s['temperature_gpu']} C"
                      + (f", slowed by {', '.join(s['slowed_by'])}" if s["slowed_by"] else ""))
        print_ops(d["ops"], d["peer_ops"])
        print_steps(d["steps"])
        print_kernels(d["kernels"])
        print_checkpoint(d["checkpoint"])
        if d["emulated"]:
            print("\na dry run: no figure means anything")
        print("\n" + goals.text_of(d["table"]))
        for e in d["errors"]:
            print(f"error in {e['part']}: {e['error'][:200]}")
        print(self.out)


def print_ops(ours, theirs):
    """Prints time, bytes and operations of single ops, and their shares of the ceilings."""
    copy = max((x["tb_s"] for x in (goals.op(ours, "device to device"), goals.op(theirs, "device to device")) if x), default=None)
    tops = {}
    for line in [*ours, *theirs]:
        if line.get("part") == "gemm" and "tflop_s" in line:
            tops[line["dtype"]] = max(tops.get(line["dtype"], 0.0), line["tflop_s"])
    print(f"\nceilings: copy {copy and round(copy, 3)} TB/s; " + ", ".join(f"{k} products {v:.4g} TFLOP/s" for k, v in tops.items()))
    print(f"{'op':<44} {'':5} {'us':>10} {'MB':>9} {'GFLOP':>9} {'TB/s':>7} {'TFLOP/s':>8} {'share':>6} {'torch us':>10}")
    for line in ours:
        if line.get("part") not in ("product", "op"):
            continue
        if "error" in line:
            print(f"{line['what']:<44} {line.get('dtype', ''):5} not measured: {line['error'][:80]}")
            continue
        peer = goals.op(theirs, line["what"], line["dtype"])
        of_top = line["tflop_s"] / tops[line["dtype"]] if tops.get(line["dtype"]) else 0.0
        of_copy = line["tb_s"] / copy if copy else 0.0
        print(f"{line['what']:<44} {line['dtype']:5} {line['us']:10.1f} {line['bytes'] / 1e6:9.1f} {line['flops'] / 1e9:9.1f} {line['tb_s']:7.3f} "
              f"{line['tflop_s']:8.1f} {max(of_top, of_copy):6.2f} {format(peer['us'], '.1f') if peer else '-':>10}")


def print_steps(rows):
    print(f"\n{'workload':<10} {'batch':>5} {'contender':<28} {'ms a step':>10} {'quartiles':>19} {'its/binade bf16':>15} {'quartiles':>13} "
          f"{'device MiB':>10} {'start s':>8}")
    for r in rows:
        head = f"{r['workload']:<10} {r['batch']:>5} {r['name']:<28}"
        if "error" in r:
            print(f"{head} not measured: {r['error'][:100]}")
            continue
        q, s = r["quartiles_ms"], r.get("speedup_quartiles")
        ratio = f"{r['speedup']:15.3f} {s[0]:6.3f}-{s[1]:6.3f}" if s else f"{'':15} {'':13}"
        peak = r["device_peak_mib"]
        print(f"{head} {r['median_ms']:10.3f} {q[0]:9.2f}-{q[1]:9.2f} {ratio} {'-' if peak is None else round(peak):>10} {r['start_s']:8.1f}")


def rate_during_save(lines, warm):
    """Compares the rate of steps while a checkpoint was written with the rate of other steps, from the lines of a timing.jsonl after
    step `warm`. Returns an empty dict if there are no steps of one of the two kinds."""
    lines = [line for line in lines if line["step"] > warm]
    during = [line["ms"] for line in lines if line.get("saving") and not line.get("stall_ms")]
    others = [line["ms"] for line in lines if not line.get("saving") and not line.get("stall_ms")]
    if not during or not others:
        return {}
    return {"rate_beside": statistics.mean(others) / statistics.mean(during), "steps_beside": len(during), "steps_without": len(others)}


def print_checkpoint(found):
    if "rate_beside" in found:
        print(f"\nsteps while a checkpoint was written: {found['rate_beside']:.3f} of the rate of those without ({found['steps_beside']} and "
              f"{found['steps_without']} steps)")
    elif found:
        print("\nsteps while a checkpoint was written: not measured: no step was made beside one, or none without")


def print_kernels(kernels):
    for name in KERNELS:
        found = kernels.get(name)
        if not found or "kernels" not in found:
            print(f"\nkernels by {name}: not measured: {(found or {}).get('missing') or (found or {}).get('error') or 'not reached'}")
            continue
        print(f"\nkernels by {name}" + (", of the compiled PyTorch step:" if name == "torch" else ":"))
        for row in found["kernels"][:25]:
            if not name.startswith("ncu"):
                print(f"  {row['share']:6.1%} {row['us']:10.1f} us {row['calls']:7.1f} a step  {row['kernel']}")
            else:
                share = f"{row['share_of_copy']:.2f}" if row["share_of_copy"] is not None else "-"
                flops = f"{row['flops'] / 1e9:9.2f} GFLOP {row['tflop_s']:6.1f} TFLOP/s" if row["flops"] is not None else f"{'-':>31}"
                print(f"  {row['us']:10.1f} us {row['calls']:5} calls {row['bytes'] / 1e6:9.1f} MB {row['tb_s']:6.2f} TB/s, {share} of a copy, {flops}, "
                      f"SM {row['sm_percent']:4.0f} %  {row['kernel']}")


def run(here, folder, env, args):
    return Bench(here, folder, env, args).run()
