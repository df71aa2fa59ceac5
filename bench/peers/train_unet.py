#!/usr/bin/env python3
"""Trains Binade's U-Net in PyTorch on the CPU: the reference for binade-unet's validation Dice.

    train_unet.py --data FOLDER --split isbi|nuclei|chase --seed 1      (OMP_NUM_THREADS=2)

FOLDER holds images/ and masks/ of the same names. The recipe, which is the same for all data sets and both frameworks:

  network       unet_model.py, base 16, depth 3, one logit; He-normal initial values, the head at the prior of the training masks
  images        float32, each image is scaled separately to mean 0 and standard deviation 1 (of the population)
  targets       mask > 127 is 1
  training      one random 256 x 256 crop per image and step (the whole image if it has this size); flip left-right and
                up-down with probability 1/2 each, then a rotation by 0, 90, 180 or 270 degrees; no elastic warp
  batches       4 images; the training set is shuffled anew each epoch, an incomplete last batch is dropped
  loss          BCE with logits (mean over pixels) + soft Dice, 1 - (2 sum(p t) + 1) / (sum(p) + sum(t) + 1), the sums over
                the whole batch, p = sigmoid(logit)
  optimizer     Adam, lr 1e-3, beta1 0.9, beta2 0.999, eps 1e-8, no weight decay; cosine from 1e-3 (step 1) down to 1e-5 at the
                last step, no warm-up, no clipping, no EMA
  steps         300
  validation    after the last step, whole images, batch norm in evaluation mode, probability > 0.5 (logit > 0) is class 1;
                val_dice = 2 TP / (2 TP + FP + FN) of class 1, counts pooled over the set

--split isbi and chase: the last 20 % by name are held out. --split nuclei: images 03, 07, 11, … are held out. --init-from FILE starts from the
weights that `binade-unet init FILE` wrote.
Prints JSON lines: one per log interval; the last one has the result. --masks DIR writes the predicted masks as PNG.
"""
import argparse
import contextlib
import datetime
import json
import math
import os
import platform
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import first_weights
from unet_model import UNet, prior_logits


def load(folder, names):
    images, masks = [], []
    for name in names:
        image = np.asarray(Image.open(os.path.join(folder, "images", name)), dtype=np.float32)
        image = (image - image.mean()) / max(float(image.std()), 1e-6)
        images.append(torch.from_numpy(image)[None] if image.ndim == 2 else torch.from_numpy(image).permute(2, 0, 1))
        mask = np.asarray(Image.open(os.path.join(folder, "masks", name)).convert("L"))  # converts a 1-bit file to 0 and 255
        masks.append(torch.from_numpy((mask > 127).astype(np.float32))[None])
    return images, masks


def split_names(folder, split):
    names = sorted(os.listdir(os.path.join(folder, "images")))
    if split in ("isbi", "chase"):
        held = set(names[len(names) - len(names) // 5:])
    else:
        held = set(names[3::4])
    return [n for n in names if n not in held], sorted(held)


def augment(image, mask, size, rng):
    top = int(rng.integers(0, image.shape[1] - size + 1))
    left = int(rng.integers(0, image.shape[2] - size + 1))
    pair = torch.cat([image, mask])[:, top:top + size, left:left + size]
    if rng.random() < 0.5:
        pair = pair.flip(2)
    if rng.random() < 0.5:
        pair = pair.flip(1)
    pair = torch.rot90(pair, int(rng.integers(0, 4)), (1, 2))
    return pair[:-1], pair[-1:]


def loss_of(logits, target):
    logits = logits.float()
    p = torch.sigmoid(logits)
    dice = 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
    return F.binary_cross_entropy_with_logits(logits, target) + dice


def precision_scope(precision):
    return torch.autocast("cpu", dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


@torch.no_grad()
def evaluate(model, images, masks, names, precision, folder):
    model.eval()
    tp = fp = fn = tn = 0
    for image, mask, name in zip(images, masks, names):
        with precision_scope(precision):
            logit = model(image[None].contiguous(memory_format=torch.channels_last))[0, 0].float()
        guess, truth = logit > 0, mask[0] > 0.5
        tp += int((guess & truth).sum())
        fp += int((guess & ~truth).sum())
        fn += int((~guess & truth).sum())
        tn += int((~guess & ~truth).sum())
        if folder:
            os.makedirs(folder, exist_ok=True)
            Image.fromarray((guess.numpy() * 255).astype(np.uint8)).save(os.path.join(folder, name))
    model.train()
    return dict(val_dice=round(2 * tp / max(2 * tp + fp + fn, 1), 5), val_dice_class0=round(2 * tn / max(2 * tn + fp + fn, 1), 5),
                val_iou=round(tp / max(tp + fp + fn, 1), 5))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", required=True)
    ap.add_argument("--split", choices=["isbi", "nuclei", "chase"], required=True)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--steps", type=int, default=300)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--base", type=int, default=16)
    ap.add_argument("--depth", type=int, default=3)
    ap.add_argument("--size", type=int, default=256)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--min-lr", type=float, default=1e-5)
    ap.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    ap.add_argument("--log-every", type=int, default=50)
    ap.add_argument("--eval-every", type=int, default=0)
    ap.add_argument("--masks")
    ap.add_argument("--init-from", help="safetensors file of binade-unet init")
    a = ap.parse_args()

    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)
    train_names, val_names = split_names(a.data, a.split)
    images, masks = load(a.data, train_names)
    val = load(a.data, val_names)
    model = UNet(a.base, a.depth, inputs=images[0].shape[0], first_logits=prior_logits(masks))
    if a.init_from:
        first_weights.load_unet(model, a.init_from)
    model.to(memory_format=torch.channels_last)  # same results, a third less time
    optimizer = torch.optim.Adam(model.parameters(), lr=a.lr)
    order, start = [], time.time()
    for step in range(1, a.steps + 1):
        if len(order) < a.batch:
            order = list(rng.permutation(len(images)))
        picked, order = order[:a.batch], order[a.batch:]
        batch = [augment(images[i], masks[i], a.size, rng) for i in picked]
        x, t = (torch.stack(z).contiguous(memory_format=torch.channels_last) for z in zip(*batch))
        for group in optimizer.param_groups:
            group["lr"] = a.min_lr + 0.5 * (a.lr - a.min_lr) * (1 + math.cos(math.pi * (step - 1) / max(a.steps - 1, 1)))
        optimizer.zero_grad(set_to_none=True)
        with precision_scope(a.precision):
            logits = model(x)
        loss = loss_of(logits, t)
        loss.backward()
        optimizer.step()
        if step % a.log_every == 0:
            print(json.dumps(dict(step=step, loss=round(loss.item(), 5), seconds=round(time.time() - start, 1))), flush=True)
        if a.eval_every and step % a.eval_every == 0 and step < a.steps:
            print(json.dumps(dict(step=step, **evaluate(model, *val, val_names, a.precision, None))), flush=True)
    seconds = time.time() - start
    print(json.dumps(dict(result="train_unet", split=a.split, seed=a.seed, steps=a.steps, batch=a.batch, base=a.base, depth=a.depth,
                          size=a.size, lr=a.lr, min_lr=a.min_lr, precision=a.precision,
                          parameters=sum(p.numel() for p in model.parameters()), train_images=len(images), val_images=len(val_names),
                          **evaluate(model, *val, val_names, a.precision, a.masks), seconds=round(seconds, 1),
                          threads=torch.get_num_threads(), torch=torch.__version__, python=platform.python_version(),
                          date=datetime.date.today().isoformat())), flush=True)


if __name__ == "__main__":
    main()
