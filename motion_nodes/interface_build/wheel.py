# SPDX-License-Identifier: Apache-2.0
"""The wheel of compiled interfaces: its key, its place in the user's cache, its installation."""

from __future__ import annotations

import base64
import contextlib
import csv
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from motion_nodes.interface_build.declarations import BuildError, declared_files, package_names

_FEW = 3
"""Packages up to which all their names are part of the wheel's name."""
_GLIBC = re.compile(rb"GLIBC_2\.(\d+)")
_KEPT = 5  # builds in the cache: several clones and interpreters, but no endless growth


def interpreter_facts() -> dict[str, str]:
    """Return the dependencies of a compiled interface besides its sources.

    These are the interpreter with its ABI, the machine, and the versions of the ROS wheels, of
    numpy (compiled against) and of empy (which expands the generators' templates).
    """
    facts = {
        "python": platform.python_version(),
        "abi": str(sysconfig.get_config_var("SOABI")),
        "platform": sysconfig.get_platform(),
        "library path": library_path(Path(sys.prefix)),
    }
    for distribution in importlib.metadata.distributions():
        name = _normalized(distribution.metadata["Name"])
        if name.startswith("ros-") or name in {"numpy", "empy"}:
            facts[name] = distribution.version
    return facts


def library_path(prefix: Path) -> str:
    """Return the way from an installed package of messages to the environment's lib/ folder."""
    return os.path.relpath(prefix / "lib", Path(sysconfig.get_path("platlib")) / "package")


def build_key(source: Path, tools: Iterable[Path], facts: Mapping[str, str]) -> str:
    """Return the name of a build: equal keys mean equal wheels.

    Args:
        source: folder of the declarations, with its VERSION.
        tools: files of the build tool.
        facts: what else the result depends on, see `interpreter_facts`.

    Returns:
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()

    def add(name: str, content: bytes) -> None:
        # The lengths keep two neighbours from flowing into one another.
        for part in (name.encode(), content):
            digest.update(len(part).to_bytes(8, "big") + part)

    for file in [*source.glob("VERSION"), *declared_files(source)]:
        add(file.relative_to(source).as_posix(), file.read_bytes())
    for file in sorted(tools):
        add(f"tool {file.name}", file.read_bytes())
    for name, value in sorted(facts.items()):
        add(f"fact {name}", value.encode())
    return digest.hexdigest()


def distribution_name(source: Path) -> str:
    """Return the name of the wheel: that of source/NAME, else one made of its packages' names.

    Wheels of different packages have different names, so installing one removes no other.
    """
    path = source / "NAME"
    if path.is_file():
        return path.read_text("utf-8").strip()
    names = sorted(package_names(source))
    if len(names) > _FEW:
        digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]
        names = [names[0], f"and-{len(names) - 1}-more", digest]
    return "interfaces-" + "-".join(names).replace("_", "-").lower()


def plain_version(source: Path) -> str:
    """Return the version of the declarations: source/VERSION, else 0.0.0.

    Raises:
        BuildError: source/VERSION is no version.
    """
    path = source / "VERSION"
    text = path.read_text("utf-8").strip() if path.is_file() else "0.0.0"
    if not re.fullmatch(r"\d+(\.\d+)*", text):
        raise BuildError(f"{path} must hold a version such as 0.1.0; it holds '{text}'.")
    return text


def wheel_version(source: Path, key: str) -> str:
    """Return the version of a build, such as ``0.1.0+b1f2e3d4c5b6a``: it carries the key.

    Raises:
        BuildError: see :func:`plain_version`.
    """
    # The letter keeps pip from reading the digits as a number.
    return f"{plain_version(source)}+b{key[:12]}"


def wheel_name(distribution: str, version: str) -> str:
    """Return the file name of a wheel for this interpreter and machine."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    machine = re.sub("[-.]", "_", sysconfig.get_platform())
    return f"{distribution.replace('-', '_')}-{version}-{python}-{python}-{machine}.whl"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's cache folder of compiled interfaces: XDG_CACHE_HOME, else ~/.cache."""
    given = Path(environment.get("XDG_CACHE_HOME", ""))
    # The XDG specification has relative paths ignored.
    base = given if given.is_absolute() else Path.home() / ".cache"
    return base / "motion_nodes" / "interfaces"


