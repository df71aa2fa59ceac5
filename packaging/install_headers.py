"""install_headers.py SOURCE INCLUDEDIR: copies the public headers to INCLUDEDIR/binade. Run by `meson install`.

binade.h itself is copied to INCLUDEDIR and to INCLUDEDIR/binade, so that <binade.h> and <binade/binade.h> are the same
header, as in the source tree.
"""
import os
import shutil
import sys

from public_headers import public_headers

source, includedir = sys.argv[1:]
target = os.path.join(os.environ["MESON_INSTALL_DESTDIR_PREFIX"], includedir)
public = public_headers(source)
for header, place in [(header, "binade/" + header) for header in public] + [("binade.h", "binade.h")]:
    to = os.path.join(target, place)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    shutil.copy2(os.path.join(source, header), to)
if "MESON_INSTALL_QUIET" not in os.environ:
    print(f"Installing {len(public)} headers to {target}")
