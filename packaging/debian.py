#!/usr/bin/env python3
"""debian.py BUILD FOLDER [MESON...]: packs what is compiled in BUILD into Debian packages in FOLDER, and prints their paths.

    libbinade-inferenceX.Y.Z  the shared library for inference; its name has the version, because that is the SONAME
                              (docs/compatibility.md)
    libbinadeX.Y.Z   the shared library that adds training
    libbinade-dev    headers, pkg-config files, CMake package files
    binade-tools     binade-doctor and the example programs binade-gpt and binade-unet
    binade-mpi       the MPI engine of runs over several processes, if it was built (docs/ranks.md)
    binade-onnx      the library for ONNX files, if it was built (docs/onnx.md)

dpkg-shlibdeps computes the packages on which libraries and programs depend. The CUDA module is left out: it needs NVIDIA's
cuBLASLt and cuDNN, of which Debian has no packages. Two runs for the same commit and the same build give the same bytes.
"""
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAINTAINER = "The Binade authors <binade@localhost>"
SUMMARY = "deep-learning framework for mixed precision"
ABOUT = {
    "inference": ("inference", " This package has the shared library for models without training: it loads weights\n and computes."),
    "library": ("training", " This package has the shared library for training."),
    "dev": ("development files", " This package has the headers, and the files by which pkg-config and CMake find the\n libraries."),
    "mpi": ("MPI engine", " This package has the engine that connects several processes of a run by MPI.\n Binade opens it only if a launcher such as mpirun has started several."),
    "onnx": ("ONNX files", " This package has the library that writes models as ONNX files and reads them,\n and what is needed to link it; libbinade-dev has its headers."),
    "tools": ("programs", " This package has binade-doctor, which inspects and verifies checkpoints and run\n folders, and two example programs that train a transformer and a U-Net."),
}
DESCRIPTION = """\
Description: {summary} ({part})
 Binade trains models in fp32, fp16 or bf16. A training step commits whole or
 leaves no trace, and a resumed run gives the same bits as an uninterrupted one.
 .
{about}
"""


