"""Verifies a planted fault without any tool's report, and compares reports with the true answer (docs/truth.md)."""
import math
from dataclasses import dataclass

from session import finite_step, in_double
from tools import observe, plain_name

# Binade's ops -> names of PyTorch (plain_name) that mean the same.
SAME_OPS = {
    "scalar_div": {"reciprocal", "div"}, "div_scalar": {"div", "mul", "reciprocal"}, "mul_scalar": {"mul"},
    "cast": {"tocopy"}, "matmul": {"mm", "bmm", "addmm", "matmul", "unsafeview"}, "layer_norm": {"nativelayernorm"},
    "rms_norm": {"rsqrt", "fusedrmsnorm"}, "arccosine": {"acos", "arccosine"}, "x_log_x": {"log", "mul", "xlogx"},
    "softplus_inverse": {"log", "expm1", "reciprocal", "inversesoftplus"}, "tail": {"reciprocal", "div", "hyperbola"},
    "cube": {"mul", "cube", "tocopy"},
}


def names_of(ops):
    return set().union(*(SAME_OPS.get(op, {plain_name(op)}) for op in ops)) if ops else set()


@dataclass
class Answer:
    """What a correct report says."""
    ops: set
    modules: tuple
    direction: str
    also_backward: bool  # the loss is finite, so naming the op's derivative is correct too


class Void(Exception):
    """The fault failed its verification."""


def verify(session, ids, truth):
    """Returns the correct answer. Raises Void if the planted fault is not what `truth` says."""
    if truth.proof == "refused":
        try:
            session.loss(session.batch(ids))
        except IndexError:
            return Answer(set(), (), "input", False)
        raise Void("the index was not refused")
    if truth.proof == "scale":
        if not finite_step(session, ids):
            raise Void("not finite at scale 1")
        report, _ = observe(session, ids, session.fixed_scale)
        if report is None:
            raise Void("finite at the scale")
        return Answer(set(), (), "backward", False)
    report, loss_finite = observe(session, ids, 1.0)
    if truth.proof == "state":
        if truth.must_fail and finite_step(session, ids):
            raise Void("no number went bad")
        owner = truth.state_path.rpartition(".")[0]  # naming the module that owns the state is correct too
        if len(truth.classes) == 1 or report is None:
            return Answer(set(), (owner,), "state", False)
        return Answer(set(report.ops), (report.module, owner), report.direction, loss_finite)
    if finite_step(session, ids):
        raise Void("the step is finite")
    if truth.proof == "input":
        verify_samples(session, ids, truth)
        return Answer(set(), (), "input", False)
    if report is None or report.direction == "input":
        raise Void("no op turned finite operands into something else")
    return Answer(*verify_op(session, ids, truth, report), report.direction, loss_finite)


def verify_op(session, ids, truth, report):
    """Returns (acceptable names, acceptable modules)."""
    if truth.ops and not report.ops & names_of(truth.ops):
        raise Void(f"the first bad op: {report.text}")
    if truth.modules and report.direction == "forward" and report.module not in truth.modules:
        raise Void(f"the first bad op: {report.text}")
    if truth.proof in ("singular", "mask"):
        exact = session.copy()
        in_double(exact)
        wide, _ = observe(exact, ids, 1.0)
        if wide is None or wide.ops != report.ops:
            raise Void(f"in f64: {wide.text if wide else 'finite'}")
    elif not finite_step(session, ids, double=True):
        raise Void("not finite in f64")
    verify_samples(session, ids, truth)
    return (names_of(truth.ops) | set(report.ops)), (truth.modules or (report.module,))


def verify_samples(session, ids, truth):
    if truth.ids and not finite_step(session, [i for i in ids if i not in truth.ids]):
        raise Void("not finite without the samples that should cause it")
    for other in [i for i in ids if i not in truth.ids][:3]:
        if finite_step(session, [i for i in ids if i != other]):
            raise Void("finite without a sample that should not matter")


def class_name(task, path):
    if path == "":
        return "loss"
    module = task.get_submodule(path)
    return type(module).__name__


def judge(report, truth, answer, task):
    """Which statements of a report are right: op, module, direction, class; all are wrong without a report."""
    if report is None:
        return dict.fromkeys(("op", "module", "direction", "class"), False)
    right_class = any(c in said for c in truth.classes for said in report.classes)
    if truth.proof in ("input", "refused", "scale"):  # no op is at fault, so the direction alone is the place
        right = report.direction == answer.direction
        return {"op": right, "module": right, "direction": right, "class": right_class}
    if truth.proof == "state" and report.direction == "state":
        right = report.state_path == truth.state_path
        return {"op": right, "module": right, "direction": True, "class": right_class}
    directions = {answer.direction, "backward"} if answer.also_backward else {answer.direction}
    if report.module_class is not None:
        modules = report.module_class in {class_name(task, m) for m in answer.modules}
    else:
        modules = report.module is not None and report.module in answer.modules
    return {"op": bool((report.ops or set()) & answer.ops), "module": modules,
            "direction": report.direction in directions, "class": right_class}


def recovered(harmed, before, references):
    """Whether the loss exceeds that of an unharmed run by at most 1 % of that loss or of the progress since the fault,
    whichever is larger."""
    return any(math.isfinite(harmed) and harmed - u <= 0.01 * max(abs(u), abs(before - u)) for u in references)


def without_gradient(session):
    """Names of the parameters that get no gradient, or one of exactly 0, in the next step."""
    s = session.copy()
    loss = s.loss(s.batch(s.next_ids()))
    if loss.requires_grad:
        loss.backward()
    return [n for n, p in s.task.net.named_parameters() if p.grad is None or not bool(p.grad.count_nonzero())]


