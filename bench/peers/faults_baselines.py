#!/usr/bin/env python3
"""Measures which faults of tests/faults/ PyTorch's own tools detect, and whether a run survives them.

    build/tests/faults/faults --seed 7 --cases 202 --json cases.json
    faults_baselines.py cases.json [--json FILE] [--family NAME]
    faults_baselines.py cases.json --results FILE      # prints the tables of an earlier --json again

Plants every case of cases.json in the models of faults_models.py, with the same model, precision, step, row and site, and runs it
with each of three tools:

  scaler    torch.amp.GradScaler alone, in every precision: it skips a step whose gradients are not finite, and names no cause.
            `recovered`: the final loss is within 1 % of that of the run without the fault
  anomaly   torch.autograd.set_detect_anomaly(True): `op`: it raised and named the backward node of the correct op. `direction`: also, the fault
            is in backward (it checks backward only). It never names a sample
  hooks     forward and backward hooks on every module that look for non-finite values. `op`: the first module that computes
            some from finite inputs, or gets some as input, is the correct one. `direction`: also, the direction (forward,
            backward or input) is correct. It never names an op or a sample

Needs PyTorch 2.3 or later with NumPy (CPU; autocast in bfloat16 and float16).
"""
import argparse
import contextlib
import gc
import json
import math
import re
import sys
import warnings

import torch

from faults_families import FAMILIES, NOT_EXPRESSIBLE, Now, Spot
from faults_models import RATE, ROWS, STEPS, make_batch, make_model

LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}
HELD_OUT = 1_000_000
SAME_LOSS = 0.01

# For each op of Binade, its backward nodes in PyTorch; several if PyTorch has no such op and users compose it.
NODES = {
    "scalar_div": {"Reciprocal"}, "div_scalar": {"Div"}, "mul_scalar": {"Mul"}, "rms_norm": {"Div", "Sqrt"},
    "own_norm": {"Div", "Sqrt"}, "layer_norm": {"NativeLayerNorm"}, "group_norm": {"NativeGroupNorm"},
    "batch_norm": {"NativeBatchNorm"}, "matmul": {"Bmm", "Mm", "UnsafeView"}, "bce": {"Log"}, "dice": {"Div"},
    "own_dice": {"Div"}, "cross_entropy": {"NllLoss", "LogSoftmax"}, "linear": {"Addmm", "Mm", "UnsafeView"}, "projections": {"Addmm", "Mm", "UnsafeView"},
    "conv2d": {"Convolution"}, "cast": {"ToCopy"}, "bce_with_logits": {"BinaryCrossEntropyWithLogits"},
    "own_sum": {"OwnSum"},
}


def nodes_of(op):
    return NODES.get(op, {op.title().replace("_", "")})


class Alarm(Exception):
    """A tool detected a fault. `named`: the node or module that it named."""

    def __init__(self, named, direction):
        super().__init__(named)
        self.named, self.direction = named, direction


def finite(value):
    tensors = value if isinstance(value, tuple) else (value,)
    return all(t is None or not t.is_floating_point() or bool(torch.isfinite(t).all()) for t in tensors)


def add_hooks(model):
    """Raises Alarm at the first module that computes non-finite values from finite ones, or gets some as input."""
    def forward(name):
        def hook(module, inputs, output):
            if not finite(inputs):
                raise Alarm(name, "input")
            if not finite(output):
                raise Alarm(name, "forward")
        return hook

    def backward(name):
        def hook(module, to_inputs, from_outputs):
            if not finite(from_outputs):
                raise Alarm("", "backward")
            if not finite(to_inputs):
                raise Alarm(name, "backward")
        return hook

    for name, module in model.named_modules():
        if name and not list(module.children()):
            module.register_forward_hook(forward(name))
            module.register_full_backward_hook(backward(name))


