"""A training program as in PyTorch's documentation: autocast, AdamW, and a GradScaler for fp16."""
import contextlib
import copy

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from data import HELD_OUT, TRAINED, Samples, batch_of, choices
from more_models import BY_NAME

ROWS = 8
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class NoProgress(Exception):
    """The run does not reach the step that was asked for."""


class Session:
    def __init__(self, model, precision, seed, **options):
        self.options = {"model": model, "precision": precision, "seed": seed, **options}
        torch.manual_seed(seed)
        self.task = BY_NAME[model](spare=options.get("spare", False), linear=options.get("linear", False))
        samples = Samples(seed)
        self.table = {name: values.clone() for name, values in self.task.data(samples).items()}
        self.table["gate"] = 0.5 + 1.5 * samples.uniform(99)
        trained = list(self.task.net.parameters())
        if options.get("frozen"):
            for p in trained[:len(trained) // 2]:
                p.requires_grad_(False)
        if hasattr(self.task, "outside"):
            self.task.outside.requires_grad_(False)
        self.trained = [p for p in trained if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.trained, lr=options.get("lr", 3e-3))
        self.fixed_scale = options.get("fixed_scale")
        self.scaler = torch.amp.GradScaler("cpu", init_scale=self.fixed_scale or 65536.0, enabled=precision == "fp16")
        self.ema = None
        if options.get("ema"):
            self.ema = AveragedModel(self.task.net, multi_avg_fn=get_ema_multi_avg_fn(0.95))
        self.quarantined, self.batches, self.steps = set(), 0, 0
        self.scale_lowered, self.caught = False, 0  # in the last step; exceptions so far

    def copy(self):
        return copy.deepcopy(self)

    def next_ids(self):
        """The samples of the next batch; every epoch is shuffled anew."""
        while True:
            epoch, at = divmod(self.batches, TRAINED // ROWS)
            order = list(range(TRAINED))
            choices(self.options["seed"], f"epoch {epoch}").shuffle(order)
            self.batches += 1
            ids = [i for i in order[at * ROWS:(at + 1) * ROWS] if i not in self.quarantined]
            if ids:
                return ids

    def autocast(self):
        low = DTYPES.get(self.options["precision"])
        return torch.autocast("cpu", dtype=low) if low else contextlib.nullcontext()

    def batch(self, ids):
        return batch_of(self.task, self.table, ids)

    def loss(self, batch):
        with self.autocast():
            return self.task(batch)

    def step(self, ids, tool=None):
        """Runs a step and returns its loss; `steps` grows if the step was committed. Raises what PyTorch or the tool raises."""
        self.optimizer.zero_grad(set_to_none=True)
        batch = self.batch(ids)
        with tool.around(self) if tool else contextlib.nullcontext():
            loss = self.loss(batch)
            if loss.requires_grad:
                self.scaler.scale(loss).backward()
        scale = self.scaler.get_scale()
        if tool:
            tool.before_update(self)
        self.scale_lowered = False
        if all(p.grad is None for p in self.trained):  # every path to the parameters is detached
            self.steps += 1
            return loss.item()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scale_lowered = self.scaler.get_scale() < scale
        if self.fixed_scale and self.scaler.is_enabled():
            self.scaler.update(self.fixed_scale)
        if not self.scale_lowered:
            self.steps += 1
            if self.ema:
                self.ema.update_parameters(self.task.net)
        return loss.item()

    def train_to(self, steps, tool=None, caught=(), suspects=()):
        """Trains until `steps` steps are committed in total. Exceptions in `caught` skip the batch, others end the run.

        `suspects`: the tool runs only in steps with one of these samples; in other steps it would find nothing.
        """
        left = 4 * 40 + max(0, steps - self.steps)
        while self.steps < steps:
            left -= 1
            if left < 0:
                raise NoProgress
            ids = self.next_ids()
            try:
                self.step(ids, None if suspects and suspects.isdisjoint(ids) else tool)
            except caught:
                self.skip_batch()

    def skip_batch(self):
        """Continues after a caught exception without an update; the scaler discards its data of this step."""
        self.caught += 1
        if self.scaler.is_enabled() and self.scaler._per_optimizer_states:  # the scaler has already unscaled the gradients
            self.scaler.update()
            if self.fixed_scale:
                self.scaler.update(self.fixed_scale)

    def held_out(self):
        """The loss of samples that the training never sees, in evaluation mode and f32."""
        task = self.task
        kept = task.net
        if self.ema:
            task.net = self.ema.module
        task.eval()
        with torch.no_grad():
            loss = task(self.batch(list(range(TRAINED, TRAINED + HELD_OUT)))).item()
        task.net = kept
        task.train()
        return loss

    def state(self):
        """All tensors that outlive a step and that an aborted step must not change. The loss scale may change, so it is left out."""
        tensors = dict(self.task.state_dict(prefix="task."))
        for i, p in enumerate(self.trained):
            tensors.update({f"optimizer.{i}.{k}": v for k, v in self.optimizer.state.get(p, {}).items()})
        if self.ema:
            tensors.update(self.ema.state_dict(prefix="ema."))
        return {name: t.detach().clone() for name, t in tensors.items()}


def same_bits(a, b):
    def bits(t):
        return t.reshape(-1).contiguous().view(torch.uint8)
    return a.keys() == b.keys() and all(torch.equal(bits(a[k]), bits(b[k])) for k in a)


def finite_step(session, ids, double=False):
    """Whether loss and gradients are finite at loss scale 1. Does not change the session. `double`: in f64, without autocast."""
    s = session.copy()
    if double:
        in_double(s)
    loss = s.loss(s.batch(ids))
    if loss.requires_grad:
        loss.backward()
    grads = [p.grad for p in s.trained if p.grad is not None]
    return bool(torch.isfinite(loss)) and all(bool(torch.isfinite(g).all()) for g in grads)


def in_double(s):
    s.options["precision"] = "f64"
    s.task.double()
    s.table = {k: v.double() if v.is_floating_point() else v for k, v in s.table.items()}