def is_whole(wheel: Path) -> bool:
    """Tell whether a wheel is there and undamaged."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


@contextlib.contextmanager
def locked(folder: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Let one process at a time build into a cache folder; others wait and find the result."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another build is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def prune(folder: Path, kept: int = _KEPT) -> None:
    """Remove all but the newest builds from a cache folder."""
    wheels = sorted(folder.glob("*.whl"), key=lambda p: p.stat().st_mtime, reverse=True)
    for wheel in wheels[kept:]:
        wheel.unlink()


def release_name(distribution: str, version: str, folder: Path) -> str:
    """Return the file name of a wheel for other machines of this architecture (PEP 600).

    Args:
        distribution: name of the wheel.
        version: of the wheel.
        folder: with its libraries, which need the C library of this machine or an older one.
    """
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found = [int(n) for file in folder.rglob("*.so") for n in _GLIBC.findall(file.read_bytes())]
    tag = f"manylinux_2_{max([17, *found])}_{platform.machine()}"
    return f"{distribution.replace('-', '_')}-{version}-{python}-{python}-{tag}.whl"


def requirements() -> list[str]:
    """Return what a wheel needs where it is installed: the ROS wheels that it was linked with."""
    exact = ("ros-jazzy-rclpy", "ros-common-interfaces")
    return [f"{name}=={importlib.metadata.version(name)}" for name in exact] + ["numpy>=1.26"]


def pack(data: Path, platlib: Path, version: str, target: Path, needed: Iterable[str] = ()) -> None:
    """Write a wheel; the target appears whole or not at all.

    Args:
        data: becomes the prefix of the environment (share/, lib/).
        platlib: becomes site-packages.
        version: of the wheel.
        target: path of the wheel.
        needed: its requirements.
    """
    distribution = target.stem.split("-")[0]
    stem = f"{distribution}-{version}"
    tag = "-".join(target.stem.split("-")[-3:])
    contents = {f"{stem}.data/data/{_below(f, data)}": f.read_bytes() for f in _files(data)}
    contents |= {_below(f, platlib): f.read_bytes() for f in _files(platlib)}
    info = f"{stem}.dist-info"
    contents[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: motion_nodes\nRoot-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {distribution.replace('_', '-')}\nVersion: {version}\n"
        "License: Apache-2.0\n"
        "Summary: compiled ROS 2 message packages of motion_nodes\n"
        + "".join(f"Requires-Dist: {each}\n" for each in needed)
    ).encode()
    rows = [f"{name},{_digest(content)},{len(content)}" for name, content in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in contents.items():
                entry = zipfile.ZipInfo(name)  # with its fixed date: equal builds, equal bytes
                entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=1)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.rglob("*") if f.is_file())


def _below(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()


def _digest(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return f"sha256={digest.rstrip(b'=').decode()}"


def is_installed(wheel: Path) -> bool:
    """Tell whether this very build is installed in this interpreter, with all its files."""
    name, version = wheel.stem.split("-")[:2]
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    # Not distribution.files: the backport importlib_metadata omits missing files there.
    names = [row[0] for row in csv.reader((distribution.read_text("RECORD") or "").splitlines())]
    files = [distribution.locate_file(name) for name in names if "__pycache__" not in name]
    return distribution.version == version and all(Path(str(file)).exists() for file in files)


def check_no_other_owner(distribution: str, packages: Iterable[str]) -> None:
    """Check that no other distribution of this interpreter has one of the packages.

    Raises:
        BuildError: one has; installing would overwrite its files.
    """
    packages = set(packages)
    for other in importlib.metadata.distributions():
        name = _normalized(other.metadata["Name"])
        taken = packages & {file.parts[0] for file in other.files or ()}
        if taken and name != _normalized(distribution):
            raise BuildError(
                f"{', '.join(sorted(taken))} is already installed in {sys.prefix} by {name}; "
                f"remove it first ({sys.executable} -m pip uninstall {name}), or take the package "
                "out of the declarations."
            )


def _normalized(name: str | None) -> str:
    return re.sub(r"[-_.]+", "-", name or "").lower()


def _installer() -> list[str]:
    """Return the command that installs into this interpreter: pip's, or uv's without pip."""
    if importlib.util.find_spec("pip"):
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
        return [*pip, "--force-reinstall"]
    uv = shutil.which("uv")
    if uv is None:
        raise BuildError(
            f"{sys.executable} has no pip to install the message packages with; run: "
            f"{sys.executable} -m ensurepip"
        )
    return [uv, "pip", "install", "--python", sys.executable, "--reinstall"]


def install(wheel: Path) -> None:
    """Install a wheel in this interpreter, without asking any index.

    Raises:
        BuildError: there is no installer or it refuses; has its last line.
    """
    command = [*_installer(), "--no-deps", "--no-index", "-q", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise BuildError(f"{wheel} could not be installed in {sys.executable}: {last}")
