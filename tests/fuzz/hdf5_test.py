"""hdf5_test.py BINADE_DOCTOR: HDF5 files are refused if they contain something that h5py can write but that no checkpoint
has. Needs h5py (./dev setup).

Each case adds one thing to a valid checkpoint with h5py and rewrites the user block in front (magic, length, SHA-256;
io/checkpoint/file.h), so that only the validator can find it. binade-doctor must refuse the file with its reason.
"""
import hashlib
import json
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import numpy as np
except ImportError:
    sys.exit(f"{sys.executable} (BINADE_PYTHON) cannot import h5py; run ./dev setup")

DOCTOR = sys.argv.pop(1)
INCOMPATIBLE, NOT_WHOLE = 21, 22
V110 = ("v110", "v110")
TOO_LONG = 2  # seconds of CPU time


def sealed(data):
    """`data` with a valid user block in its first 512 bytes."""
    head = b"BINADECK" + struct.pack("<IIQ", 1, 512, len(data))
    return head + hashlib.sha256(head + data[56:]).digest() + data[56:]


def in_model(write):
    """A case that applies `write` to the group /model of the checkpoint."""
    def case(path):
        with h5py.File(path, "r+", libver=V110) as file:
            write(file["model"])
    return case


def written_anew(**options):
    """A case that copies all groups, datasets and attributes into a new file with other options of h5py.File."""
    def case(path):
        block = path.read_bytes()[:512]
        with h5py.File(path, "r") as old, h5py.File(path.with_suffix(".new"), "w", **{"userblock_size": 512, **options}) as new:
            for group in old:
                old.copy(group, new)
        data = path.with_suffix(".new").read_bytes()
        path.write_bytes(block + data[512:])
    return case


def dataset_with(**options):
    return in_model(lambda model: model.create_dataset("odd", data=np.arange(64, dtype="f4"), **options))


def typed(dtype, value=None):
    return in_model(lambda model: model.create_dataset("odd", (2,), dtype=dtype, data=value))


def attribute(value, dtype=None):
    return in_model(lambda model: model.attrs.create("odd", value, dtype=dtype))


def timeless(kind):
    """Creation properties without the timestamps that HDF5 stores by default."""
    properties = h5py.h5p.create(kind)
    properties.set_obj_track_times(False)
    return properties


def group_in(group, name):
    return h5py.Group(h5py.h5g.create(group.id, name, gcpl=timeless(h5py.h5p.GROUP_CREATE)))


def made_by_properties(change, shape=(4,)):
    """A case with an f4 dataset whose creation properties `change` sets through the low-level API."""
    def write(model):
        properties = timeless(h5py.h5p.DATASET_CREATE)
        change(properties)
        h5py.h5d.create(model.id, b"odd", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple(shape), properties)
    return in_model(write)


def filtered(number):
    """A case with a filter that is not installed, such as one from a plugin."""
    def change(properties):
        properties.set_chunk((4,))
        properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (1, 2, 3))
    return made_by_properties(change)


def link(name, target):
    return in_model(lambda model: model.__setitem__(name, target))


def cycle(model):
    model["again"] = model


def cycle_above(model):
    model["above"] = model.file["/"]


def twice(model):
    model["again"] = model["w"]


def virtual(properties):
    space = h5py.h5s.create_simple((4,))
    properties.set_virtual(space, b"/etc/passwd", b"w", space)


def committed(model):
    model["type"] = np.dtype("f4")


def of_committed_type(model):
    model["type"] = np.dtype("f4")
    model.create_dataset("odd", (2,), dtype=model["type"])
    del model["type"]


def deep(model):
    for _ in range(600):
        model = group_in(model, b"g")


def many_links(model):
    group = group_in(model, b"g")  # HDF5's defaults: with the ninth link, the group moves its links to a fractal heap
    for i in range(500):
        group_in(group, str(i).encode())


def many_attributes(model):
    for i in range(1100):
        model.attrs[str(i)] = i


def named(name):
    return in_model(lambda model: group_in(model, name))


