"""Cases for operators for which ONNX has no node test, and short forms of large ones for the recorded file."""
import numpy as np
from onnx import TensorProto, helper
from onnx.backend.test.case.test_case import TestCase

NP = helper.np_dtype_to_tensor_dtype


def case(op, inputs, outputs, sequence=False, **attributes):
    """A case of one node. `outputs`: for random numbers, arrays of the shape and dtype that are expected."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, ["x"] if sequence else names, [f"y{i}" for i in range(len(outputs))], **attributes)
    infos = [helper.make_tensor_value_info(n, NP(a.dtype), a.shape) for n, a in zip(names, inputs)]
    results = [helper.make_tensor_value_info(f"y{i}", NP(a.dtype), a.shape) for i, a in enumerate(outputs)]
    model = helper.make_model(helper.make_graph([node], op, infos, results))
    name = f"test_own_{op.lower()}"
    return TestCase(name=name, model_name=name, url=None, model_dir=None, model=model,
                    data_sets=[([list(inputs)] if sequence else list(inputs), list(outputs))], kind="node", rtol=1e-3, atol=1e-7)


def cases():
    x = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 2, 2) / 8
    numbers = np.zeros((2, 3), np.float32)
    return [
        case("GlobalLpPool", [x], [np.sum(np.abs(x) ** 3, axis=(2, 3), keepdims=True) ** np.float32(1 / 3)], p=3),
        case("ConcatFromSequence", [x, 2 * x], [np.concatenate([x, 2 * x], axis=1)], sequence=True, axis=1),
        case("Multinomial", [numbers], [np.zeros((2, 5), np.int32)], sample_size=5),
        case("RandomNormal", [], [numbers], mean=1.0, scale=2.0, shape=[2, 3]),
        case("RandomNormalLike", [numbers], [numbers.astype(np.float64)], dtype=TensorProto.DOUBLE),
        case("RandomUniform", [], [numbers], low=-1.0, high=1.0, shape=[2, 3]),
        case("RandomUniformLike", [numbers], [numbers]),
    ]


def shortened(op, lines):
    """The lines of a case. Elementwise functions whose cases are all large keep only their first elements."""
    if op not in ("Erf", "Mish"):
        return lines
    short = []
    for line in lines:
        words = line.split(" ")
        short.append(" ".join(words[:3] + ["12", ":"] + words[5:17]) if words[0] == "tensor" else line)
    return short
