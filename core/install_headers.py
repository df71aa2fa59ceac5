"""Copies every public header to INCLUDEDIR/binade, as it lies in the source tree. Run by `meson install`.

A script, because a list of headers kept by hand would be the one that somebody forgets.
"""
import os
import shutil
import sys

FOLDERS = ("core", "autograd", "nn", "optim", "io", "amp")

source, includedir = sys.argv[1:]
target = os.path.join(os.environ["MESON_INSTALL_DESTDIR_PREFIX"], includedir, "binade")
headers = ["binade.h"]
for top in FOLDERS:
    for folder, _, names in os.walk(os.path.join(source, top)):
        headers += [os.path.relpath(os.path.join(folder, name), source) for name in names if name.endswith(".h")]
for header in headers:
    to = os.path.join(target, header)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    shutil.copy2(os.path.join(source, header), to)
if "MESON_INSTALL_QUIET" not in os.environ:
    print(f"Installing {len(headers)} headers to {target}")
