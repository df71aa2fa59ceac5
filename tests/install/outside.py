"""Builds and runs the project in outside/ with an installed Binade; for install_test.py, package_test.py and
bench/compile_time.py."""
import os
import re
import subprocess

OUTSIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "outside")
STRICT = ("-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror")

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


def check_programs(folder, **environment):
    """Runs the programs of outside/, which are compiled in `folder`."""
    model = folder + "/layer.h5"
    for program, arguments, says in (("main", (model,), ": loss "), ("boundary", (), "everything crosses"),
                                     ("inference", (model,), "y(1, 1) = 2.000, token 121")):
        text = run(f"{folder}/{program}", *arguments, **environment)
        if says not in text:
            raise AssertionError(f"{program} printed {text!r}; wanted {says!r}")
    if "libbinade.so" in run("readelf", "-d", folder + "/inference"):
        raise AssertionError("a program for inference needs the library for training")


def build_with_cmake(build, prefix, library_folder):
    """Builds outside/ in the folder `build` with the CMake package below `prefix`, and runs the programs."""
    run("cmake", "-S", OUTSIDE, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    with open(build + "/CMakeCache.txt", encoding="utf-8") as cache:
        if f"binade_DIR:PATH={prefix}" not in cache.read():
            raise AssertionError(f"CMake found another Binade than that in {prefix}")
    run("cmake", "--build", build)
    check_programs(build, LD_LIBRARY_PATH=library_folder)


def compile_with_pkg_config(folder, pc_folder, library_folder):
    """Compiles outside/ into `folder` with the flags that pkg-config prints, and runs the programs."""
    for program, package in (("main", "binade"), ("boundary", "binade"), ("inference", "binade-inference")):
        flags = run("pkg-config", "--cflags", "--libs", package, PKG_CONFIG_PATH=pc_folder).split()
        run("c++", *STRICT, f"{OUTSIDE}/{program}.cpp", *flags, "-o", f"{folder}/{program}")
    check_programs(folder, LD_LIBRARY_PATH=library_folder)


def readme_program(source):
    """README's two snippets as a program."""
    with open(source + "/README.md", encoding="utf-8") as readme:
        training, model = re.findall(r"^```cpp\n(.*?)^```$", readme.read(), re.MULTILINE | re.DOTALL)
    return model + README_NET + training + "}\n"