def references(model):
    model.create_dataset("odd", data=[model.ref, model["w"].ref], dtype=h5py.ref_dtype)


def regions(model):
    model.create_dataset("odd", data=[model["w"].regionref[0]], dtype=h5py.regionref_dtype)


def commented(model):
    h5py.h5o.set_comment(model.id, b"a comment")


def ordered(model):
    model.create_group("odd", track_order=True)


# What a case adds: (text of the refusal, the case).
CASES = {
    "a soft link": ("a soft, external or user link", link("soft", h5py.SoftLink("/model/w"))),
    "a soft link to nothing": ("a soft, external or user link", link("soft", h5py.SoftLink("/nothing/here"))),
    "a soft link to itself": ("a soft, external or user link", link("soft", h5py.SoftLink("/model/soft"))),
    "an external link": ("a soft, external or user link", link("other", h5py.ExternalLink("/etc/passwd", "/"))),
    "an external link upward": ("a soft, external or user link",
                                link("other", h5py.ExternalLink("../../../../etc/passwd", "/"))),
    "a group in itself": ("reference count", in_model(cycle)),
    "the root below itself": ("reference count", in_model(cycle_above)),
    "a dataset under two names": ("reference count", in_model(twice)),
    "external storage": ("external storage", dataset_with(external=[("/tmp/binade-no-such-file", 0, 256)])),
    "a virtual dataset": ("virtual storage", made_by_properties(virtual)),
    "chunks": ("chunked storage", dataset_with(chunks=(16,))),
    "an extent without limit": ("largest extent", dataset_with(maxshape=(None,))),
    "deflate": ("filter pipeline", dataset_with(compression="gzip")),
    "LZF": ("filter pipeline", dataset_with(compression="lzf")),
    "shuffle": ("filter pipeline", dataset_with(shuffle=True)),
    "Fletcher32": ("filter pipeline", dataset_with(fletcher32=True)),
    "scale and offset": ("filter pipeline", dataset_with(scaleoffset=3)),
    "a plugin's filter": ("filter pipeline", filtered(32015)),
    "a filter of no number": ("filter pipeline", filtered(65535)),
    "a compact dataset": ("compact storage",
                          made_by_properties(lambda properties: properties.set_layout(h5py.h5d.COMPACT))),
    "a dataset never allocated": ("lies outside the file", made_by_properties(lambda properties: None)),
    "2^60 elements": ("multiply to more than any file holds",
                      made_by_properties(lambda properties: None, shape=(1 << 30, 1 << 30))),
    "2^60 elements in chunks": ("multiply to more than any file holds",
                                made_by_properties(lambda properties: properties.set_chunk((1, 1)), shape=(1 << 30, 1 << 30))),
    "rank 32": ("rank 32 is more than 8", made_by_properties(lambda properties: None, shape=(1,) * 32)),
    "a fill value": ("a fill value", dataset_with(fillvalue=3)),
    "times": ("header flags for times", dataset_with(track_times=True)),
    "no dataspace": ("dataspace is neither a scalar nor simple",
                     in_model(lambda model: model.create_dataset("odd", data=h5py.Empty("f4")))),
    "a committed type": ("header flags for times", in_model(committed)),
    "a dataset of a committed type": ("a shared message", in_model(of_committed_type)),
    "texts of any length": ("variable length", typed(h5py.string_dtype(), ["a", "b" * 100000])),
    "lists of any length": ("variable length",
                            in_model(lambda model: model.create_dataset("odd", (2,), dtype=h5py.vlen_dtype("i4")))),
    "object references": ("reference", in_model(references)),
    "region references": ("reference", in_model(regions)),
    "records": ("compound", typed([("a", "f4"), ("b", "i8")])),
    "complex numbers": ("compound", typed("c8")),
    "an enumeration": ("enumeration", typed("?")),
    "arrays as elements": ("array", typed("(3,)f4")),
    "opaque bytes": ("opaque", typed("V7")),
    "big-endian numbers": ("float type of 4 bytes with 8 exponent bits", typed(">f4")),
    "small integers": ("integer type of 2 bytes with flags 0x8", typed("i2")),
    "unsigned integers": ("integer type of 8 bytes with flags 0x0", typed("u8")),
    "long doubles": ("float precision is 80, wanted 128", typed(np.longdouble)),
    "text padded with blanks": ("text that is not null-terminated UTF-8", typed("S5")),
    "a dataset without its dtype": ("lies outside the file", typed("f4")),
    "an attribute of a dataset": ("entry model/w: wanted one attribute, dtype",
                                  in_model(lambda model: model["w"].attrs.__setitem__("odd", 1))),
    "an attribute that is text of any length": ("variable length", attribute("text")),
    "an attribute that is a record": ("compound", attribute(np.zeros((), [("a", "f4")]))),
    "an attribute of two dimensions": ("an attribute of more than one dimension", attribute(np.zeros((2, 2)))),
    "an attribute of no dataspace": ("dataspace is neither a scalar nor simple", attribute(h5py.Empty("f8"))),
    "an attribute of 200 kB": ("fractal heap of attributes", attribute(np.zeros(25000))),
    "a reference as an attribute": ("reference",
                                    in_model(lambda model: model.attrs.__setitem__("odd", model["w"].ref))),
    "1100 attributes": ("too many attributes", in_model(many_attributes)),
    "500 links": ("fractal heap of links", in_model(many_links)),
    "groups 600 deep": ("nested deeper than 6", in_model(deep)),
    "creation order": ("creation order", in_model(ordered)),
    "a comment": ("object comment", in_model(commented)),
    "a name that goes up": ("a name that is empty", named(b"..")),
    "a name with escapes": ("a name that is empty", named(b"\x1b[2J\x1b[31m")),
    "a name on two lines": ("a name that is empty", named(b"a\nb")),
    "a name that is no UTF-8": ("a name that is empty", named(b"\xff\xfe")),
    "a name of 300 bytes": ("a link name of more than 255 bytes", named(b"n" * 300)),
    "the oldest format": ("superblock version is 0", written_anew(libver="earliest")),
    "the newest format": ("header flags for times", written_anew(libver="latest")),
    "a user block of 1024 bytes": ("no HDF5 signature after the user block",
                                   written_anew(libver=V110, userblock_size=1024)),
    "free space kept on disk": ("superblock extension", written_anew(libver=V110, fs_strategy="fsm", fs_persist=True)),
    "links in creation order": ("creation order", written_anew(libver=V110, track_order=True)),
}