class Run:
    """A training program in PyTorch into which the plan's code is inserted."""

    def __init__(self, spot, plan, mode):
        self.spot, self.plan, self.mode = spot, plan, mode
        self.model = make_model(spot.model, spot.seed)
        if "initialize" in plan:
            plan["initialize"](self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE[spot.model], eps=plan.get("eps", 1e-8))
        scale = plan.get("scale", 65536.0 if spot.precision == "fp16" else 1.0)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        self.scale = scale
        self.now = None
        if "site" in plan:
            self.model.extra[spot.site].code = lambda x: plan["site"](x, self.now) if self.now else x
        if "embedded" in plan:
            self.model.tokens.register_forward_hook(lambda m, i, y: plan["embedded"](y, self.now) if self.now else y)
        if mode == "hooks":
            add_hooks(self.model)

    def autocast(self):
        low = LOW.get(self.spot.precision)
        return torch.autocast("cpu", dtype=low) if low else contextlib.nullcontext()

    def final_loss(self):
        with torch.autograd.set_detect_anomaly(self.mode == "anomaly"):
            for step in range(1, STEPS + 1):
                self.step(step)
        self.model.eval()
        x, y = make_batch(self.spot.model, self.spot.seed, range(HELD_OUT, HELD_OUT + 8 * ROWS[self.spot.model]))
        with torch.no_grad(), self.autocast():
            logits = self.model(x)
        return self.model.loss(logits.float(), y).item()

    def step(self, step):
        spot, plan = self.spot, self.plan
        marked = step == spot.step
        for group in self.optimizer.param_groups:
            group["lr"] = RATE[spot.model] * (1 + math.cos(math.pi * step / STEPS)) / 2
            group["lr"] *= plan.get("rate_factor", 1) if marked else 1
        if marked and "state" in plan:
            plan["state"](self.model, self.optimizer)
        self.optimizer.zero_grad()
        view = plan["view"](self.model) if marked and "view" in plan else contextlib.nullcontext()
        with view:
            for part in range(spot.micro_batches):
                self.micro_batch(step, part)
        if marked and "after_backward" in plan:
            plan["after_backward"](self.model)
        if plan.get("static"):
            self.scaler.update(self.scale)
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def micro_batch(self, step, part):
        spot, plan, rows = self.spot, self.plan, ROWS[self.spot.model]
        first = ((step - 1) * spot.micro_batches + part) * rows
        x, y = make_batch(spot.model, spot.seed, range(first, first + rows))
        row = spot.row - part * rows
        here = step == spot.step and 0 <= row < rows
        self.now = Now(rows, row) if here else Now(rows, 0) if plan.get("persists") and step > spot.step else None
        if here and "data" in plan:
            plan["data"](x, y, row)
        with self.autocast():
            logits = self.model(x)
            loss = self.model.loss(logits.float(), y)
            if self.now and "loss" in plan:
                loss = loss + plan["loss"](logits, y, self.now)
        if here:
            loss = loss * plan.get("loss_factor", 1)
        if self.mode == "hooks" and not finite(loss):
            raise Alarm("", "forward")
        self.scaler.scale(loss / spot.micro_batches).backward()


def attempt(spot, plan, mode):
    """Returns (final loss or None, Alarm or None)."""
    try:
        return Run(spot, plan, mode).final_loss(), None
    except Alarm as alarm:
        return None, alarm
    except RuntimeError as error:
        named = re.search(r"Function '(\w+?)(?:Backward\w*)?' returned nan", str(error))
        if not named:
            raise
        return None, Alarm(named[1], "backward")


CONTROLS = {}


def control_loss(spot):
    key = spot.model, spot.precision, spot.seed, spot.micro_batches
    if key not in CONTROLS:
        CONTROLS[key] = attempt(spot, {}, "scaler")[0]
    return CONTROLS[key]


