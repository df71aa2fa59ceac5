"""The goals of docs/performance-gpu.md, the comparison of measurements with them, and the table of verdicts."""
import math

VERDICTS = ("met", "missed", "not measured")

# Floating-point operations of one training step; backward needs twice as many as forward. docs/performance-gpu.md derives the numbers.
FLOP_PER_TOKEN = 798.0e6
GEMM_FLOP_PER_TOKEN = 741.4e6
ATTENTION_FLOP_PER_TOKEN = 66.1e6  # forward and backward; backward has five products
FLOP_PER_IMAGE = 1156e9


def goal(name, value, must, stretch=None, at_least=True, unit="x", spread=None, note="", why=""):
    """Returns a row of the table. If `value` is None, nothing was measured, and `why` is the reason."""
    row = {"goal": name, "must": must, "stretch": stretch, "at_least": at_least, "unit": unit, "value": None, "spread": spread,
           "verdict": "not measured", "stretch_met": False, "note": note or why}
    if value is not None and math.isfinite(value):
        reached = (lambda bound: value >= bound) if at_least else (lambda bound: value <= bound)
        row.update(value=round(value, 4), verdict="met" if reached(must) else "missed", note=note,
                   stretch_met=stretch is not None and reached(stretch))
    return row


def find(rows, **fields):
    """Returns the row that has these fields and a time, or None."""
    return next((row for row in rows if "median_ms" in row and all(row.get(k) == v for k, v in fields.items())), None)


def why_not(rows, **fields):
    """Returns the first error of the rows with these fields."""
    return next((row["error"] for row in rows if "error" in row and all(row.get(k) == v for k, v in fields.items())), "")


def fastest(rows, modes, **fields):
    found = [row for mode in modes if (row := find(rows, mode=mode, **fields))]
    return min(found, key=lambda row: row["median_ms"]) if found else None


COMPILED = ("default", "reduce-overhead", "max-autotune")


def speedups(rows, workload, batch, compiled, eager):
    """Speedup of Binade in bf16 over PyTorch in bf16. `compiled` and `eager` are goals (must, stretch), or None."""
    where = dict(workload=workload, batch=batch, precision="bf16", side="torch")
    out = []
    if compiled:
        best = fastest(rows, COMPILED, **where)
        out.append(goal(f"{workload} batch {batch} over the best compiled PyTorch", best and best.get("speedup"), *compiled,
                        spread=best and best.get("speedup_quartiles"), note=f"best of three: {best['mode']}" if best else "",
                        why=next((w for m in COMPILED if (w := why_not(rows, mode=m, **where))), "")))
    if eager:
        row = find(rows, mode="eager", **where)
        out.append(goal(f"{workload} batch {batch} over eager PyTorch", row and row.get("speedup"), *eager,
                        spread=row and row.get("speedup_quartiles"), why=why_not(rows, mode="eager", **where)))
    return out


def over_own(rows, workload, batch, precision, must, stretch):
    """Speedup of Binade in bf16 over Binade in a wider precision."""
    where = dict(workload=workload, batch=batch, precision=precision, name=f"binade {precision}")
    row = find(rows, **where)
    return goal(f"{workload} batch {batch}: bf16 over own {precision}", row and row.get("speedup"), must, stretch,
                spread=row and row.get("speedup_quartiles"), why=why_not(rows, **where))


def memory(rows, workload, batch):
    here = dict(workload=workload, batch=batch)
    mine, wide = find(rows, name="binade bf16", **here), find(rows, name="binade fp32", **here)
    best = fastest(rows, COMPILED, precision="bf16", side="torch", **here)

    def over(row):
        both = mine and row and mine.get("device_peak_mib") and row.get("device_peak_mib")
        return mine["device_peak_mib"] / row["device_peak_mib"] if both else None

    return [goal(f"{workload} batch {batch}: memory, bf16 over fp32", over(wide), 0.65, 0.55, at_least=False),
            goal(f"{workload} batch {batch}: memory over compiled PyTorch's", over(best), 0.90, 0.75, at_least=False)]


def rate(rows, workload, batch, items, unit, must, stretch):
    row = find(rows, workload=workload, batch=batch, name="binade bf16")
    return goal(f"{workload} batch {batch}: {unit}", row and items / row["median_ms"] * 1e3, must, stretch, unit=unit,
                note="the goal is an H200's" if row else "", why=why_not(rows, workload=workload, batch=batch, name="binade bf16"))


def gpt2_floor_ms(batch, gemm_tflop_s, copy_tb_s):
    """Returns a lower bound for the time of a GPT-2 step of `batch` x 1024 tokens at measured rates: products at the rate of a
    square product, attention at 0.32 times that rate; norms and classifier (295 and 201 KB per token) and the optimizer (3.73 GB) at
    the rate of a copy."""
    tokens = batch * 1024
    seconds = tokens * (GEMM_FLOP_PER_TOKEN / gemm_tflop_s + ATTENTION_FLOP_PER_TOKEN / (0.32 * gemm_tflop_s)) * 1e-12
    return (seconds + (tokens * (295e3 + 201e3) + 3.73e9) / copy_tb_s * 1e-12) * 1e3


def op(lines, what, dtype=None):
    return next((line for line in lines if line.get("what") == what and "us" in line and dtype in (None, line.get("dtype"))), None)


