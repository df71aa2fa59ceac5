"""install_test.py SOURCE BUILD MESON...: installs Binade and builds outside/ with it, in the three ways of the README.

These are Meson with the installed library, a compiler line with pkg-config, and a Meson subproject. Each program is run.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD, MESON = sys.argv[1], sys.argv[2], sys.argv[3:]
OUTSIDE = os.path.join(SOURCE, "tests/install/outside")

# Code around README's two snippets: a model, batches, a main().
README_NET = """
struct Net : nn::Module {
  nn::Embedding embedding;
  Block block;
  nn::Linear head;
  Net() : embedding({.count = 65, .dim = 16}), block(16, 2), head({.in = 16, .out = 65}) {}
  void visit(nn::Visitor& v) override { v("embedding", embedding); v("block", block); v("head", head); }
  Variable forward(const Variable& tokens) override { return head(block(embedding(tokens))); }
};
struct Batch { Tensor tokens, targets; io::BatchOrigin origin{}; };
void train(io::Loader<Batch>& loader) {
"""


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

    def test_readmes_code_compiles_without_a_warning(self):
        with open(SOURCE + "/README.md", encoding="utf-8") as readme:
            training, model = re.findall(r"^```cpp\n(.*?)^```$", readme.read(), re.MULTILINE | re.DOTALL)
        program = self.folder.name + "/readme.cpp"
        with open(program, "w", encoding="utf-8") as file:
            file.write(model + README_NET + training + "}\n")
        flags = run("pkg-config", "--cflags", "binade", **self.found).split()
        run("c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", program, *flags)

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
        library = os.path.basename(os.path.realpath(BUILD + "/libbinade.so"))
        objects = [f"{folder}/{library}.p/{name}.cpp.o" for name in ("core_version", "core_kernels_dispatch", "cuda_module")]
        run("ninja", "-C", build, "outside.p/main.cpp.o", *objects)
        for name in {"libbinade.so", library} | {f"libbinade.so.{library.split('.so.')[1].split('.')[0]}"}:
            shutil.copy(f"{BUILD}/{library}", f"{build}/{folder}/{name}")
        link = run("ninja", "-C", build, "-t", "commands", "outside").splitlines()[-1]
        run("sh", "-c", f"cd {build} && {link}")
        self.check(build + "/outside")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
