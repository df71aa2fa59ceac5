"""Builds the project of tests/install/outside with the package, and runs its programs. `conan create` runs this."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class TestBinade(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=os.path.join(self.source_folder, "../../../tests/install/outside"))
        cmake.build()

    def test(self):
        if can_run(self):
            for program in ("main", "boundary"):
                self.run(os.path.join(self.cpp.build.bindir, program), env="conanrun")
