"""Compares ONNX files of Binade with onnxruntime, and models of others with Binade.

    .venv-onnx/bin/python tests/onnx/run_models.py --program build/tests/onnx/onnx_files

Each model of tests/onnx/models.cpp is exported. onnx.checker accepts the file, and onnxruntime computes Binade's outputs
from it; with one sample more than the example, too. Binade imports the file and computes the outputs again. Then graphs
that the package onnx makes, in several versions of the operators, are imported and compared with onnxruntime. If PyTorch
is installed, so are files that it exports. The exit status is 1 if a comparison fails.

Needs the packages of tests/onnx/packages.txt.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file

# Relative to the largest value. Both sides compute in f32, with sums of at most a few hundred terms in different orders.
TOLERANCE = 1e-5


class Failed(Exception):
    pass


def compare(what, got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        raise Failed(f"{what}: wanted {want.dtype} {want.shape}, got {got.dtype} {got.shape}")
    distance = np.max(np.abs(got.astype(np.float64) - want.astype(np.float64)), initial=0)
    largest = np.max(np.abs(want.astype(np.float64)), initial=1e-3)
    if not distance <= TOLERANCE * largest:
        raise Failed(f"{what}: differs by {distance:.3g}, largest value {largest:.3g}")
    return distance / largest


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def numbered(tensors, stem):
    return [tensors[f"{stem}.{i}"] for i in range(sum(name.startswith(stem + ".") for name in tensors))]


class Checks:
    def __init__(self, program, folder):
        self.program, self.folder, self.failed, self.passed = program, folder, 0, 0

    def call(self, *words):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            raise Failed(done.stderr.strip())
        return done.stdout

    def report(self, name, check):
        try:
            print(f"{name}: {check()}")
            self.passed += 1
        except Failed as reason:
            print(f"FAILED {name}: {reason}")
            self.failed += 1

    def imported(self, path, inputs):
        data, result = self.folder / "data.safetensors", self.folder / "result.safetensors"
        save_file({f"in.{i}": np.ascontiguousarray(x) for i, x in enumerate(inputs)}, str(data))
        self.call("import", path, data, result)
        return numbered(load_file(str(result)), "out")

    def exported(self, name):
        path, data = self.folder / f"{name}.onnx", self.folder / f"{name}.safetensors"
        self.call("export", name, path, data)
        onnx.checker.check_model(str(path), full_check=True)
        tensors = load_file(str(data))
        inputs, wants = numbered(tensors, "in"), numbered(tensors, "out")
        session = session_of(path)
        names = [i.name for i in session.get_inputs()]
        worst = max(compare("onnxruntime", got, want) for got, want in zip(session.run(None, dict(zip(names, inputs))), wants))
        worst = max([worst] + [compare("import", got, want) for got, want in zip(self.imported(path, inputs), wants)])
        more = [np.concatenate([x, x[:1]]) for x in inputs]
        wants = session.run(None, dict(zip(names, more)))
        worst = max([worst] + [compare("one sample more", got, want) for got, want in zip(self.imported(path, more), wants)])
        nodes = [n.op_type for n in onnx.load(str(path)).graph.node if n.op_type != "Constant"]
        return f"{len(nodes)} nodes, {nodes.count('Transpose')} Transpose, largest difference {worst:.2g}"

    def foreign(self, path, inputs):
        session = session_of(path)
        wants = session.run(None, {i.name: x for i, x in zip(session.get_inputs(), inputs)})
        return f"largest difference {max(compare('import', got, want) for got, want in zip(self.imported(path, inputs), wants)):.2g}"


def made(path, nodes, inputs, weights, outputs, opset):
    """Writes a model of the package onnx. inputs: arrays; outputs: names."""
    infos = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for i, x in enumerate(inputs)]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "made", infos, results, [numpy_helper.from_array(w, n) for n, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    onnx.save(model, str(path))


def made_models(folder):
    """(name, path, inputs) of models by the package onnx, also with old versions of operators."""
    rng = np.random.default_rng(1)
    noise = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    node = helper.make_node
    x = noise(2, 3, 8, 8)
    cases = {
        "old operators": (9, [node("Conv", ["x0", "w"], ["a"], pads=[1, 1, 1, 1]), node("Clip", ["a"], ["b"], min=-1.0, max=1.0),
                              node("Pad", ["b"], ["c"], pads=[0, 0, 1, 1, 0, 0, 1, 1]), node("Slice", ["c"], ["d"], starts=[1], ends=[9], axes=[2]),
                              node("Upsample", ["d", "s"], ["e"], mode="nearest"), node("Softmax", ["e"], ["y"])],
                          {"w": noise(4, 3, 3, 3), "s": np.array([1, 1, 2, 2], np.float32)}),
        "classifier": (13, [node("Conv", ["x0", "w", "b"], ["a"], strides=[2, 2]), node("BatchNormalization", ["a", "g", "b", "m", "v"], ["n"]),
                            node("Relu", ["n"], ["r"]), node("GlobalAveragePool", ["r"], ["p"]), node("Flatten", ["p"], ["f"]),
                            node("Gemm", ["f", "k", "c"], ["y"], transB=1)],
                       {"w": noise(4, 3, 3, 3), "b": noise(4), "g": noise(4), "m": noise(4), "v": abs(noise(4)) + 1, "k": noise(5, 4), "c": noise(5)}),
        "shapes": (17, [node("Shape", ["x0"], ["n"], start=0, end=1), node("Concat", ["n", "minus"], ["to"], axis=0), node("Reshape", ["x0", "to"], ["a"]),
                        node("MatMul", ["a", "k"], ["b"]), node("LayerNormalization", ["b", "g"], ["y"])],
                   {"minus": np.array([-1], np.int64), "k": noise(192, 5), "g": noise(5)}),
        "resize": (13, [node("Resize", ["x0", "", "s"], ["a"], mode="cubic", coordinate_transformation_mode="half_pixel"),
                        node("Resize", ["a", "", "", "z"], ["y"], mode="linear", coordinate_transformation_mode="align_corners")],
                   {"s": np.array([1, 1, 1.5, 2], np.float32), "z": np.array([2, 3, 7, 5], np.int64)}),
    }
    for name, (opset, nodes, weights) in cases.items():
        path = folder / f"{name.replace(' ', '_')}.onnx"
        made(path, nodes, [x], weights, ["y"], opset)
        yield name, path, [x]


def torch_models(folder):
    try:
        import torch
    except ImportError:
        return
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    models = {
        "torch convolutions": (torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.SiLU(), torch.nn.MaxPool2d(2),
                                                   torch.nn.ConvTranspose2d(8, 4, 2, 2), torch.nn.Upsample(scale_factor=2, mode="bilinear")), torch.randn(2, 3, 8, 8)),
        "torch encoder": (torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 5, 16)),
        "torch lstm": (torch.nn.LSTM(3, 4, batch_first=True), torch.randn(2, 5, 3)),
    }
    for name, (model, x) in models.items():
        path = folder / f"{name.replace(' ', '_')}.onnx"
        try:
            torch.onnx.export(model.eval(), (x,), str(path), dynamo=False)
        except Exception as reason:  # noqa: BLE001 - an exporter without its own dependencies is no failure of Binade
            print(f"skipped {name}: {reason}")
            continue
        yield name, path, [x.numpy()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        checks = Checks(options.program, folder)
        for model in checks.call("list").split():
            checks.report(model, lambda model=model: checks.exported(model))
        for title, path, inputs in [*made_models(folder), *torch_models(folder)]:
            checks.report(title, lambda path=path, inputs=inputs: checks.foreign(path, inputs))
        print(f"{checks.passed} models passed, {checks.failed} failed")
        sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
