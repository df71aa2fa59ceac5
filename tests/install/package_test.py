"""package_test.py SOURCE BUILD MESON...: makes the Debian packages of BUILD, installs them into an empty root and uses them."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from outside import build_with_cmake, compile_with_pkg_config, run

SOURCE, BUILD, MESON = sys.argv[1], sys.argv[2], sys.argv[3:]
TOOLS = ("dpkg", "dpkg-deb", "dpkg-shlibdeps", "dpkg-architecture", "strip")


def is_elf(path):
    """Whether a file is a program or a library. (binade-onnx also contains a link and a pkg-config file.)"""
    if os.path.islink(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


@unittest.skipUnless(all(map(shutil.which, TOOLS)), "not a Debian or Ubuntu system with dpkg-dev")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.debs = run(sys.executable, SOURCE + "/packaging/debian.py", BUILD, cls.folder.name + "/debs", *MESON).split()
        cls.root = cls.folder.name + "/root"
        for folder in ("info", "updates"):
            os.makedirs(f"{cls.root}/var/lib/dpkg/{folder}")
        open(cls.root + "/var/lib/dpkg/status", "w", encoding="utf-8").close()
        cls.triplet = run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
        cls.library_folder = f"{cls.root}/usr/lib/{cls.triplet}"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def dpkg(self, *arguments):
        # The root has none of the other packages, and no ldconfig: only the contents of these packages are tested here.
        return run("dpkg", f"--root={self.root}", "--force-not-root", "--force-depends", "--force-bad-path", "--log=/dev/null", *arguments,
                   PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")

    def field(self, deb, name):
        return run("dpkg-deb", "--field", deb, name).strip()

    def test_install_use_and_purge(self):
        self.dpkg("--install", *self.debs)
        build_with_cmake(self.folder.name + "/cmake", self.root + "/usr", self.library_folder)
        compile_with_pkg_config(self.folder.name, self.library_folder + "/pkgconfig", self.library_folder)
        for program in ("binade-doctor", "binade-gpt", "binade-unet"):
            self.assertIn("Usage", run(f"{self.root}/usr/bin/{program}", "--help", LD_LIBRARY_PATH=self.library_folder))
        self.dpkg("--purge", *[self.field(deb, "Package") for deb in self.debs])
        left = [path for path, _, files in os.walk(self.root + "/usr") if files]
        self.assertEqual(left, [], "files that no package owns")

    def test_dependencies(self):
        """Each package depends on the packages that own the libraries that ldd prints for its files."""
        inference, library, dev, *others = self.debs  # binade-tools; binade-mpi and binade-onnx, if they were built
        version = self.field(library, "Version")
        names = {f"{file}.so.{self.field(deb, 'Package').removeprefix(package)}": f"{self.field(deb, 'Package')} (= {version})"
                 for deb, file, package in ((inference, "libbinade_inference", "libbinade-inference"), (library, "libbinade", "libbinade"))}
        for deb in (inference, library, *others):
            root = f"{self.folder.name}/{self.field(deb, 'Package')}"
            run("dpkg-deb", "--extract", deb, root)
            depends = self.field(deb, "Depends")
            objects = [path for folder, _, files in os.walk(root) for path in (os.path.join(folder, file) for file in files) if is_elf(path)]
            self.assertTrue(objects)
            for file in objects:
                for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", file)):
                    if needed in names:
                        self.assertIn(names[needed], depends)
                        continue
                    owner = run("dpkg", "--search", f"*/lib/{self.triplet}/{needed}").split(":")[0]
                    self.assertRegex(depends, rf"(^|, ){re.escape(owner)}( |,|$)", f"{file} needs {needed}")
        self.assertEqual(self.field(dev, "Depends"), ", ".join([*names.values(), "libfmt-dev"]))

    def test_contents(self):
        for deb in self.debs:
            with self.subTest(deb=os.path.basename(deb)):
                listing = run("dpkg-deb", "--contents", deb)
                self.assertNotRegex(listing, r"(?m)^[^l].{8}w")  # writable by all
                self.assertEqual(set(re.findall(r"(?m)^\S+ (\S+)", listing)), {"root/root"})
                package = self.field(deb, "Package")
                for file in ("copyright", "changelog.gz"):
                    self.assertIn(f"./usr/share/doc/{package}/{file}\n", listing)
                self.assertNotIn(SOURCE.encode(), subprocess.run(("dpkg-deb", "--fsys-tarfile", deb), check=True, capture_output=True).stdout,
                                 "the package contains a path of the machine that built it")

    def test_the_same_build_gives_the_same_bytes(self):
        again = run(sys.executable, SOURCE + "/packaging/debian.py", BUILD, self.folder.name + "/again", *MESON).split()
        for first, second in zip(self.debs, again):
            with open(first, "rb") as a, open(second, "rb") as b:
                self.assertTrue(a.read() == b.read(), os.path.basename(first))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
