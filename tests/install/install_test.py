"""install_test.py SOURCE BUILD MESON...: installs Binade and uses it from outside/, in the three ways its README names.

installed + Meson, installed + a compiler line with pkg-config, and as a Meson subproject. Each program is run.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD, MESON = sys.argv[1], sys.argv[2], sys.argv[3:]
OUTSIDE = os.path.join(SOURCE, "tests/install/outside")


def run(*command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = cls.folder.name + "/root"
        run(*MESON, "install", "-C", BUILD, "--no-rebuild", "--destdir", root)
        (cls.pc_folder,) = [folder for folder, _, names in os.walk(root) if "binade.pc" in names]
        cls.found = {"PKG_CONFIG_PATH": cls.pc_folder, "LD_LIBRARY_PATH": os.path.dirname(cls.pc_folder)}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, program, **environment):
        self.assertIn(": loss ", run(program, **environment))

    def test_meson_finds_the_installed_library(self):
        build = self.folder.name + "/meson"
        run(*MESON, "setup", build, OUTSIDE, "--wrap-mode=nofallback", **self.found)
        run("ninja", "-C", build)
        self.check(build + "/outside", **self.found)

    def test_a_compiler_line_with_pkg_config(self):
        program = self.folder.name + "/by_hand"
        flags = run("pkg-config", "--cflags", "--libs", "binade", **self.found).split()
        run("c++", "-std=c++20", OUTSIDE + "/main.cpp", *flags, "-o", program)
        self.check(program, **self.found)

    def test_as_a_subproject(self):
        parent = self.folder.name + "/parent"
        shutil.copytree(OUTSIDE, parent)
        os.mkdir(parent + "/subprojects")
        os.symlink(SOURCE, parent + "/subprojects/binade")
        # -O0 and one instruction set: this is about the build files, the code is compiled for speed elsewhere.
        run(*MESON, "setup", parent + "/build", parent, "--buildtype=plain", "-Dbinade:isa=generic",
            "--force-fallback-for=binade")
        run("ninja", "-C", parent + "/build", "outside")
        self.check(parent + "/build/outside")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
