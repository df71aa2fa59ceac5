"""The tools that PyTorch has for finding NaN, each used as its users do, and the statements of their reports.

  loop            autocast and GradScaler, nothing else; an exception of PyTorch itself (an index out of range) is its report
  norm check      the loop, with clip_grad_norm_(…, error_if_nonfinite=True) before each update
  anomaly mode    torch.autograd.set_detect_anomaly(True), which is Lightning's Trainer(detect_anomaly=True)
  hooks           forward hooks on every module that check parameters, inputs and outputs, and stop at the first NaN
                  or infinity, as Hugging Face's DebugUnderflowOverflow does
  dispatch mode   a TorchDispatchMode that stops at the first op whose results are not finite; ModuleTracker names the
                  module

A report gets credit for everything that a reader can conclude from it: see `Report`.
"""
import contextlib
import re
import warnings
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.module_tracker import ModuleTracker


@dataclass
class Report:
    """The statements of a report; None: the report says nothing about it.

    ops        names by `plain_name`: for a hook, the ops that the named layer consists of
    module     path in the task ("" is the loss); for a hook that found the value in a module's input: the parent, whose
               code computed it; for anomaly mode: the class whose forward the printed traceback ends in
    direction  input, forward, backward or state
    classes    the classes that follow from the text: from an op's name (log: singularity, softmax: masked row), from an
               infinity of another op, or of a module in 16 bits (overflow), from a bad parameter or a bad batch
    """
    text: str
    ops: frozenset = None
    module: str = None
    module_class: str = None
    direction: str = None
    classes: frozenset = frozenset()
    state_path: str = None


class Alarm(Exception):
    def __init__(self, report):
        super().__init__(report.text)
        self.report = report


def plain_name(name):
    """Returns one name for an op and its node: "_log_softmax" and "LogSoftmaxBackward0" are "logsoftmax"."""
    name = re.sub(r"Backward\d*$", "", name).replace("_", "").lower()
    return re.sub(r"(forward|backward)$", "", name)


OVERFLOW = frozenset({"activation-overflow", "attention-logit-overflow", "reduction-overflow", "gradient-explosion"})
NORMS = {"nativelayernorm", "nativegroupnorm", "nativebatchnorm", "rsqrt", "fusedrmsnorm"}
SINGULAR_OPS = {"div", "reciprocal", "log", "log1p", "sqrt", "rsqrt", "pow", "acos", "arccosine", "xlogx", "inversesoftplus",
         "hyperbola"}


def classes_of(op, infinite):
    """What a reader may conclude from the name of an op and from whether its result is an infinity and not NaN."""
    if op == "softmax":
        return frozenset({"fully-masked-row"})
    if op in NORMS:
        return frozenset({"normalisation-pole", "arithmetic-pole"} if op in SINGULAR_OPS else {"normalisation-pole"})
    if op in SINGULAR_OPS:
        return frozenset({"arithmetic-pole", "loss-function-pole"})
    return OVERFLOW if infinite else frozenset()


class Loop:
    """PyTorch alone."""
    name = "loop"

    def attach(self, session):
        pass

    @contextlib.contextmanager
    def around(self, session):
        try:
            yield
        except IndexError as error:  # the traceback ends in the layer or loss that was given the index
            raise Alarm(Report(f"IndexError: {error}", direction="input", classes=frozenset({"bad-input"}))) from None

    def before_update(self, session):
        pass


class NormCheck(Loop):
    name = "norm check"

    def before_update(self, session):
        session.scaler.unscale_(session.optimizer)
        try:  # the maximum norm is so large that nothing is clipped: the run equals that of Loop
            torch.nn.utils.clip_grad_norm_(session.trained, 1e30, error_if_nonfinite=True)
        except RuntimeError as error:
            raise Alarm(Report(str(error), direction="backward")) from None


class Anomaly(Loop):
    name = "anomaly mode"

    @contextlib.contextmanager
    def around(self, session):
        with super().around(session), warnings.catch_warnings(record=True) as printed:
            warnings.simplefilter("always")
            try:
                with torch.autograd.set_detect_anomaly(True):
                    yield
            except RuntimeError as error:
                named = re.search(r"Function '(\w+)' returned nan", str(error))
                if not named:
                    raise
                op = plain_name(named[1])
                frames = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', "".join(str(w.message) for w in printed))
                raise Alarm(Report(str(error), frozenset({op}), module_class=class_of(frames), direction="backward",
                                   classes=classes_of(op, False))) from None


def class_of(frames):
    """Returns the class in whose forward a traceback ends, "loss" if it ends in a task's loss, or None if unknown."""
    for file, line, function in reversed(frames):
        if file.endswith("faults.py"):
            continue  # user code of a tap belongs to the module that calls it
        if function in ("forward", "loss") and ("models.py" in file or "torch/nn/modules" in file):
            with open(file, encoding="utf-8") as text:
                above = re.findall(r"^class (\w+)", "".join(text.readlines()[:int(line)]), re.MULTILINE)
            if above:
                return "loss" if function == "loss" else above[-1]
    return None


