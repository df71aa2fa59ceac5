"""install_headers.py SOURCE INCLUDEDIR: copies the public headers to INCLUDEDIR/binade. Run by `meson install`.

The public headers are those that binade.h includes, directly or through other headers. The others are internal. binade.h
itself is copied to INCLUDEDIR and to INCLUDEDIR/binade, so that <binade.h> and <binade/binade.h> are the same header, as
in the source tree.
"""
import os
import re
import shutil
import sys

source, includedir = sys.argv[1:]
target = os.path.join(os.environ["MESON_INSTALL_DESTDIR_PREFIX"], includedir)
public, waiting = set(), ["binade.h"]
while waiting:
    header = waiting.pop()
    if header not in public:
        public.add(header)
        with open(os.path.join(source, header), encoding="utf-8") as file:
            waiting += re.findall(r'^#include "binade/(.*)"$', file.read(), re.MULTILINE)
places = [(header, "binade/" + header) for header in public] + [("binade.h", "binade.h")]
for header, place in places:
    to = os.path.join(target, place)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    shutil.copy2(os.path.join(source, header), to)
if "MESON_INSTALL_QUIET" not in os.environ:
    print(f"Installing {len(public)} headers to {target}")