def run(*command, cwd=None, env=None):
    return subprocess.run(command, cwd=cwd, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def git(*arguments):
    """The output of git in the source folder, or None outside of a repository."""
    try:
        return subprocess.run(("git", "-C", SOURCE, *arguments), check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def package_version(version):
    """The version of the packages: that of the project at its tag, else a later snapshot's, which sorts before the release."""
    if git("tag", "--points-at", "HEAD", "--list", f"v{version}"):
        return version
    commit = git("log", "-1", "--date=format:%Y%m%d%H%M", "--format=%cd.%h", "--abbrev=12")
    return f"{version}~git{commit}" if commit else version


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def wrapped(text):
    """The text as continuation lines of a field: indented, with "." on empty lines."""
    return "".join(f" {line or '.'}\n" for line in text.strip().split("\n"))


class Packages:
    def __init__(self, build, meson, work):
        options = {option["name"]: option["value"] for option in json.loads(run(*meson, "introspect", build, "--buildoptions"))}
        self.version = json.loads(run(*meson, "introspect", build, "--projectinfo"))["version"]
        self.debian_version = package_version(self.version)
        self.architecture = run("dpkg", "--print-architecture").strip()
        self.triplet = run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
        self.inference, self.library = ("libbinade-inference" + self.version, "libbinade" + self.version)
        self.work = work
        installed = work + "/installed"
        run(*meson, "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", installed)
        prefix = installed + options["prefix"]
        self.libdir, self.includedir, self.bindir = (os.path.join(prefix, options[key]) for key in ("libdir", "includedir", "bindir"))

    def root(self, package):
        return f"{self.work}/debian/{package}"

    def move(self, package, path, to):
        """Moves a file or folder into the package, as /usr/TO."""
        target = f"{self.root(package)}/usr/{to}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.move(path, target)
        return target

    def collect(self):
        libdir = f"lib/{self.triplet}"
        self.objects = {package: [self.move(package, f"{self.libdir}/{name}.so.{self.version}", f"{libdir}/{name}.so.{self.version}")]
                        for package, name in ((self.inference, "libbinade_inference"), (self.library, "libbinade"))}
        if os.path.exists(f"{self.libdir}/libbinade_mpi.so"):
            self.objects["binade-mpi"] = [self.move("binade-mpi", f"{self.libdir}/libbinade_mpi.so", f"{libdir}/libbinade_mpi.so")]
        onnx = f"libbinade_onnx.so.{self.version}"
        if os.path.exists(f"{self.libdir}/{onnx}"):
            self.objects["binade-onnx"] = [self.move("binade-onnx", f"{self.libdir}/{onnx}", f"{libdir}/{onnx}")]
            for name in ("libbinade_onnx.so", "pkgconfig/binade-onnx.pc"):
                self.move("binade-onnx", f"{self.libdir}/{name}", f"{libdir}/{name}")
        for name in ("libbinade.so", "libbinade_inference.so", "pkgconfig", "cmake"):
            self.move("libbinade-dev", f"{self.libdir}/{name}", f"{libdir}/{name}")
        for name in ("binade.h", "binade"):
            self.move("libbinade-dev", f"{self.includedir}/{name}", f"include/{name}")
        self.make_prefix_usual(libdir)
        self.objects["binade-tools"] = [self.move("binade-tools", f"{self.bindir}/{name}", f"bin/{name}")
                                        for name in sorted(os.listdir(self.bindir))]
        left = [os.path.relpath(os.path.join(folder, name), self.work + "/installed")
                for folder, _, names in os.walk(self.work + "/installed") for name in names]
        if unknown := [path for path in left if os.path.basename(path) != "libbinade_cuda.so"]:
            sys.exit(f"debian.py: installed, but in none of the packages: {', '.join(unknown)}")
        for path in sum(self.objects.values(), []):
            run("strip", "--strip-unneeded", path)
            os.chmod(path, 0o644 if "/lib/" in path else 0o755)

    def make_prefix_usual(self, libdir):
        """Adapts the pkg-config and CMake files of a build with another libdir: in packages it is /usr/lib/TRIPLET."""
        up = os.path.relpath(".", libdir)
        files = {"libbinade-dev": ["pkgconfig/binade.pc", "pkgconfig/binade-inference.pc"], "binade-onnx": ["pkgconfig/binade-onnx.pc"] if "binade-onnx" in self.objects else []}
        changes = [(package, name, pattern, to) for package, names in files.items() for name in names
                   for pattern, to in ((r"^prefix=.*$", f"prefix=${{pcfiledir}}/../{up}"), (r"^libdir=.*$", f"libdir=${{prefix}}/{libdir}"),
                                       (r"^includedir=.*$", "includedir=${prefix}/include"))]
        changes.append(("libbinade-dev", "cmake/binade/binade-config.cmake", r'"\$\{_binade_libdir\}/\.\./[./]*[^"]*"',
                        f'"${{_binade_libdir}}/{up}/include"'))
        for package, name, pattern, to in changes:
            path = f"{self.root(package)}/usr/{libdir}/{name}"
            with open(path, encoding="utf-8") as file:
                text, count = re.subn(pattern, lambda _: to, file.read(), flags=re.MULTILINE)
            if count != 1:
                sys.exit(f"debian.py: {name} has {count} lines that match {pattern}; wanted one")
            write(path, text)

    def shlibs(self, package):
        """The line by which dpkg-shlibdeps finds the package of a library of Binade."""
        return f"{'libbinade_inference' if package == self.inference else 'libbinade'} {self.version} {package} (= {self.debian_version})\n"

    def shared_libraries(self, package):
        """The packages on which the package's programs and libraries depend, by dpkg-shlibdeps."""
        os.makedirs(self.root(package) + "/DEBIAN", exist_ok=True)  # tells dpkg-shlibdeps that this is a package's folder
        write(self.work + "/debian/control", f"Source: binade\n\nPackage: {package}\nArchitecture: any\n")
        write(self.work + "/debian/shlibs.local", "".join(self.shlibs(library) for library in (self.inference, self.library)))
        search = [f"-l{self.root(library)}/usr/lib/{self.triplet}" for library in (self.inference, self.library)]
        line = run("dpkg-shlibdeps", "-O", *search, *(f"-e{path}" for path in self.objects[package]), cwd=self.work)
        return re.fullmatch(r"shlibs:Depends=(.*)\n", line)[1]

    def control(self, package, kind, depends, fields=""):
        root = self.root(package)
        part, about = ABOUT[kind]
        copyright_file = f"{root}/usr/share/doc/{package}/copyright"
        with open(SOURCE + "/LICENSE", encoding="utf-8") as file:
            title, owner, text = file.read().split("\n\n", 2)
        assert title == "MIT License", title
        write(copyright_file, "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\n"
              f"{owner.replace('(c) ', '').replace('Copyright ', 'Copyright: ')}\nLicense: Expat\n{wrapped(text)}")
        with open(SOURCE + "/CHANGELOG.md", "rb") as file, open(f"{root}/usr/share/doc/{package}/changelog.gz", "wb") as to:
            with gzip.GzipFile("", "wb", 9, to, mtime=0) as compressed:
                compressed.write(file.read())
        files = sorted(os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names)
        size = sum(os.lstat(f"{root}/{path}").st_size for path in files)
        sums = "".join(f"{hashlib.md5(open(f'{root}/{path}', 'rb').read()).hexdigest()}  {path}\n"
                       for path in files if not os.path.islink(f"{root}/{path}"))
        write(root + "/DEBIAN/md5sums", sums)
        write(root + "/DEBIAN/control", f"Package: {package}\nSource: binade\nVersion: {self.debian_version}\n"
              f"Architecture: {self.architecture}\nMaintainer: {MAINTAINER}\nInstalled-Size: {size // 1024 + len(files)}\n"
              f"Depends: {depends}\n{fields}Priority: optional\n" + DESCRIPTION.format(summary=SUMMARY, part=part, about=about))

    def make(self, folder):
        self.collect()
        for library, kind in ((self.inference, "inference"), (self.library, "library")):
            write(self.root(library) + "/DEBIAN/shlibs", self.shlibs(library))
            write(self.root(library) + "/DEBIAN/triggers", "activate-noawait ldconfig\n")
            self.control(library, kind, self.shared_libraries(library), "Section: libs\nMulti-Arch: same\n")
        self.control("libbinade-dev", "dev", f"{self.inference} (= {self.debian_version}), {self.library} (= {self.debian_version}), libfmt-dev",
                     "Section: libdevel\nMulti-Arch: same\n")
        self.control("binade-tools", "tools", self.shared_libraries("binade-tools"), "Section: science\n")
        packages = [self.inference, self.library, "libbinade-dev", "binade-tools"]
        if "binade-mpi" in self.objects:
            self.control("binade-mpi", "mpi", f"{self.library} (= {self.debian_version}), {self.shared_libraries('binade-mpi')}", "Section: libs\n")
            packages.append("binade-mpi")
        if "binade-onnx" in self.objects:
            self.control("binade-onnx", "onnx", self.shared_libraries("binade-onnx"), "Section: libs\n")
            packages.append("binade-onnx")
        os.makedirs(folder, exist_ok=True)
        env = {**os.environ, "SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct") or os.environ.get("SOURCE_DATE_EPOCH", "0")}
        for package in packages:
            for path, _, _ in os.walk(self.root(package)):
                os.chmod(path, 0o755)
            deb = f"{folder}/{package}_{self.debian_version}_{self.architecture}.deb"
            run("dpkg-deb", "--root-owner-group", "--build", self.root(package), deb, env=env)
            yield deb


def main():
    os.umask(0o022)
    build, folder, *meson = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        for deb in Packages(build, meson or ["meson"], work).make(folder):
            print(deb)


if __name__ == "__main__":
    main()
