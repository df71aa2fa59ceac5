#!/usr/bin/env python3
"""table.py FILE...: prints the tables of docs/accuracy.md from the JSON lines of images.sh, text.sh, train_unet.py and train_gpt.py.

One row per file, contender and precision: the value for each seed, and their mean. Each data set has its own file, whose name
is printed.
"""
import json
import os
import statistics
import sys

VALUES = {"val_loss": "validation loss", "val_dice": "Dice of class 1", "background_dice": "Dice of class 0"}
TORCH_NAMES = {"val_dice_class0": "background_dice"}


def rows(path):
    """Yields (contender, precision, seed, {value name: value})."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            fields = json.loads(line)
            measured = fields.get("eval", fields)
            contender = f"PyTorch {fields['torch'].split('+')[0]}" if "torch" in fields else "Binade"
            values = {TORCH_NAMES.get(name, name): value for name, value in measured.items()}
            yield contender, fields["precision"], fields["seed"], {name: values[name] for name in VALUES if name in values}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in sys.argv[1:]:
        found = {}
        for contender, precision, seed, values in rows(path):
            # The tables of segmentation show the Dice only, not the loss.
            for name in [n for n in values if n != "val_loss" or "val_dice" not in values]:
                found.setdefault((name, contender, precision), {})[seed] = values[name]
        seeds = sorted({seed for by_seed in found.values() for seed in by_seed})
        print(f"\n{os.path.basename(path)}\n")
        print("| | | | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean |")
        print("|---|---|---|" + "---|" * (len(seeds) + 1))
        for name, title in VALUES.items():
            for (value, contender, precision), by_seed in found.items():
                if value == name:
                    cells = [f"{by_seed[s]:.4f}" if s in by_seed else "" for s in seeds]
                    mean = f"{statistics.mean(by_seed.values()):.4f}" if len(by_seed) == len(seeds) else ""
                    print(f"| {title} | {contender} | {precision} | {' | '.join(cells)} | {mean} |")


if __name__ == "__main__":
    main()
