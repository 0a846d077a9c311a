#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the library, without ROS, on an emulated aarch64 (Cortex-A76: a Raspberry Pi 5).

    python3 tools/test_aarch64.py [PYTEST ARGUMENT...]

Builds a Debian 12 in build/aarch64 with wheels from PyPI, except ruckig, which has none and is
cross-compiled; compares results there with those here; runs the tests. Needs root, for chroot, and
apt's debootstrap, qemu-user-static, g++-aarch64-linux-gnu. Everything takes about ten times as long
as here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "build" / "aarch64"
ROOT = FOLDER / "root"
SITE = ROOT / "usr" / "local" / "lib" / "python3.11" / "dist-packages"
SUITE = "bookworm"
PACKAGES = "python3,libpython3-dev,libstdc++6,libgomp1"
QEMU, COMPILER = "qemu-aarch64-static", "aarch64-linux-gnu-g++"
NEEDED = {
    "debootstrap": "debootstrap", QEMU: "qemu-user-static", COMPILER: "g++-aarch64-linux-gnu",
    "unshare": "util-linux",
}  # fmt: skip
PLATFORMS = [f"manylinux_2_{minor}_aarch64" for minor in (17, 26, 27, 28, 34)]
PLATFORMS.append("manylinux2014_aarch64")
SOURCES = ("ruckig", "urdf-parser-py")
"""Requirements without wheels for aarch64; the second one is Python only."""
TESTS = [f"test/{room}" for room in ("kernels", "trajectory", "ik", "bases", "scene", "planning")]
CPU_INFO = """processor\t: 0
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc \
dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x4
CPU part\t: 0xd0b
CPU revision\t: 1

"""
"""As a Cortex-A76 shows itself; LLVM reads the model from it."""
START = """
mount --bind "$2" "$1/src" && mount --rbind /proc "$1/proc" &&
mount --bind "$1/cpuinfo" "$1/proc/cpuinfo" || exit 1
root=$1; shift 2; cd / && exec chroot "$root" /usr/bin/qemu-aarch64-static /usr/bin/python3 "$@"
"""
IN_SOURCE = "import os, runpy, sys; os.chdir('/src'); del sys.argv[0]; "
MODULE = IN_SOURCE + "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
STARTER = '''"""Processes that tests start are emulated, too."""
import os
import _posixsubprocess

_QEMU, _start = b"/usr/bin/qemu-aarch64-static", _posixsubprocess.fork_exec


def _emulated(arguments, files, *others):
    found = next((file for file in files if os.access(file, os.X_OK)), files[0])
    words = [_QEMU, found, *arguments[1:]]
    return _start(words, [_QEMU], *others)


_posixsubprocess.fork_exec = _emulated
'''
RESULTS = """
import sys
import numpy as np, motion_nodes
robot = motion_nodes.load_robot("franka")
arm, found = robot["arm"], {}
q = arm.random(200, seed=1)
found["fk"] = arm.fk(q)
found["jacobian"] = arm.jacobian(q)
found["ik"] = arm.ik_batch(found["fk"]).q
found["free"] = arm.collision_free(q)
np.savez(sys.argv[1], **found)
"""


def run(*words: object, **options: object) -> None:
    """Run a command; end if it fails."""
    print("+", " ".join(map(str, words))[:150], flush=True)
    if subprocess.run([str(word) for word in words], check=False, **options).returncode:  # type: ignore[call-overload]
        sys.exit(f"failed: {words[0]}")


def emulated(*words: object) -> int:
    """Run Python with some words in the root, with the repository as /src; return its exit code."""
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONPATH": "/src",
        "PYTHONPYCACHEPREFIX": "/tmp/pycache", "QEMU_CPU": "cortex-a76",
        "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    line = ["unshare", "--mount", "sh", "-c", START, "sh", ROOT, REPOSITORY, *words]
    return subprocess.run([str(word) for word in line], check=False, env=environment).returncode


def requirements() -> list[str]:
    """Return what the library and its tests need, without sources."""
    found = "pytest pytest-timeout hypothesis pin pillow matplotlib psutil".split()
    for kind in ("run", "sim", "viewer"):
        lines = (REPOSITORY / "requirements" / f"{kind}.txt").read_text("utf-8").splitlines()
        found += [line for line in lines if line and not line.startswith(("#", *SOURCES))]
    return found