def of_ops(ours, theirs):
    """Returns the rows of norms, optimizer and attention, from the lines of gpu_bench and gpu_ops.py."""
    copies = [line["tb_s"] for line in (op(ours, "device to device"), op(theirs, "device to device")) if line]
    copy = max(copies, default=None)
    rows = []
    for what in ("layer_norm forward", "layer_norm backward", "add_layer_norm forward"):
        line = op(ours, what)
        rows.append(goal(what, line and line["tb_s"], 3.5, 3.8, unit="TB/s", note="the goal is an H200's" if line else ""))
    adam = op(ours, "adamw of 124M")
    rows.append(goal("optimizer: share of a copy", adam["tb_s"] / copy if adam and copy else None, 0.90, 0.95, unit=""))
    for what in ("attention forward", "attention backward"):
        line, peer = op(ours, what), op(theirs, what)
        rows.append(goal(f"{what} over cuDNN's through PyTorch", peer["us"] / line["us"] if line and peer else None, 0.95, 1.0,
                         note="not interleaved" if line and peer else "", why="" if line else "ours failed"))
    return rows


def judge(document):
    """Returns all rows of the table for the measurements in `document`."""
    steps, ours, theirs = document["steps"], document["ops"], document["peer_ops"]
    gpt, unet = document["names"]["gpt"], document["names"]["unet"]
    rows = []
    for batch, compiled, eager in ((64, (1.10, 1.20), (1.6, 2.0)), (8, (1.15, 1.25), (2.0, 2.5)), (4, (1.15, 1.25), (2.0, 2.5))):
        rows += speedups(steps, gpt, batch, compiled, eager)
    rows.append(rate(steps, gpt, 64, 64 * 1024, "tokens/s", 600e3, 640e3))
    copy, square = op(ours, "device to device"), next((x for x in ours if x.get("part") == "gemm" and x.get("dtype") == "bf16" and "us" in x), None)
    mine = find(steps, workload=gpt, batch=64, name="binade bf16")
    floor = gpt2_floor_ms(64, square["tflop_s"], copy["tb_s"]) / mine["median_ms"] if copy and square and mine else None
    rows.append(goal(f"{gpt} batch 64: share of the floor at measured rates", floor, 0.80, 0.86, unit=""))
    for batch, compiled, eager in ((32, (1.10, 1.20), (1.2, 1.35)), (16, (1.10, 1.20), (1.2, 1.35)), (1, None, (1.5, 2.0))):
        rows += speedups(steps, unet, batch, compiled, eager)
    rows.append(rate(steps, unet, 32, 32, "images/s", 340, 400))
    for workload, batch in ((gpt, 8), (unet, 16)):
        rows.append(over_own(steps, workload, batch, "tf32", 1.7, 1.9))
        rows.append(over_own(steps, workload, batch, "fp32", 5.0, 8.0))
        rows += memory(steps, workload, batch)
        half = find(steps, workload=workload, batch=batch, name="binade fp16")
        rows.append(goal(f"{workload} batch {batch}: fp16 with its scaler over bf16", half and half.get("speedup"), 1.01, 1.003, at_least=False,
                         spread=half and half.get("speedup_quartiles"), why=why_not(steps, workload=workload, batch=batch, name="binade fp16")))
        watched = next((x for x in document["overhead"] if x.get("workload") == workload and "ratio" in x), None)
        rows.append(goal(f"{workload} batch {batch}: telemetry on over off", watched and watched["ratio"], 1.01, 1.003, at_least=False,
                         spread=watched and [watched["low"], watched["high"]]))
        first = find(steps, workload=workload, batch=batch, name="binade bf16")
        rows.append(goal(f"{workload} batch {batch}: start to first step, no plans kept", first and first["start_s"], 10, at_least=False, unit="s"))
    api = document["kernels"].get("nsys", {}).get("api") or {}
    missing = document["kernels"].get("nsys", {}).get("missing", "")
    rows.append(goal("waits of the host a step", api.get("waits"), 0, at_least=False, unit="", why=missing,
                     note="one is the loss, which Trainer::step returns" if api else ""))
    rows.append(goal("graph launches a step", api.get("graph_launches"), 1, at_least=False, unit="", why=missing))
    rows += of_ops(ours, theirs)
    stall = document["checkpoint"].get("stall_ms")
    rows.append(goal("checkpoint: stall a save", stall, 1.0, 0.3, at_least=False, unit="ms", why=document["checkpoint"].get("error", "")))
    return rows


def number(x):
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}"


def text_of(rows):
    """Returns the table as text: goal, measured value with its spread, bound, verdict."""
    lines = [f"{'goal':<62} {'measured':>10} {'quartiles':>15} {'must':>9} {'stretch':>8}  verdict"]
    for r in rows:
        sign = ">= " if r["at_least"] else "<= "
        measured = number(r["value"]) if r["value"] is not None else "-"
        spread = f"{number(r['spread'][0])}-{number(r['spread'][1])}" if r["spread"] and r["value"] is not None else ""
        verdict = r["verdict"] + (", stretch too" if r["stretch_met"] else "") + (f" ({r['note'][:70]})" if r["note"] else "")
        stretch = number(r["stretch"]) if r["stretch"] is not None else ""
        lines.append(f"{r['goal'] + (' ' + r['unit'] if r['unit'] not in ('', 'x', 'tokens/s', 'images/s') else ''):<62} {measured:>10} {spread:>15} "
                     f"{sign + number(r['must']):>9} {stretch:>8}  {verdict}")
    counts = {v: sum(r["verdict"] == v for r in rows) for v in VERDICTS}
    lines.append(", ".join(f"{counts[v]} {v}" for v in VERDICTS))
    return "\n".join(lines)
