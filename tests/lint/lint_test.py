"""Plants violations of each rule in a small tree; exactly that rule must report them."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import headers  # noqa: E402
import lint  # noqa: E402

HEADER = "#pragma once\n\n"
# A small tree without violations.
CLEAN = {
    "binade.h": HEADER + '#include "binade/core/tensor.h"\n',
    "core/meson.build": "files('tensor.cpp', 'precision.cpp')\n",
    "core/tensor.h": HEADER + "#include <cstdint>\n// a fast path; \"new\" in words is no name\nstruct Tensor { std::int64_t n; };\n",
    "core/tensor.cpp": '#include "binade/core/tensor.h"\nnamespace binade {\nTensor Tensor::copy() const { return *this; }\n}\n',
    "core/kernels/table.h": HEADER,
    "core/kernels/dispatch.h": HEADER,
    "core/ops/formulas.h": HEADER,
    "core/ops/op.h": HEADER + '#include "binade/core/kernels/table.h"\n',
    "core/kernels/loops.h": HEADER + '#include "binade/core/ops/formulas.h"\n',
    "core/precision.h": HEADER + "int compute_dtype(int x);\n",
    "core/precision.cpp": '#include "binade/core/precision.h"\nint compute_dtype(int x) { return x; }\n',
    "core/ops/binary.h": HEADER + 'struct OpInfo { const char* name; const char* inputs; };\nstruct Sub {\n  static constexpr OpInfo info{.name = "sub", .inputs = "a, b"};\n};\nstruct Attention {\n  static constexpr OpInfo info{\n      .name = "attention"};\n};\n',
    "autograd/meson.build": "files('apply.cpp')\n",
    "autograd/apply.cpp": '#include "binade/core/precision.h"\nint apply(int x) { return compute_dtype(x); }\n',
    "io/meson.build": "files('checkpoint.cpp')\n",
    "io/checkpoint.cpp": "#include <hdf5.h>\n",
    "io/data/loader.h": HEADER,
    "nn/linear.h": HEADER + '#include "binade/core/tensor.h"\n',
    "optim/sgd.h": HEADER + "int renew(int news);\n",
    "amp/step/trainer.h": HEADER + '#include "binade/nn/linear.h"\n#include "binade/optim/sgd.h"\n',
    "amp/report.h": HEADER + 'const char* const kAdvice = "sub"; // op == "sub"\ninline const char* f() { return "attention"; }\n',
    "tests/core/meson.build": "files('tensor_test.cpp')\n",
    "tests/core/tensor_test.cpp": '#include <gtest/gtest.h>\n#include "binade.h"\n',
    "examples/01_tensor.cpp": '#include "binade.h"\n#include <CLI/CLI.hpp>\n',
}

# rule -> violations; each is a (file, text) added to the clean tree.
PLANTED = {
    "floors": [
        ("nn/loss.h", HEADER + '#include "binade/optim/sgd.h"\n'),
        ("optim/adam.h", HEADER + '#include "binade/nn/linear.h"\n'),
        ("core/shape.h", HEADER + '#include "binade/nn/linear.h"\n'),
        ("io/data/loader.h", HEADER + '#include "binade/amp/step/trainer.h"\n'),
        ("autograd/tape.h", HEADER + '#include "examples/01_tensor.cpp"\n'),
        ("core/all.h", HEADER + '#include "binade.h"\n'),
    ],
    "rooms": [
        ("amp/watch/telemetry.h", HEADER + '#include "binade/amp/step/trainer.h"\n'),
        ("amp/verdict.h", HEADER + '#include "binade/amp/step/trainer.h"\n'),
        ("amp/attic/trainer.h", HEADER),
        ("io/files/run_folder.h", HEADER + '#include "binade/io/data/loader.h"\n'),
    ],
    "rooted_includes": [("nn/loss.h", HEADER + '#include "binade/nn/gone.h"\n'), ("nn/loss.h", HEADER + '#include "core/tensor.h"\n')],
    "ops_and_kernels": [
        ("core/ops/exp.h", HEADER + '#include "binade/core/kernels/dispatch.h"\n'),
        ("core/kernels/exp.h", HEADER + '#include "binade/core/ops/op.h"\n'),
        ("cuda/device/exp.cuh", HEADER + '#include "binade/core/ops/op.h"\n'),
    ],
    "one_source_per_class": [
        ("core/precision.cpp", '#include "binade/core/precision.h"\nnamespace binade {\nvoid Tensor::print() const {}\n}\n'),
    ],
    "third_party_places": [
        ("core/stream.h", HEADER + "#include <cuda_runtime.h>\n"),
        ("nn/loss.h", HEADER + "#include <cudnn.h>\n"),
        ("nn/loss.h", HEADER + "#include <hdf5.h>\n"),
        ("core/tensor.cpp", '#include "binade/core/tensor.h"\n#include <Eigen/Core>\n'),
        ("nn/loss.h", HEADER + "#include <omp.h>\n"),
        ("run/settings.h", HEADER + "#include <CLI/CLI.hpp>\n"),
        ("io/json.h", HEADER + "#include <nlohmann/json.hpp>\n"),
        ("core/shape.h", HEADER + "#include <fmt/format.h>\n"),
        ("core/check.h", HEADER + "#include <gtest/gtest.h>\n"),
    ],
    "own_header_first": [("core/tensor.cpp", '#include <cstdint>\n#include "binade/core/tensor.h"\n')],
    "one_policy_reader": [("nn/loss.h", HEADER + "inline int f() { return compute_dtype(1); }\n")],
    "policy_readers": [("nn/loss.h", HEADER + "inline int f() { return current_policy().low; }\n")],
    "named_files_exist": [("nn/loss.h", HEADER + "// Defined in nn/gone.cpp.\n"), ("core/meson.build", "files('tensor.cpp', 'precision.cpp')  # see docs/gone.md\n")],
    "page_links": [("docs/nn.md", "See [losses](../nn/gone.h).\n"), ("docs/decisions/0001-tape.md", "# 0001: the tape\n")],
    "one_json_reader": [("examples/08_json.cpp", "auto f() { return nlohmann::json::parse(text, nullptr, false); }\n")],
    "one_way_out": [
        ("amp/tell.h", HEADER + '#include <cstdio>\ninline void f(const char* s) { std::printf("%s", s); }\n'),
        ("examples/unet/eval.h", HEADER + '#include <iostream>\ninline void f() { std::cerr << "x"; }\n'),
    ],
    "file_size": [("nn/loss.h", HEADER + "\n" * 600)],
    "names": [
        ("nn/helper.h", HEADER),
        ("nn/loss.h", HEADER + "int new_shape;\n"),
        ("nn/loss.h", HEADER + "struct TensorManager {};\n"),
        ("nn/loss.h", HEADER + "int fast_exp(int x);\n"),
    ],
    "spelling": [("nn/loss.h", HEADER + "int normalise(int x);\n"), ("nn/loss.h", HEADER + "// the colour\n")],
    "finished": [("nn/loss.h", HEADER + "// TODO: gradient\n"), ("nn/loss.h", HEADER + '// "not implemented"\n')],
    "macros": [("nn/loss.h", HEADER + "#define SQUARE(x) ((x) * (x))\n")],
    "header_guards": [("nn/loss.h", "int f();\n")],
    "no_sudden_death": [("nn/loss.h", HEADER + "inline void f(int x) { assert(x); }\n"), ("nn/loss.h", HEADER + "inline void f() { std::abort(); }\n")],
    "nan_blind": [("core/relu.h", HEADER + "inline float f(float x) { return std::fmax(x, 0.f); }\n")],
    "unroll_in_a_block": [
        ("cuda/device/norm.cuh", HEADER + "inline void f(float* x) {\n  if (x != nullptr)\n#pragma unroll\n    for (int i = 0; i < 8; ++i) x[i] = 0;\n}\n"),
        ("cuda/device/norm.cuh", HEADER + "inline void f(float* x) {\n  if (x == nullptr) {\n  } else\n#pragma unroll\n    for (int i = 0; i < 8; ++i) x[i] = 0;\n}\n"),
    ],
    "op_identity": [
        ("amp/judge.h", HEADER + 'inline bool f(std::string_view op) { return op == "sub"; }\n'),
        ("amp/judge.h", HEADER + 'inline bool f(const char* op) { return std::string_view("sub") != op; }\n'),
        ("amp/judge.h", HEADER + 'inline bool f(const OpInfo& info) { return info.name == std::string_view("sub"); }\n'),
        ("amp/judge.h", HEADER + 'inline bool f(const SurveyedOp& op) { return op.is("sub"); }\n'),
        ("amp/judge.h", HEADER + 'inline bool f(std::string_view op) { return one_of(op, {"sub", "attention"}); }\n'),
        ("amp/judge.h", HEADER + 'const std::string_view kPairs[] = {"sub",\n                                   "attention"};\n'),
        ("doctor/judge.h", HEADER + 'inline bool f(const std::string& path) { return path.find("attention") != path.npos; }\n'),
    ],
    "built": [("core/shape.cpp", "int f() { return 1; }\n")],
}


def plant(root, files):
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
            file.write(text)


class Lint(unittest.TestCase):
    def seen(self, extra):
        with tempfile.TemporaryDirectory() as root:
            plant(root, CLEAN | extra)
            return sorted({rule for rule, *_ in lint.violations(root)})

    def test_a_clean_tree_is_clean(self):
        self.assertEqual(self.seen({}), [])

    def test_every_rule_has_a_planted_violation(self):
        self.assertEqual(sorted(PLANTED), sorted(rule.__name__ for rule in lint.RULES))

    def test_each_violation_is_reported_by_its_rule_only(self):
        for rule, plantings in PLANTED.items():
            for path, text in plantings:
                with self.subTest(rule=rule, path=path, text=text[:80]):
                    self.assertEqual(self.seen({path: text}), [rule])

    def test_main_fails_on_a_violation(self):
        with tempfile.TemporaryDirectory() as root:
            plant(root, {"nn/loss.h": "int f();\n"})
            done = subprocess.run([sys.executable, os.path.join(HERE, "lint.py"), root], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("nn/loss.h:1: add #pragma once", done.stdout)


class Headers(unittest.TestCase):
    def failures(self, files):
        with tempfile.TemporaryDirectory() as root:
            plant(root, files)
            return [path for path, _ in headers.failures(root, ["c++", "-std=c++20"])]

    def test_a_header_that_lacks_an_include_is_reported(self):
        self.assertEqual(self.failures({"nn/loss.h": HEADER + "inline std::string f() { return {}; }\n"}), ["nn/loss.h"])

    def test_a_header_without_a_guard_is_reported(self):
        self.assertEqual(self.failures({"nn/loss.h": "struct Loss {};\n"}), ["nn/loss.h"])

    def test_a_complete_header_passes(self):
        self.assertEqual(self.failures(CLEAN), [])

    def test_a_header_that_its_source_includes_first_is_skipped(self):
        files = {"nn/loss.h": HEADER + "std::string f();\n", "nn/loss.cpp": '#include "binade/nn/loss.h"\n'}
        self.assertEqual(self.failures(files), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