LAYER_OPS = {"Linear": {"addmm", "mm", "bmm"}, "Conv2d": {"convolution"}, "LayerNorm": {"nativelayernorm"},
             "GroupNorm": {"nativegroupnorm"}, "BatchNorm2d": {"nativebatchnorm"}, "RMSNorm": {"rsqrt", "fusedrmsnorm"},
             "Embedding": {"embedding"}, "GELU": {"gelu"}, "ReLU": {"relu"}}


def is_not_finite(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point() and not bool(torch.isfinite(value).all())


class Hooks(Loop):
    name = "hooks"

    def attach(self, session):
        self.active = False

        def hook(path):
            def check(module, inputs, output):
                if not self.active:
                    return
                is_first, self.seen = not self.seen, True
                for name, parameter in module.named_parameters(recurse=False):
                    if is_not_finite(parameter):
                        full = f"{path}.{name}"
                        raise Alarm(Report(f"{full} is not finite", frozenset(), path, None, "state",
                                           frozenset({"corrupted-state"}), full))
                for value in inputs:
                    if is_not_finite(value):
                        parent = path.rpartition(".")[0]
                        if is_first or value.untyped_storage().data_ptr() in self.batch:
                            raise Alarm(Report(f"input of {path} is not finite", frozenset(), parent, None, "input",
                                               frozenset({"bad-input"})))
                        raise Alarm(Report(f"input of {path} is not finite", frozenset(), parent, None, "forward",
                                           self.classes(value)))
                for value in output if isinstance(output, tuple) else (output,):
                    if is_not_finite(value):
                        ops = LAYER_OPS.get(type(module).__name__, set())
                        classes = self.classes(value) | ({"normalisation-pole"} if ops & NORMS else set())
                        raise Alarm(Report(f"output of {path} is not finite", frozenset(ops), path, None, "forward",
                                           classes))
            return check

        for path, module in session.task.named_modules():
            module.register_forward_hook(hook(path))
        session.task.register_forward_pre_hook(self.begin)

    @contextlib.contextmanager
    def around(self, session):
        self.active = True
        try:
            with super().around(session):
                yield
        finally:
            self.active = False

    def begin(self, module, inputs):
        self.seen = False
        self.batch = {t.untyped_storage().data_ptr() for t in inputs[0].values()}

    @staticmethod
    def classes(value):
        low = value.dtype in (torch.float16, torch.bfloat16)
        return OVERFLOW if low and not bool(torch.isnan(value).any()) else frozenset()


CREATION = re.compile(r"(new_)?(empty|full)(_like|_strided)?|scalar_tensor")  # their results are uninitialized or constant


def content(tensors):
    """Returns whether any of the tensors has NaN or +inf, and whether any has -inf."""
    bad = hidden = False
    for t in tensors:
        if isinstance(t, torch.Tensor) and t.is_floating_point() and not bool(torch.isfinite(t).all()):
            bad |= bool((torch.isnan(t) | (t == torch.inf)).any())
            hidden |= bool((t == -torch.inf).any())
    return bad, hidden


class OpWatch(TorchDispatchMode):
    """Finds the first op whose result has NaN or an infinity. An op that only passes on -inf does not count: masks contain it."""

    def __init__(self, raises):
        super().__init__()
        self.raises, self.report, self.tracker = raises, None, ModuleTracker()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        if self.report is None:
            self.check(function, args, kwargs or {}, results)
        return results

    def check(self, function, args, kwargs, results):
        name = function._schema.name.split("::")[1]
        outputs = tree_leaves(results)
        bad, hidden = content(outputs)
        if not (bad or hidden) or CREATION.fullmatch(name):
            return
        written = {id(t) for t in outputs}
        bad_in, hidden_in = content(t for t in tree_leaves((args, kwargs)) if id(t) not in written)
        if not bad_in and (not bad and hidden_in):
            return
        self.report = self.report_of(name, outputs, bad_in)
        if self.raises:
            raise Alarm(self.report)

    def report_of(self, name, outputs, read_bad_value):
        backward = self.tracker.is_bw
        node = torch._C._current_autograd_node() if backward else None
        op = plain_name(node.name() if node is not None else name)
        path = max((p for p in self.tracker.parents if p != "Global"), key=len, default="").partition(".")[2]
        if read_bad_value:
            return Report(f"{name} reads a value that is not finite", frozenset(), path, None, "input",
                          frozenset({"bad-input"}))
        infinite = not any(bool(torch.isnan(t).any()) for t in outputs if isinstance(t, torch.Tensor))
        direction = "backward" if backward else "forward"
        return Report(f"first: {name} ({op}) in '{path}', {direction}", frozenset({op}), path, None, direction,
                      classes_of(op, infinite))


class Dispatch(Loop):
    name = "dispatch mode"

    @contextlib.contextmanager
    def around(self, session):
        watch = OpWatch(raises=True)
        with super().around(session), watch.tracker, watch:
            yield


def observe(session, ids, scale):
    """Returns (report of the first bad op or None, whether the loss is finite). Does not change the session."""
    s = session.copy()
    batch, watch = s.batch(ids), OpWatch(raises=False)
    with watch.tracker, watch:
        loss = s.loss(batch)
        if loss.requires_grad:
            (loss * scale).backward()
    return watch.report, bool(torch.isfinite(loss))


TOOLS = (Loop, NormCheck, Anomaly, Hooks, Dispatch)
