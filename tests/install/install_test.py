"""install_test.py SOURCE BUILD MESON...: installs Binade and builds outside/ with it, in the ways of the README.

These are CMake and Meson with the installed library, a compiler line with pkg-config, and a Meson subproject. Each program
is run.
"""
import glob
import os
import re
import shutil
import sys
import tempfile
import unittest

from outside import OUTSIDE, STRICT, build_with_cmake, compile_with_pkg_config, readme_program, run

SOURCE, BUILD, MESON = sys.argv[1], sys.argv[2], sys.argv[3:]
COMPILERS = [compiler for compiler in ("g++", "clang++") if shutil.which(compiler)]


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = cls.folder.name + "/root"
        run(*MESON, "install", "-C", BUILD, "--no-rebuild", "--destdir", root)
        (cls.pc_folder,) = [folder for folder, _, names in os.walk(root) if "binade.pc" in names]
        (cls.include_folder,) = [folder for folder, _, names in os.walk(root) if "binade.h" in names and "binade" in os.listdir(folder)]
        cls.library_folder = os.path.dirname(cls.pc_folder)
        cls.version = os.path.basename(os.path.realpath(cls.library_folder + "/libbinade.so")).split(".so.")[1]
        cls.found = {"PKG_CONFIG_PATH": cls.pc_folder, "LD_LIBRARY_PATH": cls.library_folder}

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

    @unittest.skipUnless(shutil.which("cmake"), "no CMake")
    def test_cmake_finds_the_installed_library(self):
        moved = self.folder.name + "/moved"  # the installed files can be moved to another folder
        prefix = os.path.dirname(self.include_folder)
        shutil.copytree(prefix, moved, symlinks=True)
        build_with_cmake(self.folder.name + "/cmake", moved, os.path.join(moved, os.path.relpath(self.library_folder, prefix)))

    @unittest.skipUnless(shutil.which("cmake"), "no CMake")
    def test_cmake_asks_for_a_version(self):
        major, minor, patch = self.version.split(".")
        # Another minor version may have renamed functions (docs/compatibility.md).
        for wanted, found in ((f"{major}.{minor}", True), (f"{self.version};EXACT", True), (f"{major}.{minor}.{int(patch) + 1}", False),
                              (f"{major}.{int(minor) + 1}", False), (f"{int(major) + 1}", False), (f"{self.version}...9", True),
                              (f"0...<{self.version}", False)):
            build = f"{self.folder.name}/version"
            shutil.rmtree(build, ignore_errors=True)
            command = ("cmake", "-S", OUTSIDE, "-B", build, f"-DCMAKE_PREFIX_PATH={os.path.dirname(self.include_folder)}",
                       f"-DWANTED_VERSION={wanted}")
            with self.subTest(wanted=wanted):
                if found:
                    run(*command)
                else:
                    self.assertRaisesRegex(AssertionError, r"compatible\s+with requested version", run, *command)

    def test_a_compiler_line_with_pkg_config(self):
        compile_with_pkg_config(self.folder.name, self.pc_folder, self.library_folder)

    def test_headers_need_fmt_alone(self):
        # So do the package files: whoever compiles with Binade needs no headers of the libraries that libbinade.so uses.
        for name, requires in (("binade", "binade-inference"), ("binade-inference", "fmt")):
            with open(f"{self.pc_folder}/{name}.pc", encoding="utf-8") as file:
                text = file.read()
            self.assertIn(f"\nRequires: {requires}\n", text)
            self.assertNotIn("Requires.private", text)
        foreign = set()
        for header in glob.glob(self.include_folder + "/**/*.h", recursive=True):
            with open(header, encoding="utf-8") as file:
                foreign.update(re.findall(r"^#include <([^>]*[./][^>]*)>", file.read(), re.MULTILINE))
        self.assertEqual(foreign, {"fmt/core.h"})

    def test_readmes_code_compiles_without_a_warning(self):
        program = self.folder.name + "/readme.cpp"
        with open(program, "w", encoding="utf-8") as file:
            file.write(readme_program(SOURCE))
        flags = run("pkg-config", "--cflags", "binade", **self.found).split()
        for compiler in COMPILERS:
            for source in (program, *(f"{OUTSIDE}/{name}.cpp" for name in ("main", "boundary", "inference"))):
                with self.subTest(compiler=compiler, source=source):
                    run(compiler, *STRICT, "-fsyntax-only", source, *flags)

    def test_the_names_of_the_libraries_have_the_full_version(self):
        # A program needs the release for which it was compiled (docs/compatibility.md).
        for name in ("libbinade.so", "libbinade_inference.so"):
            dynamic = run("readelf", "-d", f"{self.library_folder}/{name}")
            self.assertIn(f"soname: [{name}.{self.version}]", dynamic)
            self.assertNotIn("(RUNPATH)", dynamic)
            with open(f"{self.library_folder}/{name}", "rb") as file:
                self.assertNotIn(BUILD.encode(), file.read(), "the library contains the path of the build folder")

    def test_training_depends_on_inference_and_not_the_other_way_round(self):
        needs = {name: run("readelf", "-d", f"{self.library_folder}/{name}") for name in ("libbinade.so", "libbinade_inference.so")}
        self.assertIn(f"(NEEDED)             Shared library: [libbinade_inference.so.{self.version}]", needs["libbinade.so"])
        self.assertNotIn("[libbinade.so", needs["libbinade_inference.so"])
        for symbol in ("binade::optim::", "binade::amp::Trainer"):
            self.assertNotIn(f" {symbol}", run("nm", "-DC", "--defined-only", self.library_folder + "/libbinade_inference.so"))

    def test_as_a_subproject(self):
        parent = self.folder.name + "/parent"
        shutil.copytree(OUTSIDE, parent)
        os.mkdir(parent + "/subprojects")
        os.symlink(SOURCE, parent + "/subprojects/binade")
        build = parent + "/build"
        run(*MESON, "setup", build, parent, "--buildtype=plain", "-Dbinade:isa=generic", "--force-fallback-for=binade")
        # The suite tests the library itself, so it is not built again: only the program and the sources that include
        # generated headers are compiled, and the program is linked with the library in BUILD.
        folder = "subprojects/binade"
        libraries = [os.path.basename(os.path.realpath(f"{BUILD}/{name}")) for name in ("libbinade.so", "libbinade_inference.so")]
        objects = [f"{folder}/{libraries[1]}.p/{name}.cpp.o" for name in ("core_version", "core_kernels_dispatch", "cuda_module")]
        run("ninja", "-C", build, "outside.p/main.cpp.o", *objects)
        for library in libraries:
            for name in (library, library.split(".so")[0] + ".so"):
                shutil.copy(f"{BUILD}/{library}", f"{build}/{folder}/{name}")
        link = run("ninja", "-C", build, "-t", "commands", "outside").splitlines()[-1]
        run("sh", "-c", f"cd {build} && {link}")
        self.check(build + "/outside")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
