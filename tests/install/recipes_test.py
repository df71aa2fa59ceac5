"""recipes_test.py SOURCE: checks that the recipes of package managers name the libraries that meson.build needs, and their form."""
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = sys.argv[1]
# Debian's package: vcpkg's port
PORTS = {"libfmt-dev": "fmt", "libeigen3-dev": "eigen3", "libhdf5-dev": "hdf5", "libpng-dev": "libpng", "zlib1g-dev": "zlib", "libzip-dev": "libzip",
         "nlohmann-json3-dev": "nlohmann-json", "libcli11-dev": "cli11", "libssl-dev": "openssl", "libkissfft-dev": "kissfft",
         "libturbojpeg0-dev": "libjpeg-turbo", "libsndfile1-dev": "libsndfile"}
# vcpkg's functions, which record their calls.
STUBS = "".join(f"function({name})\n  file(APPEND ${{CALLS}} \"{name} ${{ARGN}}\\n\")\nendfunction()\n" for name in (
    "vcpkg_configure_meson", "vcpkg_install_meson", "vcpkg_fixup_pkgconfig", "vcpkg_copy_tools", "vcpkg_install_copyright"))


def text_of(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


class Recipes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        meson = text_of("meson.build")
        cls.version = re.search(r"version: '([^']+)'", meson)[1]
        cls.needed = set(re.findall(r"^    \['[\w-]+', '([\w-]+)'\]", meson, re.MULTILINE)) | set(re.findall(r"package ([\w-]+-dev)", meson))

    def test_meson_build_lists_the_libraries(self):
        self.assertEqual(self.needed, set(PORTS), "a library was added or removed: correct PORTS and the recipes")

    def test_lists_of_debian_packages(self):
        for path in ("dev", "packaging/conan/conanfile.py", "tests/arm64/run.py"):
            missing = [name for name in self.needed if not re.search(rf"[\s\"(]{re.escape(name)}[\s\",)]", text_of(path))]
            self.assertEqual(missing, [], path)

    def test_conan_recipe(self):
        tree = ast.parse(text_of("packaging/conan/conanfile.py"))
        (recipe,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        methods = {node.name for node in recipe.body if isinstance(node, ast.FunctionDef)}
        self.assertLessEqual({"set_version", "export_sources", "layout", "system_requirements", "generate", "build", "package", "package_info"}, methods)
        exported = text_of("packaging/conan/conanfile.py")
        for folder in re.findall(r"^subdir\('(\w+)'\)", text_of("meson.build"), re.MULTILINE):
            self.assertIn(f'"{folder}/*"', exported, "meson.build needs this folder")

    def test_vcpkg_manifest(self):
        manifest = json.loads(text_of("packaging/vcpkg/binade/vcpkg.json"))
        self.assertEqual((manifest["name"], manifest["version-semver"]), ("binade", self.version))
        names = {entry if isinstance(entry, str) else entry["name"] for entry in manifest["dependencies"]}
        self.assertEqual(names, set(PORTS.values()) | {"vcpkg-tool-meson"})

    @unittest.skipUnless(shutil.which("cmake"), "no CMake")
    def test_vcpkg_portfile(self):
        with tempfile.TemporaryDirectory() as folder:
            script, calls, port = f"{folder}/port.cmake", f"{folder}/calls", f"{SOURCE}/packaging/vcpkg/binade"
            with open(script, "w", encoding="utf-8") as file:
                file.write(f'set(CALLS "{calls}")\nset(CURRENT_PORT_DIR "{port}")\nset(CURRENT_PACKAGES_DIR "{folder}/packages")\n'
                           f'set(PORT binade)\ncmake_policy(SET CMP0057 NEW)\n{STUBS}include("{port}/portfile.cmake")\n')
            subprocess.run(("cmake", "-P", script), check=True, stdout=subprocess.DEVNULL)
            with open(calls, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertEqual([line.split()[0] for line in lines],
                             ["vcpkg_configure_meson", "vcpkg_install_meson", "vcpkg_fixup_pkgconfig", "vcpkg_copy_tools", "vcpkg_install_copyright"])
            self.assertIn(f"SOURCE_PATH;{SOURCE};", lines[0])
            self.assertTrue(os.path.exists(f"{folder}/packages/share/binade/usage"))
            options = set(re.findall(r"-D(\w+)=", lines[0]))
            self.assertLessEqual(options, set(re.findall(r"^option\('(\w+)'", text_of("meson_options.txt"), re.MULTILINE)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
