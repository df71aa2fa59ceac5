"""The tables of docs/truth.md from the records of pytorch_means.py."""
NAMES = ("loop", "clip", "anomaly", "hooks", "dispatch")


def cell(records, counts, hit):
    of = [r for r in records if counts(r)]
    right = sum(bool(hit(r)) for r in of)
    return f"{right} of {len(of)} ({100 * right / len(of):.1f} %)" if of else "-"


def row(title, records, counts, hit):
    cells = (cell(records, lambda r, n=n: counts(r, r["tools"][n]), lambda r, n=n: hit(r["tools"][n])) for n in NAMES)
    return f"| {title} | " + " | ".join(cells) + " |"


def always(record, tool):
    return True


def print_tables(records):
    kind = {k: [r for r in records if r["kind"] == k and "void" not in r] for k in ("fault", "silent", "clean")}
    void = [r for r in records if "void" in r]
    faults = kind["fault"]
    header = "| | " + " | ".join(NAMES) + " |\n|---|" + "---|" * len(NAMES)
    print(header)
    print(row("detected at the step", faults, always, lambda t: t["detected"]))
    print(row("loss of the step NaN or infinite, no words", faults, lambda r, t: not t["detected"],
              lambda t: t.get("loss_nan")))
    print(row("state unchanged by an abort", faults, lambda r, t: t["stopped"], lambda t: t["same"]))
    print(row("state unchanged after the step", faults, always, lambda t: t["same"]))
    for what in ("op", "module", "direction"):
        print(row(f"{what} named correctly", faults, always, lambda t, what=what: t[what]))
    print(row("op, module and direction", faults, always, lambda t: t["op"] and t["module"] and t["direction"]))
    print(row("samples named", faults, lambda r, t: r["samples"], lambda t: False))
    print(row("class named correctly", faults, always, lambda t: t["class"]))
    print(row("recovered", faults, lambda r, t: r["recovers"], lambda t: t["recovered"]))
    print(row("recovered if the exception is caught", faults, lambda r, t: r["recovers"],
              lambda t: t["recovered_if_caught"]))
    print(row("silent defects told", kind["silent"], always, lambda t: t["told"]))
    alarms = []
    for n in NAMES:
        steps = sum(r["tools"][n]["steps"] for r in kind["clean"])
        count = sum(len(r["tools"][n]["alarms"]) for r in kind["clean"])
        alarms.append(f"{count} in {steps} ({1e4 * count / steps:.1f})" if steps else "-")
    print("| false alarms in healthy steps (per 10,000) | " + " | ".join(alarms) + " |")
    print("\n| family | faults |" + "".join(f" {n}: detected / place / recovered |" for n in NAMES))
    for family in dict.fromkeys(r["family"] for r in faults):
        of = [r for r in faults if r["family"] == family]
        cells = []
        for n in NAMES:
            tools = [r["tools"][n] for r in of]
            place = sum(t["op"] and t["module"] and t["direction"] for t in tools)
            key = "recovered" if n == "loop" else "recovered_if_caught"
            cells.append(f" {sum(t['detected'] for t in tools)} / {place} / {sum(bool(t.get(key)) for t in tools)} |")
        print(f"| {family} | {len(of)} |" + "".join(cells))
    print(f"\n{len(faults)} faults counted: {len({r['name'] for r in faults})} of 93 faults in "
          f"{len({r['model'] for r in faults})} models, precisions "
          f"{ {p: sum(r['precision'] == p for r in faults) for p in ('fp32', 'bf16', 'fp16')} }; "
          f"{sum(r['kind'] == 'fault' for r in void)} void; silent: {len(kind['silent'])} counted, "
          f"{sum(r['kind'] == 'silent' for r in void)} void")