def pip(*words: object) -> None:
    """Run pip with the pinned versions."""
    constraints = REPOSITORY / "requirements" / "constraints.txt"
    run(sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *words, "-c", constraints)


def build() -> None:
    """Create the root, unless it is there and as now required."""
    state = hashlib.sha256(Path(__file__).read_bytes() + "\n".join(requirements()).encode())
    ready = FOLDER / "ready"
    if ready.exists() and ready.read_text() == state.hexdigest():
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    run("debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", f"--include={PACKAGES}",
        SUITE, ROOT)  # fmt: skip
    # Unpacked, not configured: the second stage would start processes, which needs binfmt_misc.
    for package in sorted((ROOT / "var" / "cache" / "apt" / "archives").glob("*.deb")):
        script = 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink'
        run("sh", "-c", script + " --skip-old-files", "sh", package, ROOT)
    if (ROOT / "proc").is_symlink():
        (ROOT / "proc").unlink()
    for name in ("src", "proc", "tmp"):
        (ROOT / name).mkdir(exist_ok=True)
    (ROOT / "cpuinfo").write_text(CPU_INFO)
    shutil.copy(str(shutil.which(QEMU)), ROOT / "usr" / "bin" / QEMU)
    chosen = [f"--platform={name}" for name in PLATFORMS]
    pip("install", "--target", SITE, "--python-version=3.11", "--implementation=cp", *chosen,
        "--only-binary=:all:", *requirements())  # fmt: skip
    pip("install", "--target", SITE, "--no-deps", "--upgrade", "urdf-parser-py")
    ruckig()
    (SITE / "emulated_processes.py").write_text(STARTER)
    (SITE / "emulated_processes.pth").write_text("import emulated_processes\n")
    ready.write_text(state.hexdigest())


def ruckig() -> None:
    """Compile ruckig."""
    pip("download", "-d", FOLDER / "ruckig", "--no-deps", "--no-binary=ruckig", "ruckig")
    pip("install", "--target", FOLDER / "nanobind", "nanobind")
    (archive,) = (FOLDER / "ruckig").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(FOLDER / "ruckig", filter="data")
    source = FOLDER / "ruckig" / archive.name.removesuffix(".tar.gz")
    binding, headers = FOLDER / "nanobind" / "nanobind", ROOT / "usr" / "include"
    folders = [source / "include", binding / "include", binding / "ext" / "robin_map" / "include",
               headers / "python3.11"]  # fmt: skip
    files = [f for f in (source / "src" / "ruckig").glob("*.cpp") if "cloud" not in f.name]
    run(COMPILER, "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-DNDEBUG", "-w",
        "-fno-strict-aliasing", *[f"-I{folder}" for folder in folders], "-idirafter", headers,
        *files, source / "src" / "wrapper" / "python.cpp", binding / "src" / "nb_combined.cpp",
        "-o", SITE / "ruckig.cpython-311-aarch64-linux-gnu.so")  # fmt: skip


def compare() -> None:
    """Print how far results there are from those here."""
    import numpy as np

    places = FOLDER / "here.npz", ROOT / "tmp" / "there.npz"
    run(REPOSITORY / ".venv" / "bin" / "python", "-c", RESULTS, places[0])
    if emulated("-c", RESULTS, "/tmp/there.npz"):
        sys.exit("failed: results on aarch64")
    here, there = (np.load(place) for place in places)
    for name in here:
        a, b = here[name], there[name]
        if a.shape != b.shape:
            print(f"{name}: shapes {a.shape} here and {b.shape} on aarch64")
        else:
            apart = np.abs(np.asarray(a, float) - np.asarray(b, float))
            print(f"{name}: {a.size} numbers, at most {np.nanmax(apart):.2g} apart", flush=True)


def main() -> int:
    """Build, compare, test; return pytest's exit code."""
    missing = [package for program, package in NEEDED.items() if not shutil.which(program)]
    if missing:
        sys.exit(f"missing: sudo apt install {' '.join(missing)}")
    if os.geteuid() != 0:
        sys.exit("chroot needs root: sudo make test-aarch64")
    build()
    compare()
    options = ["-q", "-p", "no:cacheprovider", "--timeout=3000", "-m", "not long and not real_time"]
    return emulated("-c", MODULE, "pytest", *options, *(sys.argv[1:] or TESTS))


if __name__ == "__main__":
    sys.exit(main())
