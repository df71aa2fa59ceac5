#!/usr/bin/env python3
"""run.py FOLDER [TEST...]: compiles Binade for 64-bit Arm, and runs test programs under QEMU; by default core/core_tests.

It needs Debian or Ubuntu with g++-aarch64-linux-gnu, qemu-user, meson, ninja and pkg-config, and a network. `./dev arm64`
installs the first two and runs it. README.md explains what the result means.
"""
import glob
import os
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRIPLET = "aarch64-linux-gnu"
PACKAGES = ("libc6-dev", "libfmt-dev", "libeigen3-dev", "libhdf5-dev", "libpng-dev", "zlib1g-dev", "libzip-dev", "nlohmann-json3-dev", "libcli11-dev", "libssl-dev", "libkissfft-dev", "libturbojpeg0-dev", "libsndfile1-dev",
            "libgtest-dev", "libgmock-dev")

# A separate configuration of apt: it installs nothing on this machine, and keeps its lists and downloads in the folder.
APT = """\
Dir::State "{folder}/apt";
Dir::State::status "{folder}/apt/status";
Dir::Cache "{folder}/apt";
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "";
Debug::NoLocking "true";
"""
CROSS = """\
[binaries]
cpp = {compiler}
ar = '{triplet}-ar'
strip = '{triplet}-strip'
nm = '{triplet}-nm'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '{sysroot}']

[properties]
sys_root = '{sysroot}'
pkg_config_libdir = ['{sysroot}/usr/lib/{triplet}/pkgconfig', '{sysroot}/usr/share/pkgconfig']

[built-in options]
cpp_args = ['--sysroot={sysroot}']
cpp_link_args = ['--sysroot={sysroot}']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'armv8-a'
endian = 'little'
"""


def run(*command, **environment):
    print("+", " ".join(command), flush=True)
    subprocess.run(command, check=True, env={**os.environ, **environment})


def make_sysroot(folder):
    """Downloads the arm64 packages with their dependencies, and extracts them into FOLDER/sysroot."""
    sysroot, apt = folder + "/sysroot", folder + "/apt"
    if os.path.exists(sysroot + "/complete"):
        return sysroot
    for part in ("lists/partial", "archives/partial"):
        os.makedirs(f"{apt}/{part}", exist_ok=True)
    open(apt + "/status", "w", encoding="utf-8").close()
    with open(apt + "/apt.conf", "w", encoding="utf-8") as file:
        file.write(APT.format(folder=folder))
    run("apt-get", "-q", "update", APT_CONFIG=apt + "/apt.conf")
    run("apt-get", "-q", "-y", "--download-only", "install", *PACKAGES, APT_CONFIG=apt + "/apt.conf")
    os.makedirs(sysroot, exist_ok=True)
    for deb in sorted(glob.glob(apt + "/archives/*.deb")):
        subprocess.run(("dpkg-deb", "--extract", deb, sysroot), check=True)
    # Normally the scripts of the packages do this: select the serial version of HDF5.
    pc = f"{sysroot}/usr/lib/{TRIPLET}/pkgconfig/hdf5.pc"
    if not os.path.lexists(pc):
        os.symlink("hdf5-serial.pc", pc)
    open(sysroot + "/complete", "w", encoding="utf-8").close()
    return sysroot


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder, tests = os.path.abspath(sys.argv[1]), sys.argv[2:] or ["core/core_tests"]
    os.makedirs(folder, exist_ok=True)
    sysroot, build = make_sysroot(folder), folder + "/build"
    compiler = [f"{TRIPLET}-g++"]
    if subprocess.run(("ccache", "--version"), capture_output=True, check=False).returncode == 0:
        compiler.insert(0, "ccache")
    with open(folder + "/cross.ini", "w", encoding="utf-8") as file:
        file.write(CROSS.format(compiler=compiler, triplet=TRIPLET, sysroot=sysroot))
    if not os.path.exists(build + "/build.ninja"):
        run("meson", "setup", build, SOURCE, f"--cross-file={folder}/cross.ini", "-Ddebug=false", "-Dcuda=disabled", "-Dbenchmarks=false",
            "-Dtests=enabled", "--wrap-mode=nofallback")
    run("ninja", "-C", build, *[f"tests/{test}" for test in tests])
    golden = {"BINADE_SOURCE_DIR": SOURCE, "BINADE_GOLDEN_DIR": SOURCE + "/tests/golden/data"}
    failed = 0
    for test in tests:
        command = ("qemu-aarch64", "-L", sysroot, f"{build}/tests/{test}", "--gtest_brief=1", "--gtest_filter=-*DeathTest*")
        print("+", " ".join(command), flush=True)
        failed += subprocess.run(command, check=False, env={**os.environ, **golden}).returncode != 0
    print(f"64-bit Arm: {len(tests) - failed} of {len(tests)} test programs passed under QEMU")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"run.py: {error}")
