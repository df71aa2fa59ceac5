"""The tables of docs/truth.md, from the records of run.py."""
from tools import TOOLS

NAMES = tuple(tool.name for tool in TOOLS)


def cell(records, counts, hit):
    of = [r for r in records if counts(r)]
    right = sum(bool(hit(r)) for r in of)
    return f"{right} of {len(of)} ({100 * right / len(of):.0f} %)" if of else "-"


def row(title, records, counts, hit):
    cells = (cell(records, lambda r, n=n: counts(r, r["tools"][n]), lambda r, n=n: hit(r["tools"][n])) for n in NAMES)
    return f"| {title} | " + " | ".join(cells) + " |"


def always(record, tool):
    return True


def alarms(clean, name):
    steps = sum(r["tools"][name]["steps"] for r in clean)
    count = sum(len(r["tools"][name]["alarms"]) for r in clean)
    return f"{count} in {steps} ({1e4 * count / steps:.1f})" if steps else "-"


def print_tables(records):
    kind = {k: [r for r in records if r["kind"] == k and "void" not in r] for k in ("fault", "silent", "clean")}
    void = [r for r in records if "void" in r]
    faults = kind["fault"]
    print("\n| | " + " | ".join(NAMES) + " |\n|---|" + "---|" * len(NAMES))
    print(row("detected at the step", faults, always, lambda t: t["detected"]))
    print(row("not detected, but the loss of the step is NaN or infinite", faults, lambda r, t: not t["detected"],
              lambda t: t.get("loss_nan")))
    print(row("state unchanged by an abort (by the scaler's skip, too)", faults, lambda r, t: t["stopped"],
              lambda t: t["same"]))
    print(row("state unchanged after the step, aborted or not", faults, always, lambda t: t["same"]))
    for what in ("op", "module", "direction"):
        print(row(f"{what} correct", faults, always, lambda t, what=what: t[what]))
    print(row("op, module and direction correct", faults, always, lambda t: t["op"] and t["module"] and t["direction"]))
    print(row("samples correct, if particular samples cause the fault", faults, lambda r, t: r["samples"],
              lambda t: False))  # no tool names samples
    print(row("class correct", faults, always, lambda t: t["class"]))
    print(row("recovered as it is", faults, lambda r, t: r["recovers"], lambda t: t["recovered"]))
    print(row("recovered if caught", faults, lambda r, t: r["recovers"], lambda t: t["recovered_if_caught"]))
    print(row("silent defects reported", kind["silent"], always, lambda t: t["reported"]))
    print("| false alarms in healthy steps (per 10,000) | " + " | ".join(alarms(kind["clean"], n) for n in NAMES) + " |")

    print("\n| family | faults | " + " | ".join(NAMES) + " |\n|---|---|" + "---|" * len(NAMES))
    for family in dict.fromkeys(r["family"] for r in faults):
        of = [r for r in faults if r["family"] == family]
        cells = []
        for n in NAMES:
            tools = [r["tools"][n] for r in of]
            place = sum(t["op"] and t["module"] and t["direction"] for t in tools)
            key = "recovered" if n == "loop" else "recovered_if_caught"
            cells.append(f"{sum(t['detected'] for t in tools)} / {place} / {sum(bool(t.get(key)) for t in tools)}")
        print(f"| {family} | {len(of)} | " + " | ".join(cells) + " |")

    by_precision = {p: sum(r["precision"] == p for r in faults) for p in ("fp32", "bf16", "fp16")}
    loop = {p: [r["tools"]["loop"] for r in faults if r["precision"] == p and r["recovers"]] for p in by_precision}
    print(f"\n{len(faults)} faults counted: {len({r['name'] for r in faults})} of 93 faults in "
          f"{len({r['model'] for r in faults})} models, precisions {by_precision}; "
          f"{sum(r['kind'] == 'fault' for r in void)} void. Silent: {len(kind['silent'])} counted, "
          f"{sum(r['kind'] == 'silent' for r in void)} void.")
    print("The loop recovered as it is: " + ", ".join(
        f"{sum(bool(t['recovered']) for t in tools)} of {len(tools)} in {p}" for p, tools in loop.items()))
