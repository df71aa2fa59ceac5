"""Conan 2 recipe of Binade: `conan create packaging/conan --build=missing` from the root of the source tree.

Binade is built against the libraries of the system (Debian's and Ubuntu's packages), not against Conan's: system_requirements
lists them, and Conan installs them with `-c tools.system.package_manager:mode=install`. Programs need {fmt} of the system too.
"""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, load
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain
from conan.tools.system.package_manager import Apt

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class BinadeConan(ConanFile):
    name = "binade"
    license = "MIT"
    description = "Deep-learning framework in C++20 for mixed precision: a training step commits whole or leaves no trace"
    topics = ("deep-learning", "mixed-precision", "cuda")
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"cuda": [True, False],  # True needs nvcc, cuBLASLt and cuDNN 9
               "onnx": [True, False]}  # the library for ONNX files
    default_options = {"cuda": False, "onnx": False}

    def set_version(self):
        self.version = re.search(r"version: '([^']+)'", load(self, os.path.join(ROOT, "meson.build")))[1]

    def export_sources(self):
        for pattern in ("meson.build", "meson_options.txt", "binade.h", "inference.h", "LICENSE", "core/*", "autograd/*", "nn/*", "optim/*", "io/*", "cuda/*",
                        "mpi/*", "amp/*", "run/*", "doctor/*", "examples/*", "packaging/*"):
            copy(self, pattern, ROOT, self.export_sources_folder, excludes=("*/__pycache__/*", "packaging/conan/*"))

    def layout(self):
        self.folders.root = "../.."  # of `conan build` and `conan editable`; `conan create` copies the sources
        basic_layout(self)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"binade: wanted os=Linux, got {self.settings.os}")

    def system_requirements(self):
        Apt(self).install(["meson", "ninja-build", "pkg-config", "libfmt-dev", "libeigen3-dev", "libhdf5-dev", "libpng-dev", "zlib1g-dev", "libzip-dev",
                           "nlohmann-json3-dev", "libcli11-dev", "libssl-dev", "libkissfft-dev", "libturbojpeg0-dev", "libsndfile1-dev",
                           *(["libprotobuf-dev", "libonnx-dev"] if self.options.onnx else [])], update=True, check=True)

    def generate(self):
        toolchain = MesonToolchain(self)
        toolchain.project_options.update(tests="disabled", benchmarks=False, cuda="enabled" if self.options.cuda else "disabled",
                                         onnx="enabled" if self.options.onnx else "disabled",
                                         auto_features="auto", wrap_mode="nofallback")
        toolchain.cpp_std = "c++20"  # whatever the profile says: the library needs it
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        Meson(self).install(cli_args=["--no-rebuild"])
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # As installed without Conan: find_package(binade), binade::binade, pkg-config binade.
        self.cpp_info.set_property("cmake_file_name", "binade")
        self.cpp_info.set_property("cmake_target_name", "binade::binade")
        self.cpp_info.set_property("pkg_config_name", "binade")
        self.cpp_info.libs = (["binade_onnx"] if self.options.onnx else []) + ["binade"]
        self.cpp_info.system_libs = ["fmt", "pthread"]
