"""Writes the page docs/onnx-nodes.md: the results of ONNX's node tests, by operator."""
import collections

import onnx
from onnx import defs

CONTROL = "control flow is C++: `if`, `for`"
SEQUENCE = "a sequence is a `std::vector`: its members"
OPTIONAL = "an optional is an undefined `Variable`"
STRINGS = "no tensors of strings"

# Operators that the program does not support: what a user can use instead, or what Binade lacks.
MISSING = {
    "DeformConv": "no deformable convolution",
    "If": CONTROL,
    "ImageDecoder": "image files are read by `io/`, not by an op",
    "LinearAttention": "no linear attention",
    "Loop": CONTROL,
    "MaxRoiPool": "no pooling of regions",
    "MelWeightMatrix": "no filter banks of audio",
    "NonMaxSuppression": "no non-maximum suppression",
    "Optional": OPTIONAL,
    "OptionalGetElement": OPTIONAL,
    "OptionalHasElement": OPTIONAL,
    "RegexFullMatch": STRINGS,
    "RoiAlign": "no pooling of regions",
    "Scan": CONTROL,
    "SequenceAt": SEQUENCE,
    "SequenceConstruct": SEQUENCE,
    "SequenceEmpty": SEQUENCE,
    "SequenceErase": SEQUENCE,
    "SequenceInsert": SEQUENCE,
    "SequenceLength": SEQUENCE,
    "SequenceMap": CONTROL,
    "StringConcat": STRINGS,
    "StringNormalizer": STRINGS,
    "StringSplit": STRINGS,
    "TfIdfVectorizer": "no counts of n-grams",
}


def missing(op):
    return MISSING.get(op, "no function")


def operators_of_onnx():
    """The operators of the default domain that are not deprecated."""
    return {s.name for s in defs.get_all_schemas() if not s.domain and not s.deprecated}


def counts(reasons):
    """"dtype int8 (4), strings": reasons with their number of cases, the most frequent first."""
    return "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in reasons.most_common())


def reason_of(text):
    """The reason for the page: all dtypes that Binade lacks are counted as one reason."""
    return "dtypes that Binade lacks" if "no dtype " in text else text


def page(nodes, graphs, operators):
    known = operators_of_onnx()
    rows, lacking, own = [], collections.defaultdict(lambda: [0, set()]), 0
    said_operators, complete = [], 0
    for op in sorted(known):
        of_onnx = [r for r in nodes if r.op == op and not r.name.startswith("own_")]
        by_us = [r for r in nodes if r.op == op and r.name.startswith("own_")]
        said = [r for r in of_onnx if r.state != "cannot"]
        passed = [r for r in said if r.state == "passed"]
        reasons = collections.Counter(reason_of(r.reason) for r in of_onnx if r.state == "cannot")
        for reason, count in reasons.items():
            lacking[reason][0] += count
            lacking[reason][1].add(op)
        notes = counts(reasons)
        if not of_onnx:
            notes = "no case in ONNX" + ("; one of ours" if by_us else f"; {missing(op)}" if op not in operators else "")
        if passed or any(r.state == "passed" for r in by_us):
            said_operators.append(op)
            own += not of_onnx
            complete += bool(of_onnx) and len(passed) == len(of_onnx)
        rows.append(f"| {op} | {len(of_onnx)} | {len(said)} | {len(passed)} | {notes} |")
    mine = [r for r in nodes if r.op in known and not r.name.startswith("own_")]
    said = [r for r in mine if r.state != "cannot"]
    passed = [r for r in said if r.state == "passed"]
    loose = [r.name for r in passed if not r.tight]
    failed = [r.name for r in nodes + graphs if r.state == "failed"]
    graph_states = collections.Counter(r.state for r in graphs)
    graph_reasons = collections.Counter(reason_of(r.reason) for r in graphs if r.state == "cannot")
    dtypes = collections.Counter(r.reason.split("no dtype ")[1] for r in nodes if r.state == "cannot" and reason_of(r.reason) != r.reason)
    wanted = sorted(lacking.items(), key=lambda item: (-item[1][0], item[0]))
    lines = [
        "# ONNX's node tests",
        "",
        "ONNX defines operators, and tests each of them with single nodes: attributes, inputs and expected outputs. The tests are a",
        "second opinion about Binade's functions, written by others. `./dev onnx-nodes` installs the package `onnx`, carries out",
        "every node that Binade's functions can express, and writes this page. The functions for each operator are in",
        "`io/onnx/nodes/`; the importer of ONNX files uses them too, except those of sequences ([onnx.md](onnx.md)). Most",
        "operators are at most three lines of public functions. The functions in these files are longer, because they read all",
        "attributes and exchange layouts: (N, C, H, W) in ONNX and (N, H, W, C) in Binade.",
        "",
        f"With onnx {onnx.__version__}: **{len(said_operators)} of {len(known)} operators can be expressed**, {complete} of them in every case of ONNX.",
        f"Of {len(mine)} cases, {len(said)} can be expressed, and {len(passed)} of these pass.",
        f"{own} operators have no case in ONNX and were tested with our own. The suite repeats one small case of each operator",
        "without the package (`tests/onnx/recorded_test.cpp`).",
        "",
        "Outputs have the shape and dtype that ONNX expects. Values are within ONNX's tolerance (rtol 1e-3, bf16: 2^-6; atol 1e-7)",
        "or within ours, which depends on the largest value of an output, because the terms of a sum may cancel.",
        f"Of {len(passed)} cases, {len(passed) - len(loose)} are within ours: f32 1e-5 of each and 1e-6 of the largest value, f64 2e-9 and",
        "1e-11, f16 and bf16 one step." + (" The others: " + ", ".join(f"`{name}`" for name in loose) + "." if loose else ""),
        "ONNX rounds its bf16 values after each operation, and wrote some of the expected averages with four digits.",
        "Random numbers (Bernoulli, dropout in training, …) are compared by shape and dtype only.",
        "",
        f"ONNX also tests operators as graphs of simpler ones. Of {len(graphs)} graphs, carried out node by node,",
        f"{graph_states['passed']} pass (f16: within two steps, because each node rounds), and {graph_states['cannot']} cannot be expressed:",
        f"{counts(graph_reasons)}.",
        "",
    ]
    if failed:
        lines += ["These cases fail: " + ", ".join(f"`{name}`" for name in failed) + ".", ""]
    lines += [
        "## What is missing most",
        "",
        "Reasons why cases cannot be expressed, the most frequent first.",
        "",
        "| reason | cases | operators |",
        "|---|---|---|",
        *(f"| {reason} | {count} | {', '.join(sorted(ops)) if len(ops) <= 12 else f'{len(ops)} operators'} |" for reason, (count, ops) in wanted),
        "",
        f"Dtypes that Binade lacks: {counts(dtypes)}.",
        "",
        "## Operators",
        "",
        "| operator | cases | expressed | passed | what cannot be expressed |",
        "|---|---|---|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"