class StockHdf5(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name, "checkpoint.h5")
        header = json.dumps({"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
        weights = cls.path.with_suffix(".safetensors")
        weights.write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
        subprocess.run([DOCTOR, "import", weights, cls.path], check=True, stdout=subprocess.DEVNULL)
        cls.whole = cls.path.read_bytes()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, case):
        self.path.write_bytes(self.whole)
        case(self.path)
        self.path.write_bytes(sealed(self.path.read_bytes()))

    def doctor(self, command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([DOCTOR, command, self.path], capture_output=True, timeout=120, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, TOO_LONG)
        return done.returncode, done.stderr.decode("utf-8", "strict").strip().split("\n")[-1]

    def test_what_h5py_only_opened_is_still_whole(self):
        self.write(in_model(lambda model: None))
        self.assertEqual(self.doctor("verify"), (0, ""))
        self.assertEqual(self.doctor("inspect"), (0, ""))

    def test_every_case_is_refused_with_words(self):
        for name, (reason, case) in CASES.items():
            self.write(case)
            for command in ("verify", "inspect"):
                with self.subTest(name, command=command):
                    code, words = self.doctor(command)
                    self.assertIn(code, (INCOMPATIBLE, NOT_WHOLE), words)
                    self.assertIn(str(self.path), words)
                    self.assertTrue(words.isprintable(), repr(words))
                    self.assertIn(reason, words)


if __name__ == "__main__":
    unittest.main()
