#!/usr/bin/env python3
"""Measures what PyTorch's own tools report about the faults of tests/truth, and whether a run recovers (docs/truth.md).

    run.py [--seed N] [--scenarios N] [--silent N] [--clean-steps N] [--only TEXT] [--out FILE]
    run.py --read FILE      # prints the tables of an earlier --out again

The 93 faults are planted in the 24 models of models.py and more_models.py, in fp32, bf16 and fp16. A scenario is a
fault with drawn model, precision, step, samples, positions and magnitudes; each round of 93 scenarios has every fault
once. All tools of tools.py run on the same step: each gets a copy of one session. A fault that fails its verification is
void and not counted (judge.py).
Needs PyTorch 2.8 or later; runs on the CPU, on one thread.
"""
import argparse
import contextlib
import gc
import itertools
import json
import math
import random
import sys
import warnings

import torch

from data import choices
from faults import ALL_PRECISIONS, all_faults, silent_defects
from judge import Void, judge, recovered, verify, without_gradient
from more_models import ALL
from session import NoProgress, Session, same_bits
from tables import print_tables
from tools import TOOLS, Alarm, observe

AFTER = 40  # committed steps after the fault, before the losses are compared
SILENT_STEPS = 20  # few are enough, because no tool keeps data from step to step
CLEAN_STEPS = 50  # of one healthy run


def planned(faults, only, seed, purpose):
    """Yields (fault, model) without end, in rounds: each has every fault once, in one of the models that it fits."""
    def fits(fault, task):
        return fault.fits(task) and only in f"{getattr(fault, 'family', 'silent')} | {fault.name} | {task.name}"

    draw = choices(seed, purpose)
    models = [(fault, [task for task in ALL if fits(fault, task)]) for fault in faults]
    models = [(fault, draw.sample(tasks, len(tasks))) for fault, tasks in models if tasks]
    for turn in itertools.count() if models else ():
        for fault, tasks in draw.sample(models, len(models)):
            yield fault, tasks[turn % len(tasks)]


def options_of(fault, task, precision, seed):
    options = {"model": task.name, "precision": precision, "seed": seed}
    fault.configure(options, choices(seed, "configure"))
    return options


def warmed_up(fault, options, steps):
    session = Session(**options)
    fault.prepare(session)
    session.train_to(steps)
    return session


def with_fault(fault, session, seed):
    """Returns (copy of the session with the fault planted, samples of its next batch, truth)."""
    s = session.copy()
    ids = s.next_ids()
    return s, ids, fault.plant(s, ids, choices(seed, "plant"))


def unharmed_losses(fault, options, session, truth, seed, start):
    """Returns the held-out losses of runs that a correct remedy may lead to, without runs that do not reach their last step."""
    def end(s, ids):
        try:
            s.step(ids)
            s.train_to(start + AFTER)
            return [s.held_out()]
        except (NoProgress, IndexError):
            return []

    if fault.from_the_start:
        session = warmed_up(fault, {k: v for k, v in options.items() if k != "fixed_scale"}, start)
    losses = end(s := session.copy(), s.next_ids())
    if truth.ids:
        s = session.copy()
        s.quarantined = set(truth.ids)
        losses += end(s, s.next_ids())
    if truth.proof in ("overflow", "rounded") and options["precision"] != "fp32":
        wide, ids, _ = with_fault(fault, warmed_up(fault, {**options, "precision": "fp32"}, start), seed)
        losses += end(wide, ids)
    return [u for u in losses if math.isfinite(u)]


def run_tool(tool, session, ids, truth, answer, before, references, start):
    """Runs the step with one tool, and then the rest of the training."""
    s = session.copy()
    tool.attach(s)
    kept, report, loss = s.state(), None, None
    try:
        loss = s.step(ids, tool)
    except Alarm as alarm:
        report = alarm.report
        s.skip_batch()
    result = judge(report, truth, answer, s.task)
    result.update(detected=report is not None, stopped=report is not None or s.scale_lowered,
                  same=same_bits(kept, s.state()), text=report.text[:200] if report else "")
    if loss is not None:
        result["loss_nan"] = not math.isfinite(loss)
    if truth.recovers:
        result["recovered_if_caught"] = False
        with contextlib.suppress(NoProgress):
            if not any(bool(torch.isnan(t).any()) for t in s.state().values()):  # a NaN in the state stays there
                s.train_to(start + AFTER, tool, (Alarm,), set(truth.ids))
                result["recovered_if_caught"] = recovered(s.held_out(), before, references)
        result["recovered"] = result["recovered_if_caught"] and s.caught == 0
    return result


