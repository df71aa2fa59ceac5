#!/usr/bin/env python3
"""strips.py PNG... > FILE.svg: pictures of `binade-unet eval --pictures` under one another, with a caption over each panel.

    docs/pictures/strips.py runs/NAME/pictures/cell-03[246].png > docs/pictures/cells.svg

The PNG bytes are embedded as they are: the picture shows what the program wrote.
"""
import base64
import struct
import sys

BAR, GAP, CAPTION = 4, 6, 18  # BAR: the white bar of examples/unet/evaluation.cpp


def main():
    files = [open(name, "rb").read() for name in sys.argv[1:]]
    if not files:
        sys.exit(__doc__)
    sizes = [struct.unpack(">II", data[16:24]) for data in files]  # the header chunk of every PNG comes first
    width = max(w for w, _ in sizes)
    height = CAPTION + sum(h + GAP for _, h in sizes) - GAP
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{2 * width}" height="{2 * height}">')
    print('<title>Image, truth and prediction of the example U-Net</title>')
    print(f'<rect width="{width}" height="{height}" fill="white"/>')
    panel = (width - 2 * BAR) / 3
    for n, caption in enumerate(("image", "truth", "prediction")):
        x = n * (panel + BAR) + panel / 2
        print(f'<text x="{x:g}" y="12" font-family="sans-serif" font-size="11" text-anchor="middle">{caption}</text>')
    y = CAPTION
    for data, (w, h) in zip(files, sizes):
        text = base64.b64encode(data).decode()
        print(f'<image x="0" y="{y}" width="{w}" height="{h}" href="data:image/png;base64,{text}"/>')
        y += h + GAP
    print('</svg>')


if __name__ == "__main__":
    main()
