"""count.py STATUS [--left-out SUITE]... BUILD...: sums the results of the build folders' last `meson test`, GoogleTest
case by case.

STATUS is nonzero when something outside the tests failed (a compile error, a time limit). Prints the skips, the failures
and, as the last line, "N passed, N failed, N skipped". Before this it prints "left_out_SUITE:" for each suite that
should have run but did not. Exits nonzero when something failed.
"""
import argparse
import json
import os
import re
import sys

CASE = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (.+?)(?:, where .*)? \(\d+ ms\)$", re.MULTILINE)
SCRIPT_RESULT = {"OK": "OK", "EXPECTEDFAIL": "OK", "SKIP": "SKIPPED"}


def results(build):
    """Yields (name, OK | FAILED | SKIPPED) for every case of every test of one build folder."""
    log = os.path.join(build, "meson-logs", "testlog.json")
    if not os.path.exists(log):
        yield build + ": no test ran", "FAILED"
        return
    with open(log, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            test = json.loads(line)
            name = build + ": " + test["name"]
            outcome = SCRIPT_RESULT.get(test["result"], "FAILED")
            cases = []
            if os.path.basename(test["command"][0]).endswith("_tests"):
                cases = [(name + "/" + case, verdict) for verdict, case in CASE.findall(test.get("stdout", ""))]
            yield from cases
            # After a crash, a leak or a time limit, the program has failed although no case has.
            if not cases or (outcome == "FAILED" and all(verdict != "FAILED" for _, verdict in cases)):
                yield name + " (" + test["result"] + ")", outcome


def main():
    ap = argparse.ArgumentParser(usage="count.py STATUS [--left-out SUITE]... BUILD...")
    ap.add_argument("status", type=int)
    ap.add_argument("builds", nargs="+")
    ap.add_argument("--left-out", action="append", default=[])
    a = ap.parse_args()
    found = [case for build in a.builds for case in results(build)]
    for verdict in ("SKIPPED", "FAILED"):
        for name, outcome in found:
            if outcome == verdict:
                print(f"{verdict.lower()}: {name}")
    count = {verdict: sum(outcome == verdict for _, outcome in found) for verdict in ("OK", "FAILED", "SKIPPED")}
    if a.status and not count["FAILED"]:
        print("failed: a step outside the tests (see above)")
        count["FAILED"] = 1
    left_out = "left_out_" + "_and_".join(a.left_out) + ": " if a.left_out else ""
    print(f"{left_out}{count['OK']} passed, {count['FAILED']} failed, {count['SKIPPED']} skipped")
    return 1 if count["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
