#!/usr/bin/env python3
"""Runs the node tests of the package `onnx` with Binade's functions, and writes docs/onnx-nodes.md. `./dev onnx-nodes` calls it.

    run_nodes.py --program build/tests/onnx/onnx_nodes [--only PATTERN] [--page docs/onnx-nodes.md] [--record tests/golden/data/onnx.nodes.txt]

Each case is one node: an operator, its attributes, its inputs and the outputs that ONNX expects. The program runs it, or
reports why Binade's functions cannot express it. Outputs must have the expected shape and dtype, and values within ONNX's tolerance
(rtol 1e-3, 2^-6 for bf16; atol 1e-7) or within another tolerance relative to the largest value (`within()`); the page counts
the cases within the second tolerance. The exit status is 1 if a case fails.

Needs the packages `onnx` and `numpy`.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import warnings

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/golden"), str(ROOT / "tests/onnx")]
import golden_text  # noqa: E402
import own_cases  # noqa: E402
import page  # noqa: E402

DTYPES = {1: "f32", 10: "f16", 16: "bf16", 11: "f64", 7: "i64", 6: "i32", 2: "u8", 9: "bool"}
DTYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "output_datatype")
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


class Unsayable(Exception):
    """Raised for a node with data for which Binade has no type."""


def dtype_of(array):
    name = str(array.dtype)
    if name not in golden_text.NAMES:
        raise Unsayable(page.STRINGS if name == "object" else f"no dtype {name}")
    return name


def words(array):
    name = dtype_of(array)
    for v in array.ravel():
        negative_zero = name.startswith(("float", "bfloat")) and v == 0 and np.signbit(np.float64(v))
        yield "-0" if negative_zero else repr(float(v)) if name == "float64" else golden_text.word(v, name)


def tensor_line(role, array):
    dims = ",".join(str(d) for d in array.shape) or "-"
    return f"tensor {role} {golden_text.NAMES[dtype_of(array)]} {dims} : " + " ".join(words(array))


def arrays_of(value):
    """The arrays of an input or output: one, or those of a sequence."""
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in arrays_of(part)]
    return [numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)]


def attribute_lines(node):
    for attribute in node.attribute:
        name, value = attribute.name, helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            yield tensor_line(f"attr.{name}", numpy_helper.to_array(value))
        elif isinstance(value, bytes):
            text = "".join(value.decode().split())
            if text:
                yield f"param {name} {text}"
        elif name in DTYPE_ATTRIBUTES:
            yield f"param {name} {DTYPES.get(value) or onnx.TensorProto.DataType.Name(value).lower()}"
        elif isinstance(value, (int, float)):
            yield f"param {name} {value!r}"
        elif isinstance(value, list) and all(isinstance(v, bytes) for v in value):
            yield f"param {name} {','.join(v.decode() for v in value)}"
        elif isinstance(value, list) and all(isinstance(v, int) for v in value):
            yield f"param {name} {','.join(str(v) for v in value) or '-'}"
        else:
            raise Unsayable(f"attribute {name}")


def node_text(name, node, inputs):
    """A node as golden text. `inputs`: an array, a sequence, or None for an omitted one, by position."""
    lines = [f"case {name}", f"op {node.op_type}", f"param outputs {len(node.output)}", *attribute_lines(node)]
    if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)):
        inputs = inputs[0]
    for i, value in enumerate(inputs):
        for array in arrays_of(value):
            lines.append(tensor_line(f"in.{i}", array))
    return "\n".join(lines + ["end"]) + "\n"


class Program:
    """The C++ program, started again if a case ends it."""

    def __init__(self, path):
        self.path = path
        self.process = None

    def operators(self):
        return set(subprocess.run([self.path, "--operators"], check=True, capture_output=True, text=True).stdout.split())

    def ask(self, text):
        """Returns (verdict, reason, {position: array})."""
        if self.process is None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.process.stdin.write(text)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        verdict, reason, outputs = "error", "the program ended", {}
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "end":
                return verdict, reason, outputs
            if word in ("said", "cannot", "error"):
                verdict, reason = word, rest
            elif word == "tensor":
                role, dtype, dims, _, *values = rest.split(" ")
                outputs[int(role[4:])] = parsed(dtype, dims, values)
        self.process.wait()
        self.process = None
        return "error", "the program ended", {}


def parsed(dtype, dims, values):
    name = next(numpy for numpy, ours in golden_text.NAMES.items() if ours == dtype)
    shape = () if dims == "-" else tuple(int(d) for d in dims.split(","))
    if name.startswith(("float", "bfloat")):
        array = np.array([float(v) for v in values], dtype=np.float64 if name == "float64" else np.float32)
    else:
        array = np.array([int(v) for v in values], dtype=np.int64)
    return array.astype(np.dtype(onnx_dtype(name))).reshape(shape)


def onnx_dtype(name):
    return helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16) if name == "bfloat16" else name


def within(got, want, rtol, atol):
    """Whether all elements are within ONNX's tolerance, and whether they are within another one, tighter for all but small
    values: f32 1e-5 and 1e-6 of the largest value, f64 2e-9 and 1e-11, 16-bit numbers one step."""
    tight = {"float64": (2e-9, 1e-11), "float32": (1e-5, 1e-6), "float16": (2.0**-10, 1e-6), "bfloat16": (2.0**-7, 1e-6)}.get(str(want.dtype))
    if tight is None:
        same = bool(np.array_equal(got, want))
        return same, same
    g, w = got.astype(np.float64), want.astype(np.float64)
    largest = np.max(np.abs(w[np.isfinite(w)]), initial=0)
    with np.errstate(invalid="ignore"):
        equal = (g == w) | (np.isnan(g) & np.isnan(w))
        distance = np.where(equal, 0, np.abs(g - w))
    loose = max(rtol, 2.0**-6) if str(want.dtype) == "bfloat16" else rtol
    return tuple(bool(np.all(equal | (distance <= a + r * np.abs(w)))) for r, a in ((loose, atol), (tight[0], tight[1] * largest)))


def outputs_of(node, wants):
    """Pairs of position and array. The members of a sequence count as separate outputs."""
    if len(wants) == 1 and isinstance(wants[0], (list, tuple)):
        return list(enumerate(arrays_of(wants[0])))
    names = [i for i, name in enumerate(node.output) if name]
    return [(i, array) for i, want in zip(names, wants) for array in arrays_of(want)]


def difference(wanted, outputs, rtol, atol, by_value):
    """Returns (what is wrong or "", whether the tighter tolerance holds)."""
    tight = True
    for i, want in wanted:
        if i not in outputs:
            return f"output {i} is missing", False
        got = outputs[i]
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"output {i}: wanted {want.dtype} {want.shape}, got {got.dtype} {got.shape}", False
        if not by_value:
            continue
        near, nearer = within(got, want, rtol, atol)
        tight = tight and nearer
        # If the terms of a sum cancel, the sum is near 0, and ONNX's tolerance is smaller than the rounding of one term.
        if not near and not nearer:
            g, w = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
            with np.errstate(invalid="ignore"):
                distance = np.where((g == w) | (np.isnan(g) & np.isnan(w)), 0, np.abs(g - w))
            worst = int(np.argmax(np.where(np.isnan(distance), np.inf, distance)))
            return f"output {i}, element {worst}: wanted {w[worst]:.9g}, got {g[worst]:.9g}", False
    return "", tight


class Result:
    """The result of one case. state: passed, failed, cannot."""

    def __init__(self, name, op, state, reason="", tight=True):
        self.name, self.op, self.state, self.reason, self.tight = name, op, state, reason, tight
        self.recordable = []  # the lines of its golden text


def by_position(node, values):
    """The inputs of a node by position; those without a name are omitted."""
    values = iter(values)
    return [next(values) if name else None for name in node.input]


def is_random(node, inputs):
    training = node.op_type == "Dropout" and len(inputs) == 3 and bool(inputs[2]) and float(inputs[1] if inputs[1] is not None else 0.5) > 0
    return node.op_type in RANDOM or training


def run_node(program, case, operators):
    node = case.model.graph.node[0]
    given, wants = case.data_sets[0]
    op, name = node.op_type, case.name.removeprefix("test_")
    if op not in operators:
        return Result(name, op, "cannot", page.missing(op))
    try:
        inputs = by_position(node, given)
        wanted = outputs_of(node, wants)
        expected = [tensor_line(f"out.{i}", want) for i, want in wanted]
        text = node_text(name, node, inputs)
    except Unsayable as reason:
        return Result(name, op, "cannot", str(reason))
    verdict, reason, outputs = program.ask(text)
    if verdict != "said":
        return Result(name, op, "cannot" if verdict == "cannot" else "failed", reason)
    by_value = not is_random(node, inputs)
    wrong, tight = difference(wanted, outputs, case.rtol, case.atol, by_value)
    result = Result(name, op, "failed" if wrong else "passed", wrong, tight)
    if by_value and tight:
        result.recordable = [*text.splitlines()[:-1], *expected, "end"]
    return result


def run_graph(program, case, operators):
    """Runs the nodes of a graph in order."""
    graph, name = case.model.graph, case.name.removeprefix("test_")
    given, wants = case.data_sets[0]
    values = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    values.update(zip([i.name for i in graph.input], given))
    try:
        for number, node in enumerate(graph.node):
            if node.op_type not in operators:
                raise Unsayable(node.op_type)
            inputs = [values[i] if i else None for i in node.input]
            verdict, reason, outputs = program.ask(node_text(f"{name}.{number}", node, inputs))
            if verdict != "said":
                return Result(name, "", "cannot" if verdict == "cannot" else "failed", f"{node.op_type}: {reason}")
            values.update({o: outputs.get(i) for i, o in enumerate(node.output) if o})
        for want in arrays_of(list(wants)):
            dtype_of(want)
    except Unsayable as reason:
        return Result(name, "", "cannot", str(reason))
    wanted = [(i, array) for i, want in enumerate(wants) for array in arrays_of(want)]
    outputs = {i: values[o.name] for i, o in enumerate(graph.output) if values[o.name] is not None}
    half = any(str(array.dtype) == "float16" for _, array in wanted)  # each node rounds, so results differ by two steps
    wrong, tight = difference(wanted, outputs, max(case.rtol, 2.0**-9) if half else case.rtol, case.atol, "bernoulli" not in name)
    return Result(name, "", "failed" if wrong else "passed", wrong, tight)


def record(results, path):
    """Writes the smallest case that passed of each operator, with its outputs, as a golden file for recorded_test.cpp."""
    smallest = {}
    for r in results:
        lines = own_cases.shortened(r.op, r.recordable)
        size = sum(map(len, lines))
        if r.state == "passed" and lines and (r.op not in smallest or size < smallest[r.op][0]):
            smallest[r.op] = (size, lines)
    head = f"# The smallest node test of each operator, by tests/onnx/run_nodes.py --record; onnx {onnx.__version__}"
    path.write_text("\n".join([head] + ["\n" + "\n".join(smallest[op][1]) for op in sorted(smallest)]) + "\n")
    print(f"{path}: {len(smallest)} cases, {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--only", help="run only the cases whose name matches this regular expression, and write no page")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--record", type=pathlib.Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    program = Program(options.program)
    operators = program.operators()
    nodes, graphs = [], []
    for case in [*collect_testcases(None), *own_cases.cases()]:
        if options.only and not re.search(options.only, case.name):
            continue
        if any(n.domain for n in case.model.graph.node):
            continue
        if "_expanded" in case.name or len(case.model.graph.node) != 1:
            graphs.append(run_graph(program, case, operators))
        else:
            nodes.append(run_node(program, case, operators))
    failed = [r for r in nodes + graphs if r.state == "failed"]
    for r in failed:
        print(f"FAILED {r.op or 'graph'} {r.name}: {r.reason}")
    for title, results in (("nodes", nodes), ("graphs", graphs)):
        states = collections.Counter(r.state for r in results)
        print(f"{title}: {len(results)} cases, {states['passed']} passed, {states['failed']} failed, {states['cannot']} cannot be expressed")
    if options.only:
        for r in nodes + graphs:
            if r.state == "cannot":
                print(f"cannot {r.name}: {r.reason}")
    else:
        if options.page:
            options.page.write_text(page.page(nodes, graphs, operators))
        if options.record:
            record(nodes, options.record)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