def trial(fault, task, precision, seed):
    record = {"kind": "fault", "family": fault.family, "name": fault.name, "model": task.name, "precision": precision,
              "seed": seed}
    start = 0 if fault.from_the_start else 6 + choices(seed, "step").randrange(12)
    options = options_of(fault, task, precision, seed)
    try:
        session = warmed_up(fault, options, start)
        marked, ids, truth = with_fault(fault, session, seed)
        answer = verify(marked, ids, truth)
    except (Void, NoProgress) as why:
        return {**record, "void": str(why) or "no progress"}
    before = session.held_out()
    references = unharmed_losses(fault, options, session, truth, seed, start) if truth.recovers else []
    if truth.recovers and not references:
        return {**record, "void": "no unharmed run"}
    record.update(proof=truth.proof, samples=bool(truth.ids), recovers=truth.recovers, tools={})
    for tool in TOOLS:
        record["tools"][tool.name] = run_tool(tool(), marked, ids, truth, answer, before, references, start)
    return record


def silent_trial(defect, task, precision, seed):
    record = {"kind": "silent", "name": defect.name, "model": task.name, "precision": precision, "seed": seed}
    session = Session(**options_of(defect, task, precision, seed))
    defect.prepare(session)
    first, dead = None, []
    if defect.proof == "swallowed":
        first, finite = observe(session, session.copy().next_ids(), 1.0)
        if first is None or not finite:
            return {**record, "void": "no op overflows" if first is None else "the loss is not finite"}
    if defect.proof == "no gradient" and not (dead := without_gradient(session)):
        return {**record, "void": "every parameter has a gradient"}

    def names_the_place(report):
        """A report must name the place: the op or module that overflows, or a module without a gradient."""
        if first is not None:
            return bool((report.ops or set()) & first.ops) or report.module == first.module
        return not dead or report.module in {"net." + name.rpartition(".")[0] for name in dead}

    record["tools"] = {}
    for tool in (t() for t in TOOLS):
        s = session.copy()
        tool.attach(s)
        reported = ""
        for _ in range(SILENT_STEPS):
            try:
                s.step(s.next_ids(), tool)
            except Alarm as alarm:
                s.skip_batch()
                if names_the_place(alarm.report):
                    reported = alarm.report.text
                    break
        record["tools"][tool.name] = {"reported": bool(reported), "text": reported[:200]}
    return record


def clean_trial(task, precision, seed, steps):
    record = {"kind": "clean", "model": task.name, "precision": precision, "seed": seed, "tools": {}}
    for tool in (t() for t in TOOLS):
        s = Session(task.name, precision, seed)
        tool.attach(s)
        alarms = []
        for _ in range(steps):
            try:
                s.step(s.next_ids(), tool)
            except Alarm as alarm:
                alarms.append(alarm.report.text[:120])
                s.skip_batch()
        record["tools"][tool.name] = {"steps": steps, "alarms": alarms}
    return record


def run(o):
    records = []

    def keep(record):
        records.append(record)
        gc.collect()  # hooks and sessions refer to each other
        if o.out:
            with open(o.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    head = {"kind": "head", "torch": torch.__version__, "seed": o.seed, "command": " ".join(sys.argv[1:])}
    if o.out:
        open(o.out, "w", encoding="utf-8").close()
    keep(head)
    for faults, count, one, purpose in ((all_faults(), o.scenarios, trial, "faults"),
                                        (silent_defects(), o.silent, silent_trial, "silent")):
        for i, (fault, task) in enumerate(itertools.islice(planned(faults, o.only, o.seed, purpose), count)):
            seed = choices(o.seed, f"{purpose} {i}").getrandbits(40)
            keep(one(fault, task, choices(seed, "precision").choice(fault.precisions), seed))
    for i in range(0, o.clean_steps, CLEAN_STEPS):
        seed = choices(o.seed, f"clean {i}").getrandbits(40)
        task, precision = ALL[i // CLEAN_STEPS % len(ALL)], choices(seed, "precision").choice(ALL_PRECISIONS)
        keep(clean_trial(task, precision, seed, CLEAN_STEPS))
    print_tables(records)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(31),
                        help="seed of all random choices (default: a new one, which is printed)")
    parser.add_argument("--scenarios", type=int, default=279, help="number of faults (default: three rounds)")
    parser.add_argument("--silent", type=int, default=24, help="number of silent defects")
    parser.add_argument("--clean-steps", type=int, default=1200, help="total number of steps of all healthy runs")
    parser.add_argument("--only", default="", help="only faults whose `family | name | model` contains the text")
    parser.add_argument("--out", help="writes JSON lines, one for each fault, silent defect and healthy run")
    parser.add_argument("--read", help="prints the tables of such a file")
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print(f"seed {o.seed}, PyTorch {torch.__version__}", flush=True)
    if o.read:
        with open(o.read, encoding="utf-8") as file:
            print_tables([json.loads(line) for line in file])
    else:
        run(o)


if __name__ == "__main__":
    main()
