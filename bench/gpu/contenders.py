"""Starts contenders, processes that wait for `step N`, and times their steps in turn.

The protocol is that of bench/run.py: one JSON object per line on stdout; first `ready`, then an answer to each line of stdin. On a
GPU answers also contain `device_peak_mib`. A contender that does not answer in time, or answers with an error, is excluded; the
others go on.
"""
import contextlib
import json
import queue
import statistics
import subprocess
import threading
import time

MEMORY = ("ended with 50:", "out of memory", "OutOfMemory", "ALLOC_FAILED", "cudaErrorMemoryAllocation")


class Failed(Exception):
    """A contender failed. `memory`: true if the device had no memory left."""

    def __init__(self, text):
        super().__init__(text)
        self.memory = any(word in text for word in MEMORY)


class Deadline:
    """The time limit of a run, which all its parts share."""

    def __init__(self, seconds, clock=time.monotonic):
        self.clock, self.end = clock, clock() + seconds

    def left(self):
        return self.end - self.clock()

    def over(self, need=0.0):
        return self.left() <= need


class Contender:
    """One process. `plan` is a dict with name, command and env; its other fields are copied to the row of results."""

    def __init__(self, plan, log, limits):
        self.plan, self.name, self.limits = plan, plan["name"], limits
        self.rounds, self.answers, self.about, self.first_loss, self.warm_loss = [], [], {}, None, None
        self.began, self.answered, self.start_s = time.monotonic(), None, None
        self.lines, self.errors = queue.Queue(), []
        try:
            self.process = subprocess.Popen([str(part) for part in plan["command"]], env=plan.get("env"), stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1, errors="replace")
        except OSError as error:
            raise Failed(str(error)) from None
        self.threads = [threading.Thread(target=self._read, daemon=True), threading.Thread(target=self._listen, args=(log,), daemon=True)]
        for thread in self.threads:
            thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put((time.monotonic(), line))
        self.lines.put((time.monotonic(), None))

    def _listen(self, log):
        for line in self.process.stderr:
            self.errors = [*self.errors[-30:], line.rstrip()]
            if log:
                log.write(f"{self.name}: {line}")

    def say(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # answer() reports the reason

    def answer(self, seconds):
        try:
            self.answered, line = self.lines.get(timeout=max(0.01, seconds))
        except queue.Empty:
            raise Failed(f"no answer after {seconds:.0f} s") from None
        if line is None:
            status = self.process.wait()
            self.threads[1].join(timeout=5)  # so that the rest of stderr is read
            raise Failed(f"ended with {status}: {' | '.join(self.errors[-3:])[-400:]}")
        try:
            fields = json.loads(line)
        except ValueError:
            raise Failed(f"answered {line.strip()[:200]!r}") from None
        if "error" in fields:
            raise Failed(str(fields["error"])[:400])
        return fields

    def step(self, count, seconds):
        self.say(f"step {count}")
        return self.answer(seconds)

    def quit(self):
        self.say("quit")
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self.threads:
            thread.join(timeout=5)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()


LIMITS = {"ready": 180.0, "first": 420.0, "turn": 90.0}


def start(plans, log, limits, together):
    """Starts contenders and runs their first steps. Returns (running contenders, [(plan, Failed)]). The first one starts alone, so
    that it finds enough memory. The others start at the same time if `together`, except those with `alone` (they time kernels
    when they compile), which follow one by one."""
    others = plans[1:]
    waves = [[plan] for plan in others] if not together else (
        [[plan for plan in others if not plan.get("alone")]] + [[plan] for plan in others if plan.get("alone")])
    stand, failed = [], []
    for wave in [plans[:1], *waves]:
        begun, first = [], []
        for plan in wave:
            try:
                begun.append(Contender(plan, log, limits))
                begun[-1].say("step 1")
            except Failed as error:
                failed.append((plan, error))
        for c in begun:
            try:
                c.about = c.answer(limits["ready"])
                c.first_loss, c.start_s = c.answer(limits["first"])["first_loss"], c.answered - c.began
                first.append(c)
            except Failed as error:
                c.quit()
                failed.append((c.plan, error))
        warm, cold = warm_up(first)
        stand += warm
        failed += cold
    return stand, failed


def warm_up(found, steps=6):
    """Runs the steps in which libraries choose plans and graphs are captured. Returns (running contenders, [(plan, Failed)])."""
    stand, failed = [], []
    for c in found:
        try:
            c.warm_loss = c.step(steps, c.limits["first"])["loss"]
            c.once_ms = c.step(1, c.limits["turn"])["ms"]
            stand.append(c)
        except Failed as error:
            c.quit()
            failed.append((c.plan, error))
    return stand, failed


def loss_fault(c, found, expected, bound, peer_bound):
    """Checks by its losses that contender `c` trains the right model. Returns what is wrong as text, or "" if nothing is.
    `found` are the contenders that were accepted before."""
    if not (c.first_loss == c.first_loss and c.warm_loss == c.warm_loss):
        return f"the loss is {c.first_loss}, then {c.warm_loss}"
    if expected and abs(c.first_loss / expected - 1) > bound:
        return f"the first loss is {c.first_loss:.4f}, wanted {expected:.4f} within {bound:.0%}"
    if not c.warm_loss < c.first_loss:
        return f"the loss does not fall: {c.first_loss:.5f}, then {c.warm_loss:.5f}"
    for other in found:
        if other.plan["side"] == c.plan["side"] and abs(other.first_loss - c.first_loss) > peer_bound * abs(other.first_loss):
            return f"first losses differ on one side: {c.first_loss:.5f}, and {other.first_loss:.5f} of {other.name}"
    return ""


def run_rounds(found, rounds, turn_ms, deadline):
    """Times the contenders in turn, in rotating order. Contenders that fail are removed and returned as [(plan, Failed)]."""
    failed, found = [], list(found)
    for r in range(rounds):
        if r >= 3 and deadline.over():
            break
        turn = r % max(1, len(found))
        for c in found[turn:] + found[:turn]:
            try:
                count = max(1, min(200, round(turn_ms / max(c.once_ms, 1e-3))))
                c.answers.append(c.step(count, c.limits["turn"] + 3 * turn_ms / 1e3))
                c.rounds.append(c.answers[-1]["ms"])
            except Failed as error:
                found.remove(c)
                failed.append((c.plan, error))
    return failed


def facts_of(plan):
    return {k: v for k, v in plan.items() if k not in ("command", "env", "alone")}


def quartiles(values):
    values = sorted(values)
    return [round(values[int(q * (len(values) - 1) + 0.5)], 4) for q in (0.25, 0.75)]


def row_of(c, base):
    """Returns a contender's results. `speedup` is its time divided by the time of `base` in the same round (median)."""
    last = c.answers[-1]
    row = facts_of(c.plan)
    row.update(backend=c.about.get("backend"), parameters=c.about.get("parameters"), median_ms=round(statistics.median(c.rounds), 4),
               quartiles_ms=quartiles(c.rounds), rounds=len(c.rounds), first_loss=c.first_loss, warm_loss=c.warm_loss,
               loss=last.get("loss"), start_s=round(c.start_s, 2), device_peak_mib=last.get("device_peak_mib"),
               peak_mib=last.get("peak_mib"))
    if base is not None and c is not base:
        ratios = [mine / its for mine, its in zip(c.rounds, base.rounds)]
        row.update(speedup=round(statistics.median(ratios), 4), speedup_quartiles=quartiles(ratios))
    return row


def race(plans, rounds, turn_ms, deadline, check, log=None, limits=None, together=True):
    """Times all plans and returns their rows. The first plan is the base of the speedups. Plans that fail for lack of memory are
    tried again in another race against the base; if a plan fails even alone with the base, its row contains the error."""
    limits, rows, waiting = {**LIMITS, **(limits or {})}, [], list(plans)
    base_plan, told_base = plans[0], False
    waiting = waiting[1:]
    while True:
        group = [base_plan, *waiting]
        if told_base and deadline.over(30):
            return rows + [failed_row(plan, "time was out") for plan in waiting]
        warm, failed = start(group, log, limits, together)
        faults, racing = {}, []
        for c in warm:
            faults[c.name] = check(c, racing)
            if not faults[c.name]:
                racing.append(c)
        failed += run_rounds(racing, rounds, turn_ms, deadline)
        base = next((c for c in racing if c.plan is base_plan and c.rounds), None)
        for c in warm:
            c.quit()
        gone = [id(plan) for plan, _ in failed]
        for c in warm:
            if id(c.plan) in gone or (c.plan is base_plan and told_base):
                continue
            rows.append(failed_row(c.plan, faults[c.name]) if faults[c.name] else row_of(c, base))
        waiting = []
        for plan, error in failed:
            if plan is base_plan:
                if not told_base:
                    rows.append(failed_row(plan, str(error)))
            elif error.memory and len(group) > 2:
                waiting.append(plan)
            else:
                rows.append(failed_row(plan, str(error)))
        told_base = True
        if not waiting:
            return rows
        if len(waiting) == len(group) - 1:  # all failed for lack of memory: try them one by one
            for plan in waiting:
                if deadline.over(30):
                    rows.append(failed_row(plan, "time was out"))
                else:
                    pair = race([base_plan, plan], rounds, turn_ms, deadline, check, log, limits, together)
                    rows += [row for row in pair if row["name"] == plan["name"]]
            return rows


def failed_row(plan, text):
    return {**facts_of(plan), "error": text}