def judge(case):
    """Returns the fields of the case, and the result of each tool."""
    spot = Spot(*(case[f] for f in ("family", "model", "precision", "seed", "step", "row", "micro_batches", "site",
                                    "module")))
    fields = ("family", "model", "precision", "seed", "step", "row", "fault", "module", "op", "direction", "recoverable")
    result = {name: case[name] for name in fields}
    plan = FAMILIES[spot.family](spot)
    final, _ = attempt(spot, plan, "scaler")
    same = final is not None and abs(final - control_loss(spot)) <= SAME_LOSS * control_loss(spot)
    result["scaler"] = {"recovered": same, "final_loss": final, "control_loss": control_loss(spot)}
    for mode in ("anomaly", "hooks"):
        _, alarm = attempt(spot, plan, mode)
        right = alarm is not None and case["fault"] and (
            alarm.named in nodes_of(case["op"]) if mode == "anomaly" else
            alarm.named == ("" if case["module"] == "loss" else case["module"]))  # in PyTorch losses are functions, not modules
        result[mode] = {"alarm": alarm is not None, "named": alarm.named if alarm else None,
                        "said": alarm.direction if alarm else None, "op": right,
                        "direction": right and alarm.direction == case["direction"]}
    return result


def share(results, good):
    right = sum(bool(good(r)) for r in results)
    return {"right": right, "of": len(results), "percent": 100.0 * right / max(len(results), 1)}


def totals(results):
    faults = [r for r in results if r["fault"]]
    quiet = [r for r in results if not r["fault"]]
    recoverable = [r for r in faults if r["recoverable"]]
    table = {"scaler": {"recovered": share(recoverable, lambda r: r["scaler"]["recovered"]),
                        "ended_in_nan": share(recoverable, lambda r: not math.isfinite(r["scaler"]["final_loss"]))}}
    for mode in ("anomaly", "hooks"):
        table[mode] = {"alarm": share(faults, lambda r: r[mode]["alarm"]), "op": share(faults, lambda r: r[mode]["op"]),
                       "direction": share(faults, lambda r: r[mode]["direction"]),
                       "quiet_controls": share(quiet, lambda r: not r[mode]["alarm"])}
    return table


def print_table(results, theme_of):
    families = list(dict.fromkeys(r["family"] for r in results))
    themes = list(dict.fromkeys(theme_of.values()))
    columns = ["scaler/recovered", "anomaly/alarm", "anomaly/op", "anomaly/direction", "hooks/alarm", "hooks/op",
               "hooks/direction"]
    print(f"{'family':<42}" + "".join(f"{c:>19}" for c in columns))
    for name in families + themes + ["all with a fault"]:
        of = [r for r in results if name in (r["family"], theme_of[r["family"]]) or (name.startswith("all") and r["fault"])]
        cells = []
        for column in columns:
            mode, key = column.split("/")
            cells.append(f"{sum(bool(r[mode][key]) for r in of)}/{len(of)}")
        print(f"{name:<42}" + "".join(f"{c:>19}" for c in cells))
    for mode, shares in totals(results).items():
        print(f"{mode}: " + ", ".join(f"{k} {s['right']}/{s['of']} = {s['percent']:.1f} %" for k, s in shares.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases")
    parser.add_argument("--json")
    parser.add_argument("--family", default="")
    parser.add_argument("--results")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    with open(args.cases, encoding="utf-8") as file:
        document = json.load(file)
    cases = [c for c in document["cases"] if args.family in c["family"] and c["family"] not in NOT_EXPRESSIBLE]
    unknown = {c["family"] for c in cases} - set(FAMILIES)
    if unknown:
        sys.exit(f"no PyTorch plan for {', '.join(sorted(unknown))}; list them in NOT_EXPRESSIBLE or plant them")
    print(f"PyTorch {torch.__version__}, seed {document['seed']}, {len(cases)} cases; not expressible: "
          f"{', '.join(NOT_EXPRESSIBLE) or 'none'}\n")
    if args.results:
        with open(args.results, encoding="utf-8") as file:
            results = json.load(file)["cases"]
    else:
        results = []
        for case in cases:
            results.append(judge(case))
            gc.collect()  # hooks and models refer to each other
    print_table(results, {c["family"]: c["theme"] for c in cases})
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, "seed": document["seed"], "torch": torch.__version__, "totals": totals(results),
                       "cases": results}, file, indent=1)


if __name__ == "__main__":
    main()
